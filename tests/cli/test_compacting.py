"""`alteraser compact`: the same model without tombstones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

Ok = Callable[..., Any]
USER = "person-004@mail.example"


def ids(model: Path, side: str) -> pl.Series:
    return pl.read_parquet(model / f"{side}.parquet")["id"]


@pytest.fixture(scope="module")
def forgotten(ok: Ok, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model2`, which has forgotten a user and an item wholly, and `rest.csv`."""
    folder = tmp_path_factory.mktemp("forgotten")
    asked = ("forget", workspace / "model", workspace / "data.csv", "--requests", workspace / "requests.csv")
    ok(*asked, "--out", folder / "model2", "--remaining", folder / "rest.csv")
    return folder


def test_tombstones_go_and_nothing_else(ok: Ok, run: Any, forgotten: Path, tmp_path: Path) -> None:
    result = ok("compact", forgotten / "model2", "--out", tmp_path / "model3")
    assert result == {
        "out": str(tmp_path / "model3"),
        "users": 39,
        "items": 24,
        "removed": {"users": 1, "items": 1},
    }
    for side in ("users", "items"):
        before, after = ids(forgotten / "model2", side), ids(tmp_path / "model3", side)
        assert (before.null_count(), after.null_count()) == (1, 0)
        assert after.to_list() == before.drop_nulls().to_list()
    old, new = (
        json.loads((path / "manifest.json").read_text())
        for path in (forgotten / "model2", tmp_path / "model3")
    )
    for same in ("data", "history", "training", "settings"):
        assert old[same] == new[same]
    said = run("compact", forgotten / "model2", "--out", tmp_path / "model4").out
    assert "forgotten users removed: 1, of forgotten items: 1" in said


def test_lists_and_further_forgettings_are_the_same(ok: Ok, forgotten: Path, tmp_path: Path) -> None:
    ok("compact", forgotten / "model2", "--out", tmp_path / "model3")
    (tmp_path / "more.csv").write_text("user\nperson-002@mail.example\n")
    lists, losses = [], []
    for number, model in enumerate((forgotten / "model2", tmp_path / "model3")):
        further = tmp_path / f"further{number}"
        asked = ("forget", model, forgotten / "rest.csv", "--requests", tmp_path / "more.csv")
        losses.append(ok(*asked, "--out", further)["cost"]["loss_after"])
        for each in (model, further):
            listed = ok("recommend", each, "--user", USER, "-k", 99, "--exclude", forgotten / "rest.csv")
            lists.append(pl.DataFrame(listed["recommendations"]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for as_it_was, compacted in zip(lists[:2], lists[2:], strict=True):
        assert as_it_was["item_id"].to_list() == compacted["item_id"].to_list()
        np.testing.assert_allclose(as_it_was["score"], compacted["score"], atol=1e-4)


def test_a_model_without_tombstones_is_written_unchanged_and_that_is_said(
    ok: Ok, run: Any, workspace: Path, tmp_path: Path
) -> None:
    ran = run("compact", workspace / "model", "--out", tmp_path / "same")
    assert ran.code == 0
    assert "unchanged" in ran.out
    for file in (workspace / "model").iterdir():
        assert (tmp_path / "same" / file.name).read_bytes() == file.read_bytes()
    result = ok("compact", workspace / "model", "--out", tmp_path / "same", "--force")
    assert result["removed"] == {"users": 0, "items": 0}


def test_a_model_can_be_compacted_in_its_place(run: Any, ok: Ok, forgotten: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    ok("compact", forgotten / "model2", "--out", model)
    refused = run("compact", forgotten / "model2", "--out", model)
    assert refused.code == 2
    assert "--force" in refused.err
    ok("compact", model, "--out", model, "--force")
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
    assert len(ids(model, "users")) == 39


def test_only_a_model_is_compacted(run: Any, workspace: Path, tmp_path: Path) -> None:
    refused = run("compact", workspace, "--out", tmp_path / "model")
    assert refused.code == 2
    assert "is not a model" in refused.err
    assert list(tmp_path.iterdir()) == []
