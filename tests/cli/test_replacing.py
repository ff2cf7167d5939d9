"""`--force` over an old model: what was to be forgotten is gone afterwards, or the command says where it still lies."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import alteraser as ae

Ok = Callable[..., Any]


@pytest.fixture
def place(workspace: Path, tmp_path: Path) -> Path:
    """A folder with a model that is to be replaced, and remaining data."""
    shutil.copytree(workspace / "model", tmp_path / "model")
    (tmp_path / "rest.parquet").write_text("old")
    return tmp_path


def forget(workspace: Path, place: Path) -> tuple[object, ...]:
    data, requests = workspace / "data.csv", workspace / "requests.csv"
    outputs = ("--out", place / "model", "--remaining", place / "rest.parquet", "--force")
    return "forget", place / "model", data, "--requests", requests, *outputs


def check_belong_together(place: Path) -> None:
    stored = ae.load_version(place / "model")
    assert len(stored.history) == 1
    stored.aligned(ae.read_interactions(place / "rest.parquet", read_options=stored.read_options))


def test_an_old_model_that_cannot_be_removed_is_an_error_that_says_where_it_lies(
    run: Any, ok: Ok, workspace: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def refuse(path: Any, *, dir_fd: int | None = None) -> None:
        if os.fspath(path).endswith("manifest.json"):
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        ran = run(*forget(workspace, place))
    assert ran.code == 2
    assert ran.out == ""
    [old] = [each for each in place.iterdir() if each.name.startswith(".")]
    assert (old / "manifest.json").read_bytes() == (workspace / "model" / "manifest.json").read_bytes()
    assert f"is in place at {place / 'model'}" in ran.err
    assert str(old) in ran.err
    assert "by hand" in ran.err
    # The new model and its data belong together all the same, and the next run removes what was left.
    check_belong_together(place)
    ok("train", workspace / "plain.csv", "--max-passes", 0, "--out", place / "model", "--force")
    assert sorted(each.name for each in place.iterdir()) == ["model", "rest.parquet"]


def test_a_model_that_a_killed_run_had_set_aside_is_there_again(ok: Ok, workspace: Path, place: Path) -> None:
    shutil.copytree(place / "model", place / ".model.0123456789ab.tmp")
    (place / "model").rename(place / ".model.0123456789ab.old")
    ok(*forget(workspace, place))
    check_belong_together(place)
    assert sorted(each.name for each in place.iterdir()) == ["model", "rest.parquet"]
