"""The demo tells the truth in figures, writes one page that needs nothing else, and files for the other commands."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.parsers.expat import ParserCreate

import polars as pl
import pytest
from rich.console import Console

from alteraser.cli.output import show

MODELS = ("original", "unlearned", "retrained")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "demo"


@pytest.fixture(scope="module")
def told(ok: Any, folder: Path) -> tuple[Any, str]:
    """What one run on the small set says as JSON and to people; it is run once, because it takes seconds."""
    told = io.StringIO()

    def show_both(result: Any, *, as_json: bool, human: Callable[[Console], None]) -> None:
        human(Console(file=told, width=200, markup=False, emoji=False))
        show(result, as_json=as_json, human=human)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alteraser.cli.demo.show", show_both)
        return ok("demo", "--dataset", "synthetic", "--out", folder), told.getvalue()


@pytest.fixture(scope="module")
def result(told: tuple[Any, str]) -> Any:
    return told[0]


@pytest.fixture(scope="module")
def page(result: Any, folder: Path) -> str:
    assert result["out"] == str(folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_account_is_gone_and_the_others_fare_as_if_retrained(result: Any) -> None:
    account = result["account"]
    assert account["re_predict"]["original"] > 0.1
    assert account["re_predict"]["unlearned"] == account["re_predict"]["retrained"] == 0.0
    assert account["rbo"]["unlearned"] >= account["rbo"]["original"]
    assert account["n_others"] == 1499
    assert account["rows_visited"] < account["n_rows"] == 2100
    assert account["times_faster"] == account["retraining_seconds"] / account["seconds"]


def test_the_account_is_one_of_average_activity(result: Any, folder: Path) -> None:
    per_user = pl.read_parquet(folder / "full.parquet").group_by("user_id").len()["len"]
    assert abs(result["account"]["n_interactions"] - per_user.mean()) < 1


def test_the_unlearned_model_is_as_if_retrained(result: Any) -> None:
    scores = {name: result["models"][name]["re_predict"] for name in MODELS}
    assert scores["original"] > 4 * scores["retrained"]
    assert abs(scores["unlearned"] - scores["retrained"]) < 0.05 * (scores["original"] - scores["retrained"])
    forgetting = {name: result["models"][name]["forgetting"] for name in MODELS}
    assert forgetting["unlearned"]["rbo"]["10"] > forgetting["original"]["rbo"]["10"] + 0.3
    assert forgetting["unlearned"]["ndcg"]["10"] > forgetting["original"]["ndcg"]["10"]
    losses = {name: result["models"][name]["loss"] for name in MODELS}
    assert losses["unlearned"] < losses["original"]
    assert losses["unlearned"] == pytest.approx(losses["retrained"], rel=1e-3)
    assert set(result["seconds"]) == {"unlearned", "retrained"}, "training stands apart"


def test_the_list_shown_loses_what_was_not_the_users(result: Any) -> None:
    topic, lists = result["example"]["topic"], result["example"]["lists"]
    marked = {name: sum(text.startswith(f"{topic}: ") for text in lists[name]) for name in MODELS}
    assert marked["original"] >= 5
    assert marked["unlearned"] <= 1
    assert all(len(lists[name]) == 10 for name in MODELS)


class References(HTMLParser):
    """Collects what a page would load or lead to, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.elements: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attributes:
            if name.split(":")[-1] in ("src", "href", "srcset", "data", "action", "poster", "resource"):
                self.found.append(value or "")


def test_the_page_is_one_file(page: str) -> None:
    references = References()
    references.feed(page)
    assert "svg" in references.elements
    assert not {"script", "link", "img", "iframe", "object", "embed", "image"} & references.elements
    assert all(target.startswith("#") for target in references.found)
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)]*)\)", page))
    assert "@import" not in page
    addresses = set(re.findall(r"\w+://[^\s\"'<>]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, never loaded


def test_the_page_shows_the_story(page: str, result: Any) -> None:
    assert all(name in page for name in MODELS)
    plots = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(plots) >= 4
    for plot in plots:
        ParserCreate().Parse(plot, True)  # raises unless it is whole XML
    assert 'class="marked"' in page
    for lines in result["example"]["lists"].values():
        assert all(line.replace("'", "&#39;") in page for line in lines)


def test_the_page_explains_its_measures_and_says_where_it_comes_from(page: str, folder: Path) -> None:
    for measure in ("RBO", "Re-predict score", "NDCG, recall"):
        assert page.count(f"<dt>{measure}</dt>") == 1
    assert page.count("better.</dd>") == 2
    shown, _, folded = page.partition("<details>")
    assert "All figures" not in shown
    for name in MODELS:
        manifest = json.loads((folder / name / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["sha256"] in folded
        assert manifest["data"]["sha256"] in folded
    assert f"{datetime.now(UTC):%Y-%m}" in folded
    for setting in ("w0", "l2", "trainer", "tolerance"):
        assert f"<td>{setting}</td>" in folded


def test_figures_have_one_precision(page: str) -> None:
    visible = re.sub(r"<style.*?</style>|<details.*?</details>|<[^>]*>", " ", page, flags=re.DOTALL)
    seconds = re.findall(r"\d+\.(\d+) s\b", visible)
    assert len(seconds) >= 6
    assert {len(decimals) for decimals in seconds} == {3}
    for measure in ("RBO@10", "NDCG@10", "Recall@10"):
        row = re.search(rf"{measure}, other users\s+([\d.\s]+?)\s+[A-Z]", visible)
        assert row is not None
        assert all(re.fullmatch(r"[01]\.\d{4}", figure) for figure in row[1].split())


def test_the_files_serve_the_other_commands(ok: Any, result: Any, folder: Path, tmp_path: Path) -> None:
    model2, rest = tmp_path / "model2", tmp_path / "rest.parquet"
    requests = ("--requests", folder / "requests.csv")
    given = ("forget", folder / "original", folder / "full.parquet", *requests)
    ok(*given, "--out", model2, "--remaining", rest)
    assert pl.read_parquet(rest).equals(pl.read_parquet(folder / "remaining.parquet"))
    named = [part for name in MODELS for part in ("--model", f"{name}={folder / name}")]
    report = ok(
        *("compare", "--data", folder / "full.parquet", *requests, *named, "--model", f"by hand={model2}"),
        *("--reference", "retrained", "--test", folder / "test.parquet"),
    )
    scores = {name: each["re_predict"] for name, each in report["models"].items()}
    for name in MODELS:
        assert scores[name] == pytest.approx(result["models"][name]["re_predict"], rel=1e-4)
    assert abs(scores["by hand"] - scores["retrained"]) < 0.05 * (scores["original"] - scores["retrained"])
    # What the demo's unlearned model remains with can be forgotten from, too.
    some = tmp_path / "some.csv"
    pl.read_parquet(rest).head(1).select(user="user_id").write_csv(some)
    asked = ("forget", folder / "unlearned", folder / "remaining.parquet", "--requests", some)
    assert ok(*asked, "--out", tmp_path / "model3")["requests"]["honoured"] == 1


def test_what_it_prints_for_people(told: tuple[Any, str], folder: Path) -> None:
    result, text = told
    account = result["account"]
    headline = f"one account: {account['seconds']:.3f} s, retraining: {account['retraining_seconds']:.3f} s: "
    for part in (
        headline,
        *MODELS,
        "Re-predict score of the forgotten pairs",
        *result["example"]["lists"]["original"],
    ):
        assert part in text
    assert str(folder / "report.html") in text
    assert [path.name for path in folder.parent.iterdir()] == ["demo"]


def test_a_demo_replaces_another_only_by_force(run: Any, folder: Path, result: Any) -> None:
    assert result["out"] == str(folder)
    refused = run("demo", "--out", folder)
    assert refused.code == 2
    assert "--force" in refused.err
