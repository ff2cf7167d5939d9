"""`alteraser evaluate`: figures, notes and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
