"""`alteraser evaluate`: figures, notes and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, ok: Run) -> Path:
    """`train.csv`, `test.csv` and a `model` of the former."""
    folder = tmp_path_factory.mktemp("evaluate")
    ok("data", "split", "synthetic", "--train", folder / "train.csv", "--test", folder / "test.csv")
    ok("train", folder / "train.csv", "--dim", 8, "--w0", 0.1, "--l2", 0.01, "--out", folder / "model")
    return folder


def test_a_test_part(folder: Path, ok: Run, run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ("evaluate", folder / "model", folder / "train.csv", "--test", folder / "test.csv")
    result = ok(*arguments, "--html", page)
    assert list(result["models"]) == ["model", "most popular", "item kNN"]
    for figures in result["models"].values():
        assert set(figures) == {"recall", "ndcg", "hit_rate", "mrr", "coverage"}
        assert all(list(by_k) == ["10", "20", "50"] for by_k in figures.values())
    ndcg = {name: figures["ndcg"]["10"] for name, figures in result["models"].items()}
    assert ndcg["model"] > ndcg["most popular"]
    text = page.read_text("utf-8")
    assert text.count("<svg") == 5
    assert f"{ndcg['item kNN']:.4f}" in text
    shown = run(*arguments)
    assert f"{ndcg['model']:.4f}" in shown.out
    assert "times most popular" in shown.out


def test_a_held_out_share_is_judged_by_a_new_model(folder: Path, run: Run) -> None:
    arguments = ("evaluate", folder / "model", folder / "train.csv", "--holdout", 0.25, "--max-users", 50)
    ran = run(*arguments, "--json")
    assert ran.code == 0, ran.err
    assert "a new one is trained on 75% of it: enmf, same dimension and objective, by als" in ran.err
    result = ran.json
    assert (result["holdout"], result["judged_users"]) == (0.25, 50)
    assert result["test_users"] > 50
    assert result.pop("wall_seconds") > 0
    again = run(*arguments, "--json").json
    del again["wall_seconds"]
    assert again == result
    said = run(*arguments).out
    assert "50 of " in said
    assert said.splitlines()[-1].endswith(" s in all")


@pytest.mark.parametrize("share", [1.5, 1, 0, -0.2, "nan"])
def test_a_share_that_is_none(folder: Path, run: Run, share: object) -> None:
    """Refused before anything is said of how much of the data the rest would be."""
    ran = run("evaluate", folder / "model", folder / "train.csv", "--holdout", share)
    assert ran.code == 2
    assert ran.err == f"Error: --holdout is {share}; a share between 0 and 1 is wanted, as 0.2.\n"


@pytest.mark.parametrize("trained_on", ["train.dat", "train.csv"])
@pytest.mark.parametrize("name", ["test.csv", "headless.csv", "headless.dat", "test.parquet", "usual.tsv"])
def test_a_test_part_has_its_own_header_and_separator(
    folder: Path, ok: Run, tmp_path: Path, trained_on: str, name: str
) -> None:
    """Whichever way both parts are written, the figures are the same."""
    train, test = (
        pl.read_csv(folder / f"{part}.csv").select("user_id", "item_id") for part in ("train", "test")
    )
    text = {"include_header": False, "separator": "|"}
    train.write_csv(tmp_path / "train.dat", **text)  # type: ignore[call-overload]
    train.write_csv(tmp_path / "train.csv")
    held_out = {"test.csv": test, "usual.tsv": test.rename({"user_id": "userId", "item_id": "movieId"})}
    if name == "headless.dat":
        test.write_csv(tmp_path / name, **text)  # type: ignore[call-overload]
    elif name == "test.parquet":
        test.write_parquet(tmp_path / name)
    else:
        separator = "\t" if name.endswith("tsv") else ","
        table = held_out.get(name, test)
        table.write_csv(tmp_path / name, include_header=name in held_out, separator=separator)
    header = ("--no-header",) if trained_on == "train.dat" else ()
    small = ("--dim", 2, "--w0", 0.1, "--l2", 0.01, "--max-passes", 2)
    ok("train", tmp_path / trained_on, *header, *small, "--out", tmp_path / "model")
    result = ok("evaluate", tmp_path / "model", tmp_path / trained_on, "--test", tmp_path / name)
    assert result["test_users"] == test["user_id"].n_unique()
    assert result["unknown_test_interactions"] == 0
