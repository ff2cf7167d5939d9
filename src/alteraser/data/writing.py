"""Whole files and folders or nothing: what is written appears when it is complete, and what was there stays."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from alteraser.errors import OutputExists, WriteError

PARQUET = (".parquet", ".pq")


def write_frame(frame: pl.DataFrame, path: str | Path, *, force: bool = False) -> None:
    """Write a table as CSV or Parquet, by the ending."""
    with staged_frame(frame, path, force=force):
        pass


@contextmanager
def staged_frame(frame: pl.DataFrame, path: str | Path, *, force: bool = False) -> Iterator[None]:
    """The table is written beside `path` at once and takes its place when the block ends well.

    So several outputs appear together or not at all.
    """
    path = Path(path)
    check_table_free(path, force=force)
    with atomic_file(path, force=force) as temporary:
        if path.suffix.lower() == ".csv":
            frame.write_csv(temporary)
        else:
            frame.write_parquet(temporary)
        yield


def check_table_free(path: Path, *, force: bool) -> None:
    """Raise unless a table can be put at `path`, in the format its ending names."""
    ending = path.suffix.lower()
    if ending not in (".csv", *PARQUET):
        raise WriteError(
            f"{path} ends in {ending or 'nothing'}; .csv or .parquet is wanted, so that the format is known."
        )
    check_free(path, force=force)


def check_free(path: Path, *, force: bool, marked_by: str | None = None) -> None:
    """Raise unless a file can be put at `path`: asked before long work, not only after it.

    With `marked_by` it is a folder that is to be put there, and even `force` replaces only one that holds a file
    of that name: a mistyped path must not cost a folder of something else.
    """
    folder = marked_by is not None
    if not path.parent.is_dir():
        raise WriteError(f"{path} cannot be written: the folder {path.parent} is not there. Create it first.")
    if not path.exists():
        return
    if path.is_dir() != folder:
        there, wanted = ("a file", "folder") if folder else ("a folder", "file")
        raise OutputExists(f"{path} is {there}; a {wanted} was to be written there. Choose another path.")
    if folder and not any(path.iterdir()):
        return
    if not force:
        raise OutputExists(
            f"{path} is there already. Choose another path, or replace it with force=True (--force)."
        )
    if marked_by is not None and not (path / marked_by).is_file():
        raise OutputExists(
            f"{path} holds something else (there is no {marked_by} in it), so it is not replaced. "
            f"Choose another path, or empty the folder first."
        )


@contextmanager
def atomic_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends well and vanishes when it does not."""
    path = Path(path)
    check_free(path, force=force)
    temporary = _sibling(path)
    try:
        with _writing(path):
            yield temporary
            _flush(temporary)
            if not force:
                check_free(path, force=False)
            temporary.replace(path.resolve())
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path, *, marked_by: str, force: bool = False) -> Iterator[Path]:
    """A new folder to write into, which becomes `path` when the block ends well and vanishes otherwise.

    With `force` an old folder that holds a file called `marked_by` is replaced as a whole; it comes back if the
    last step fails. An empty folder counts as free.
    """
    path = Path(path)
    check_free(path, force=force, marked_by=marked_by)
    temporary, old = _sibling(path), _sibling(path)
    try:
        with _writing(path):
            temporary.mkdir()
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    _flush(file)
            check_free(path, force=force, marked_by=marked_by)
            _swap(temporary, path.resolve(), old)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        # If the new folder did not take its place the old one must never be the thing that is cleaned away.
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)


def _swap(new: Path, place: Path, old: Path) -> None:
    try:
        if place.exists():
            place.rename(old)
        new.rename(place)
    except BaseException:
        if old.exists() and not place.exists():
            old.rename(place)
        raise


def _sibling(path: Path) -> Path:
    """A free name in the folder where the path really lies, so that renaming never crosses a disk."""
    place = path.resolve()
    return place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise WriteError(
            f"{path} could not be written: {_reason(error)}. Free some space or choose another place; what was "
            f"there before is unchanged."
        ) from None


def _flush(path: Path) -> None:
    """Have the file on the disk before its name points to it: a power cut leaves the old or the new."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _reason(error: BaseException) -> str:
    """What the operating system said; polars has its number in the text, beside what must not be told."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else type(error).__name__
