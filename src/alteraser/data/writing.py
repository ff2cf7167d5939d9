"""Whole files and folders or nothing: what is written appears when it is complete, and what was there stays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from alteraser.data.leftovers import Names, clean_up, own_names, remove
from alteraser.data.text_files import SEPARATORS, UNIT_SEPARATOR
from alteraser.errors import LeftBehind, OutputExists, WriteError

PARQUET = (".parquet", ".pq")
# Also for what remains of a text file, which keeps its form.
PLAIN_TEXT = (".tsv", ".txt", ".dat", ".data")


@dataclass(frozen=True)
class TextForm:
    """How a table is written as text: what stands between fields, and whether the first line names the columns."""

    separator: str
    header: bool = True

    @classmethod
    def of(cls, path: Path, *, separator: str | None = None, header: bool = True) -> TextForm:
        """That separator or, unless given, the one that the ending tells; a comma where it tells none."""
        return cls(separator or SEPARATORS.get(path.suffix.lower(), ","), header)

    def read_options(self, path: Path) -> dict[str, Any]:
        """What has to be said to read it from that file."""
        ending = path.suffix.lower()
        if ending in PARQUET:
            return {"separator": None, "header": True}
        told = SEPARATORS.get(ending) == self.separator
        return {"separator": None if told else self.separator, "header": self.header}

    def write(self, table: pl.DataFrame, path: Path) -> None:
        """Write the table so that the same is read."""
        if len(self.separator.encode()) == 1:
            table.write_csv(path, include_header=self.header, separator=self.separator)
            return
        unit = UNIT_SEPARATOR.decode()
        written = table.write_csv(include_header=self.header, separator=unit, quote_style="never")
        path.write_bytes(written.encode().replace(UNIT_SEPARATOR, self.separator.encode()))


def write_frame(frame: pl.DataFrame, path: str | Path, *, force: bool = False) -> None:
    """Write a table as CSV or Parquet, by the ending."""
    with staged_frame(frame, path, force=force):
        pass


@contextmanager
def staged_frame(
    frame: pl.DataFrame, path: str | Path, *, form: TextForm | None = None, force: bool = False
) -> Iterator[None]:
    """The table is written beside `path` at once and takes its place when the block ends well.

    So several outputs appear together or not at all. A text file has that form, or a comma and a header.
    """
    path = Path(path)
    make_table_ready(path, force=force, also=() if form is None else PLAIN_TEXT)
    with atomic_file(path, force=force) as temporary:
        if path.suffix.lower() in PARQUET:
            frame.write_parquet(temporary)
        else:
            (form or TextForm.of(path)).write(frame, temporary)
        yield


def make_table_ready(path: Path, *, force: bool, also: tuple[str, ...] = ()) -> None:
    """Raise unless a table can be put at `path`, in the format its ending names; `make_ready` says the rest.

    `also` has endings beside .csv and .parquet.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", *PARQUET, *also):
        wanted = ", ".join((".csv", *also)) + " or .parquet"
        raise WriteError(
            f"{path} ends in {ending or 'nothing'}; {wanted} is wanted, so that the format is known."
        )
    make_ready(path, force=force)


def make_ready(path: Path, *, force: bool, marked_by: str | None = None) -> None:
    """Clean up what a killed run left at `path`, and raise unless something can be put there.

    Done before long work, not only after it. With `marked_by` it is a folder that is to be put there, and even
    `force` replaces only one that holds a file of that name: a mistyped path must not cost a folder of something else.
    """
    place = path.resolve()
    if place.parent.is_dir():
        with _writing(path):
            clean_up(place)
    _check_free(path, force=force, marked_by=marked_by)


def _check_free(path: Path, *, force: bool, marked_by: str | None) -> None:
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
    """A path to write to, which becomes `path` when the block ends well and vanishes when it does not.

    If the process is killed, what it had written is removed by the next run that writes to `path`.
    """
    path = Path(path)
    make_ready(path, force=force)
    with _writing(path), own_names(path.resolve()) as names:
        try:
            yield names.new
            _flush(names.new)
            if not force:
                _check_free(path, force=False, marked_by=None)
            names.new.replace(path.resolve())
        finally:
            with suppress(OSError):
                remove(names.new)


@contextmanager
def atomic_folder(path: str | Path, *, marked_by: str, force: bool = False) -> Iterator[Path]:
    """A new folder to write into, which becomes `path` when the block ends well and vanishes otherwise.

    With `force` an old folder that holds a file called `marked_by` is replaced as a whole; it comes back if the
    last step fails, and `LeftBehind` is raised if it cannot be removed afterwards. An empty folder counts as free.

    If the process is killed, the next run that writes to `path` removes what it left: the new folder if that was not
    yet in place, else the old one. Killed just between the two, it leaves `path` empty, and the next run first puts
    the old folder back: whoever was killed has replaced nothing, and nothing is lost.
    """
    path = Path(path)
    make_ready(path, force=force, marked_by=marked_by)
    place = path.resolve()
    with _writing(path), own_names(place) as names:
        try:
            names.new.mkdir()
            yield names.new
            for file in names.new.rglob("*"):
                if file.is_file():
                    _flush(file)
            _check_free(path, force=force, marked_by=marked_by)
            _swap(names, place)
        finally:
            _tidy(names, place)


def _swap(names: Names, place: Path) -> None:
    """Put the new folder in its place and the old one aside, or leave the old one where it is."""
    try:
        if place.exists():
            place.rename(names.old)
        names.new.rename(place)
    except BaseException:
        if names.old.exists() and not place.exists():
            names.old.rename(place)
        raise


def _tidy(names: Names, place: Path) -> None:
    """Remove what is no longer needed, and raise if the old folder stays: it may hold what was to be forgotten."""
    if names.old.exists() and not place.exists():
        raise WriteError(
            f"{place} could not be written, and the old folder, which was set aside, not be put back: it lies at "
            f"{names.old}. Move it back by hand, or run this again, which does it first."
        )
    try:
        try:
            remove(names.old)
        finally:
            remove(names.old)  # once more, if an interruption broke it off
    except OSError as error:
        raise LeftBehind(
            f"The new folder is in place at {place}, but the old one could not be removed: {_reason(error)}. It lies, "
            f"whole or in part, at {names.old}. Remove it by hand, as it may hold what was to be forgotten."
        ) from None
    with suppress(OSError):
        remove(names.new)


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
