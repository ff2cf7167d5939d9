"""What the command says: results on standard output, progress and notes on standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from alteraser.errors import WriteError

if TYPE_CHECKING:
    from pathlib import Path

    from alteraser.report.tables import Table

FIRST_LINE_AFTER = 5.0  # seconds


def show(result: Mapping[str, Any], *, as_json: bool, human: Callable[[Console], None]) -> None:
    """The result as one JSON document, or for people."""
    try:
        if as_json:
            json.dump(result, sys.stdout, indent=2, allow_nan=False, default=str)
            sys.stdout.write("\n")
        else:
            human(_console())
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return  # the reader, as `head`, has seen enough
        raise WriteError(
            f"The work is done and its files are written, but the result could not be printed: {error.strerror}."
        ) from None


def _console() -> Console:
    # A terminal has its width; a file or pipe gets lines as long as the tables are wide.
    terminal = sys.stdout.isatty()
    # Paths and names of items may hold brackets and colons: nothing printed is markup.
    return Console(
        width=None if terminal else 200, soft_wrap=terminal, highlight=terminal, markup=False, emoji=False
    )


def note(text: str) -> None:
    """A line for people on standard error."""
    Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True).print(text)


def counted(number: int, one: str) -> str:
    """So many of something, as in 1 user, 2 users, 3 passes, 4 batches."""
    plural = f"{one}es" if one.endswith(("s", "ch")) else f"{one}s"
    return f"{number} {one if number == 1 else plural}"


def print_table(to: Console, table: Table) -> None:
    to.print(table.terminal())


def write_page(html: str, path: Path, *, force: bool) -> None:
    """Write a page to a file, whole or not at all."""
    from alteraser.data.writing import atomic_file

    with atomic_file(path, force=force) as waiting:
        waiting.write_text(html, encoding="utf-8")


class _ToStandardError(logging.Handler):
    """Shows what modules log as notes, each once, wherever standard error leads just then."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if text not in self._shown:  # data may be read more than once
            self._shown.add(text)
            note(text)


@contextmanager
def logs_on_standard_error(level: int) -> Iterator[None]:
    """Within the block, what the package logs at that level or above is shown; progress from INFO down."""
    logger, handler = logging.getLogger("alteraser"), _ToStandardError()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def progress(
    label: str, *, counts: str = "pass", figure: str = "loss"
) -> Iterator[Callable[[int, int, float], None]]:
    """A bar on standard error, or plain lines now and then if that is no terminal; nothing if notes are not shown.

    It is told how many passes (or what it `counts`) are done, how many there are at most, and the loss or other figure.
    """
    with _bar(label, TextColumn("{task.fields[state]}")) as (bar, task), _lines(label) as tell:

        def watch(done: int, at_most: int, value: float) -> None:
            bar.update(task, completed=done, total=at_most, state=f"{counts} {done}, {figure} {value:.6g}")
            tell(f"{counts} {done} of at most {at_most}, {figure} {value:.6g}")

        yield watch


@contextmanager
def download_progress(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """The same for a download: it is told the bytes that have come and, if known, how many there are."""
    with _bar(label, DownloadColumn()) as (bar, task), _lines(label) as tell:

        def watch(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)
            tell(f"{done} bytes" if total is None else f"{done} of {total} bytes")

        yield watch


@contextmanager
def _bar(label: str, state: ProgressColumn) -> Iterator[tuple[Progress, TaskID]]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        state,
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    hidden = not (console.is_terminal and _notes_shown())
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        yield bar, bar.add_task(label, total=None, state="")


@contextmanager
def _lines(label: str) -> Iterator[Callable[[str], None]]:
    """Where there is no terminal: a line after some seconds, then ever more rarely, at least once a minute."""
    shown = _notes_shown() and not Console(stderr=True).is_terminal
    began = time.monotonic()
    due = FIRST_LINE_AFTER

    def tell(state: str) -> None:
        nonlocal due
        passed = time.monotonic() - began
        if shown and passed >= due:
            due = passed + min(max(passed, FIRST_LINE_AFTER), 60)
            note(f"{label}: {state}, {passed:.0f} s")

    yield tell


def _notes_shown() -> bool:
    return logging.getLogger("alteraser").isEnabledFor(logging.INFO)


@contextmanager
def status(label: str) -> Iterator[Callable[[str], None]]:
    """What is being done: a line that changes on a terminal, a line each elsewhere; all on standard error."""
    console = Console(stderr=True, highlight=False, markup=False)
    if console.is_terminal:
        with console.status(label) as line:
            yield lambda text: line.update(text)
    else:
        yield note
