"""What the command says: results on standard output, progress and notes on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from alteraser.report.tables import Table


def show(result: Mapping[str, Any], *, as_json: bool, human: Callable[[Console], None]) -> None:
    """The result as one JSON document, or for people."""
    if as_json:
        json.dump(result, sys.stdout, indent=2, allow_nan=False, default=str)
        sys.stdout.write("\n")
    else:
        human(console())


def console() -> Console:
    # A terminal has its width; a file or pipe gets lines as long as the tables are wide.
    return Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=200, highlight=False)


def note(text: str) -> None:
    """A line for people on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def print_table(to: Console, table: Table) -> None:
    to.print(table.terminal())


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int, float], None]]:
    """A bar on standard error that is told how many passes are done, how many there are at most, and the loss."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total}  loss {task.fields[loss]:.6g}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, loss=float("nan"))
        yield lambda done, at_most, loss: bar.update(task, completed=done, total=at_most, loss=loss)
