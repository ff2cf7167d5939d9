"""Nothing is left half-written, and nothing is replaced that was not meant."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from alteraser.data.files import write_interactions
from alteraser.data.interactions import Interactions
from alteraser.data.writing import atomic_file, atomic_folder
from alteraser.errors import OutputExists, WriteError


def one() -> Interactions:
    return Interactions.from_columns(pl.Series([1]), pl.Series([2]))


def test_nothing_is_replaced_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(OutputExists, match="--force"):
        write_interactions(one(), path)
    assert path.read_text() == "old"
    write_interactions(one(), path, force=True)
    assert path.read_text() == "user_id,item_id\n1,2\n"
    with pytest.raises(WriteError, match=r"\.csv or \.parquet"):
        write_interactions(one(), tmp_path / "a.json")
    with pytest.raises(WriteError, match="is not there"):
        write_interactions(one(), tmp_path / "none" / "a.csv")


def write_half(path: Path, stop: BaseException) -> None:
    path.write_text("half")
    raise stop


STOPS = [KeyboardInterrupt(), RuntimeError("stop"), OSError(errno.ENOSPC, "No space left on device")]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: type(stop).__name__)
def test_a_stopped_file_leaves_no_trace(tmp_path: Path, stop: BaseException) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    wanted = WriteError if isinstance(stop, OSError) else type(stop)
    with pytest.raises(wanted) as caught, atomic_file(path, force=True) as temporary:
        write_half(temporary, stop)
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"
    if isinstance(stop, OSError):
        assert "No space left" in str(caught.value)


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: type(stop).__name__)
def test_a_stopped_folder_leaves_no_trace(tmp_path: Path, stop: BaseException) -> None:
    path = tmp_path / "model"
    path.mkdir()
    (path / "weights").write_text("old")
    with (
        pytest.raises(WriteError if isinstance(stop, OSError) else type(stop)),
        atomic_folder(path, marked_by="weights", force=True) as temporary,
    ):
        write_half(temporary / "weights", stop)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert (path / "weights").read_text() == "old"


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for content in ("one", "two"):
        with atomic_folder(path, marked_by="weights", force=content == "two") as temporary:
            (temporary / "weights").write_text(content)
            (temporary / content).touch()
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["model", "two", "weights"]
    assert (path / "weights").read_text() == "two"
    with pytest.raises(OutputExists), atomic_folder(path, marked_by="weights", force=False):
        pytest.fail("the block must not run when its result cannot be kept")


def test_force_never_replaces_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters").write_text("dear")
    with (
        pytest.raises(OutputExists, match="holds something else"),
        atomic_folder(tmp_path / "home", marked_by="weights", force=True),
    ):
        pytest.fail("the block must not run")
    assert (tmp_path / "home" / "letters").read_text() == "dear"


def test_the_old_folder_comes_back_if_the_last_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.mkdir()
    (path / "weights").write_text("old")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if (self / "new").exists():
            raise OSError(errno.EACCES, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with (
        pytest.raises(WriteError, match="Permission denied"),
        atomic_folder(path, marked_by="weights", force=True) as temporary,
    ):
        (temporary / "new").touch()
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert (path / "weights").read_text() == "old"


def test_an_empty_folder_is_free_and_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty", marked_by="weights", force=False) as temporary:
        (temporary / "new").touch()
    assert (tmp_path / "empty" / "new").exists()
    (tmp_path / "file").touch()
    with (
        pytest.raises(OutputExists, match="is a file"),
        atomic_folder(tmp_path / "file", marked_by="weights", force=True),
    ):
        pytest.fail("the block must not run")
    with pytest.raises(OutputExists, match="is a folder"), atomic_file(tmp_path / "empty", force=True):
        pytest.fail("the block must not run")


SCRIPT = """
import sys, polars as pl
from alteraser.data.files import write_interactions
from alteraser.data.interactions import Interactions
from alteraser.errors import WriteError
n = 200_000
data = Interactions.from_columns(pl.Series(range(n)), pl.Series(range(n)))
try:
    write_interactions(data, sys.argv[1])
except WriteError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_disk_that_refuses_is_a_clear_error(tmp_path: Path, name: str) -> None:
    def allow_little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / name)],
        preexec_fn=allow_little,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "could not be written" in done.stdout
    assert list(tmp_path.iterdir()) == []
