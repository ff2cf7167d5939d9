"""Markdown pages made of results: tables, verdicts, plots, and the commits that were measured."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alteraser.data.writing import atomic_file
from alteraser.report.tables import Table

YES, NO, UNKNOWN = "yes", "**no**", "not measured"
SAYS_NOTHING = "says nothing"
"""What is said of a goal that is reached where that proves nothing: it does not count as reached."""
OTHER_WAY = "by medians the other way"
"""What is said where the verdict by the median is another than that by the mean."""


@dataclass(eq=False)
class Page:
    """A page that grows part by part; its plots are files beside it."""

    path: Path
    parts: list[str] = field(default_factory=list)

    def add(self, *parts: str) -> None:
        """Puts paragraphs, headings and tables at the end."""
        self.parts += [part.rstrip("\n") + "\n" for part in parts]

    def plot(self, file: Path, svg: str, text: str) -> None:
        """Writes a plot to its file and shows it."""
        _write(file, svg)
        self.add(f"![{text}]({Path(os.path.relpath(file, self.path.parent)).as_posix()})")

    def text(self) -> str:
        return "\n".join(self.parts)

    def write(self) -> None:
        """Puts the page in its place."""
        _write(self.path, self.text())


def _write(path: Path, text: str) -> None:
    with atomic_file(path, force=True) as waiting:
        waiting.write_text(text, encoding="utf-8")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return Table("", tuple(columns), tuple(map(tuple, rows))).markdown()


@dataclass(frozen=True)
class Verdict:
    """A figure in words, what was wanted of it, what was measured, and whether that is enough.

    None is neither: `otherwise` then says why. Of what is judged by a mean, `by_medians` is the verdict by the median:
    where they disagree, the measured figure says so.
    """

    what: str
    wanted: str
    measured: str
    reached: bool | None
    otherwise: str = UNKNOWN
    by_medians: bool | None = None

    @classmethod
    def by_limit(
        cls,
        what: str,
        value: float,
        limit: float,
        *,
        form: str = ".2f",
        at_least: bool = False,
        median: float | None = None,
    ) -> Verdict:
        """The verdict on a figure that has a limit; beside one that is a mean stands the median."""
        wanted = f"{'at least' if at_least else 'at most'} {limit:g}"
        shown = format(value, form) + ("" if median is None else f" (median {median:{form}})")
        by_medians = None if median is None else within(median, limit, at_least=at_least)
        return cls(what, wanted, shown, within(value, limit, at_least=at_least), by_medians=by_medians)

    @classmethod
    def missing(cls, what: str, wanted: str) -> Verdict:
        """The verdict on a figure that the results do not hold yet."""
        return cls(what, wanted, "", None)

    @property
    def aside(self) -> str:
        """That medians say otherwise, where they do."""
        known = self.reached is not None and self.by_medians is not None
        return f"; {OTHER_WAY}" if known and self.by_medians != self.reached else ""

    @property
    def shown(self) -> str:
        """What was measured, and whether medians say otherwise."""
        return self.measured + self.aside

    @property
    def said(self) -> str:
        """The verdict as tables show it."""
        return self.otherwise if self.reached is None else said(self.reached)


def verdicts(title: str, found: Iterable[Verdict]) -> Table:
    """A row for each verdict."""
    rows = tuple((each.what, each.wanted, each.shown, each.said) for each in found)
    return Table(title, ("Figure", "Wanted", "Measured", "Reached"), rows)


def said(reached: bool) -> str:
    """A verdict as tables show it: a miss stands out."""
    return YES if reached else NO


def within(value: float, limit: float, *, at_least: bool = False) -> bool:
    """Whether a figure keeps its limit; what is no number does not."""
    return value >= limit if at_least else value <= limit


def verdict(value: float | None, limit: float, *, at_least: bool = False) -> str:
    """The verdict on a figure in a table of others."""
    return UNKNOWN if value is None else said(within(value, limit, at_least=at_least))


def measured_at(measured: Iterable[Mapping[str, Any]]) -> str:
    """A sentence that names the commits at which these were measured, or says that they were not recorded."""
    commits = dict.fromkeys(each.get("commit") for each in measured)
    known = [f"`{commit}`" for commit in commits if commit is not None]
    if not known:
        return "Measured at a commit that was not recorded."
    missing = "; that of some figures was not recorded" if None in commits else ""
    return f"Measured at commit {', '.join(known)}{missing}."
