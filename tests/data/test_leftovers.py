"""What a run that was killed or hindered leaves behind is removed by the next one, or named loudly: never just kept."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from alteraser.data.writing import atomic_file, atomic_folder
from alteraser.errors import OutputExists, WriteError

# A run that writes a folder or a file and is killed at a named point on the way.
KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from alteraser.data.writing import atomic_file, atomic_folder

path, point = Path(sys.argv[1]), sys.argv[2]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

rename = Path.rename
def rename_or_die(self, target):
    return die() if (self / "weights").is_file() and (self / "weights").read_text() == "new" else rename(self, target)

if point == "between the renames":
    Path.rename = rename_or_die
if point == "after the renames":
    shutil.rmtree = die
if point == "writing a file":
    with atomic_file(path, force=True) as temporary:
        temporary.write_text("new")
        die()
with atomic_folder(path, marked_by="weights", force=True) as temporary:
    (temporary / "weights").write_text("new")
    if point == "writing":
        die()
"""


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def write(path: Path, content: str = "newest", *, force: bool = True) -> None:
    with atomic_folder(path, marked_by="weights", force=force) as temporary:
        (temporary / "weights").write_text(content)


def kill(path: Path, point: str) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED, str(path), point], check=False)
    assert ran.returncode == -signal.SIGKILL


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder that holds what is to be forgotten."""
    path = tmp_path / "place" / "model"
    path.parent.mkdir()
    write(path, "old")
    return path


def refuse_to_remove(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """The system removes no file with this content, not even for root."""
    unlink = os.unlink

    def refuse(path: Any, *, dir_fd: int | None = None) -> None:
        with open(path, opener=lambda name, flags: os.open(name, flags, dir_fd=dir_fd)) as file:
            if file.read() == content:
                raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)


def test_an_old_folder_that_cannot_be_removed_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_remove(monkeypatch, "old")
    with pytest.raises(WriteError, match="Permission denied") as caught:
        write(model, "new")
    assert (model / "weights").read_text() == "new"
    [left] = [each for each in model.parent.iterdir() if each != model]
    assert (left / "weights").read_text() == "old"
    assert str(left) in str(caught.value)
    assert "is in place" in str(caught.value)
    assert "by hand" in str(caught.value)
    assert "unchanged" not in str(caught.value)


def test_the_next_run_removes_it_or_says_again_that_it_cannot(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        refuse_to_remove(patched, "old")
        with pytest.raises(WriteError):
            write(model, "new")
        with pytest.raises(WriteError, match="by hand") as caught:
            write(model, "newest")
        [left] = [each for each in model.parent.iterdir() if each != model]
        assert str(left) in str(caught.value)
        assert (model / "weights").read_text() == "new"
    write(model, "newest")
    assert names(model.parent) == ["model"]
    assert (model / "weights").read_text() == "newest"


def test_an_interruption_does_not_save_the_old_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rmtree = shutil.rmtree

    def interrupted(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(model, "new")
    assert names(model.parent) == ["model"]
    assert (model / "weights").read_text() == "new"


@pytest.mark.parametrize("point", ["writing", "between the renames", "after the renames"])
def test_the_next_run_cleans_up_after_one_that_was_killed(model: Path, point: str) -> None:
    kill(model, point)
    assert len(names(model.parent)) > 1 or not model.exists()
    write(model)
    assert names(model.parent) == ["model"]
    assert (model / "weights").read_text() == "newest"


@pytest.mark.parametrize(
    ("point", "content"),
    [("writing", "old"), ("between the renames", "old"), ("after the renames", "new")],
)
def test_a_run_that_was_killed_has_replaced_all_or_nothing(model: Path, point: str, content: str) -> None:
    kill(model, point)
    with pytest.raises(OutputExists):
        write(model, force=False)
    assert names(model.parent) == ["model"]
    assert (model / "weights").read_text() == content


def test_an_old_folder_is_not_put_back_once_it_was_replaced(model: Path) -> None:
    """Who removes the new one by hand does not want the old one to return."""
    kill(model, "after the renames")
    (model / "weights").unlink()
    model.rmdir()
    write(model, force=False)
    assert names(model.parent) == ["model"]
    assert (model / "weights").read_text() == "newest"


def test_the_next_run_removes_a_half_written_file(tmp_path: Path) -> None:
    path = tmp_path / "rest.csv"
    path.write_text("old")
    kill(path, "writing a file")
    assert len(names(tmp_path)) > 1
    assert path.read_text() == "old"
    with atomic_file(path, force=True) as temporary:
        temporary.write_text("newest")
    assert names(tmp_path) == ["rest.csv"]
    assert path.read_text() == "newest"


@pytest.mark.parametrize("point", ["writing", "writing a file"])
def test_a_leftover_that_cannot_be_removed_is_named_before_the_work(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(tmp_path / "out", point)
    refuse_to_remove(monkeypatch, "new")
    atomic: Any = (
        atomic_file(tmp_path / "out") if "file" in point else atomic_folder(tmp_path / "out", marked_by="x")
    )
    with pytest.raises(WriteError, match="by hand") as caught, atomic:
        pytest.fail("the block must not run")
    assert any(str(each) in str(caught.value) for each in tmp_path.iterdir())


def test_what_another_run_is_writing_is_left_alone(tmp_path: Path) -> None:
    folder, file = tmp_path / "model", tmp_path / "rest.csv"
    with atomic_folder(folder, marked_by="weights", force=True) as slow:
        (slow / "weights").write_text("slow")
        with atomic_file(file, force=True) as slow_file:
            slow_file.write_text("slow")
            write(folder, "fast")
            with atomic_file(file, force=True) as fast_file:
                fast_file.write_text("fast")
            assert (folder / "weights").read_text() == file.read_text() == "fast"
            assert (slow / "weights").read_text() == slow_file.read_text() == "slow"
    assert (folder / "weights").read_text() == file.read_text() == "slow"
    assert names(tmp_path) == ["model", "rest.csv"]


def test_an_old_folder_that_another_run_has_just_set_aside_is_left_alone(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its two renames the place is empty; nobody else may fill it."""
    rename = Path.rename

    def look_in_between(self: Path, target: Path) -> Path:
        if (self / "weights").read_text() == "new":
            monkeypatch.setattr(Path, "rename", rename)
            assert not model.exists()
            with pytest.raises(RuntimeError, match="stop"), atomic_file(model):
                raise RuntimeError("stop")
            assert not model.exists()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", look_in_between)
    write(model, "new")
    assert names(model.parent) == ["model"]
    assert (model / "weights").read_text() == "new"


def test_a_disk_without_locks_is_written_to_but_not_cleaned_up(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether somebody is still at work cannot be told there."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write(model, "new")
    assert names(model.parent) == ["model"]
    kill(model, "writing")
    with pytest.raises(WriteError, match="by hand"):
        write(model, "newest")
    assert (model / "weights").read_text() == "new"


def test_nothing_is_removed_but_what_such_runs_leave(tmp_path: Path) -> None:
    others = [
        ".model.tmp",
        ".model.notes.tmp",
        ".model.0123456789ab.bak",
        ".models.0123456789ab.tmp",
        "model.0123456789ab.tmp",
        ".xmodel.0123456789ab.old",
        ".model.0123456789AB.old",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    write(tmp_path / "model")
    assert names(tmp_path) == sorted(["model", *others])
