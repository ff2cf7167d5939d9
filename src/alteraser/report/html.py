"""A report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from jinja2 import Environment, PackageLoader

from alteraser.report.tables import Table


@dataclass(frozen=True)
class Line:
    """One place of a list; marked where it is what the report is about."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Listing:
    """A recommendation list with its name."""

    name: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Figure:
    """A figure that is to be seen first, and what it is of."""

    value: str
    text: str


@dataclass(frozen=True)
class Section:
    """A heading with whatever it has to show, from top to bottom; a folded one shows it when it is opened.

    Plots are SVG elements. `terms` explains words in a line each.
    """

    heading: str
    text: str = ""
    figures: Sequence[Figure] = ()
    terms: Sequence[tuple[str, str]] = ()
    plots: Sequence[str] = ()
    tables: Sequence[Table] = ()
    lists: Sequence[Listing] = ()
    folded: bool = False


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole page; all text is escaped, only plots are markup."""
    environment = Environment(loader=PackageLoader("alteraser.report"), autoescape=True, trim_blocks=True)
    template = environment.get_template("report.html")
    return template.render(title=title, lead=lead, sections=sections, version=version("alteraser"))
