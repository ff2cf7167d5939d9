"""Results come back as they were written, with the commit they were measured at."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from alteraser.errors import DataError, WriteError
from evidence.store import Store


def test_a_result_is_read_as_it_was_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "results", commit="abc")
    store.create()
    store.write("b", store.stamped({"figures": [1.5, {"loss": 2}]}))
    store.write("a", {"figures": []})
    store.write("a", {"figures": ["again"]})
    assert dict(store.all()) == {
        "a": {"figures": ["again"]},
        "b": {"commit": "abc", "figures": [1.5, {"loss": 2}]},
    }
    assert sorted(path.name for path in store.folder.iterdir()) == ["a.json", "b.json"]


def test_a_figure_that_is_no_number_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("lost", {"loss": math.nan})
    assert math.isnan(store.read("lost")["loss"])


def test_what_fails_while_it_is_written_leaves_what_was_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("a", {"figures": 1})
    with pytest.raises(TypeError):
        store.write("a", {"figures": object()})
    assert store.read("a") == {"figures": 1}


def test_a_file_that_grows_begins_with_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.grown("case", "runs") == []
    store.write("case", {"runs": [{"run": 0}]})
    assert store.grown("case", "runs") == [{"run": 0}]


@pytest.mark.parametrize("text", ["{", "[1, 2]", ""])
def test_a_damaged_result_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match="not a whole result"):
        Store(tmp_path).read("x")


def test_a_folder_that_cannot_be_made_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot be a folder for results"):
        Store(tmp_path / "file").create()


@pytest.mark.parametrize("folder", ["docs/results", "benchmarks/results"])
def test_every_result_of_the_repository_can_be_read(folder: str) -> None:
    store = Store(Path(__file__).parents[2] / folder)
    assert len(dict(store.all())) >= 9
    for path in store.folder.glob("*.json"):
        assert store.read(path.stem) == json.loads(path.read_text(encoding="utf-8"))
