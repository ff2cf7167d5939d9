"""Tables of a `Report`, made once and shown in a terminal, in Markdown or in HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text

from alteraser.measure.compare import EVERYONE, FORGETTING, OTHERS, Report

NAMES = {
    "rbo": "RBO",
    "rbo_extrapolated": "RBO, extrapolated",
    "rbo_training": "RBO, nothing left out",
    "recall": "Recall",
    "ndcg": "NDCG",
    "hit_rate": "Hit rate",
    "mrr": "MRR",
    "coverage": "Coverage",
}
GROUPS = {FORGETTING: "forgetting users", OTHERS: "other users", EVERYONE: "all users"}


@dataclass(frozen=True)
class Table:
    """Cells as text; columns of figures stand to the right, others to the left."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def figures(self) -> list[bool]:
        """Of each column, whether it holds nothing but figures."""
        return [
            all(re.fullmatch(r"[-+\d.,e]*", row[place]) for row in self.rows)
            for place in range(len(self.columns))
        ]

    def markdown(self) -> str:
        rules = tuple("---:" if figures else "---" for figures in self.figures)
        lines = [self.columns, rules, *self.rows]
        return "\n".join("| " + " | ".join(map(_markdown, line)) + " |" for line in lines) + "\n"

    def terminal(self) -> RichTable:
        table = RichTable(title=_terminal(self.title), title_justify="left")
        for column, figures in zip(self.columns, self.figures, strict=True):
            # A cell that is too long goes on below: half an id or digest is none.
            table.add_column(_terminal(column), justify="right" if figures else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(_terminal, row))
        return table


def _markdown(cell: str) -> str:
    return " ".join(cell.replace("\\", "\\\\").replace("|", r"\|").replace("<", "&lt;").split())


def _terminal(cell: str) -> Text:
    """The cell as it is: names of items may hold what rich takes for markup or a terminal for a command."""
    return Text("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in cell))


def times(ratio: float) -> str:
    """How many times as much, to two digits: "1,300 ×"."""
    return f"{float(f'{ratio:.2g}'):,.{0 if ratio >= 9.95 else 1}f} ×"


def summary(report: Report, *, seconds: Mapping[str, float] | None = None, k: int | None = None) -> Table:
    """A column per model: what it remembers, how it agrees with the reference, how accurate it is, what it took."""
    k = k or report.ks[0]
    figures: dict[str, dict[str, str]] = {}
    if report.re_predict:
        figures["Re-predict score of the forgotten pairs"] = {
            n: f"{v:.4f}" for n, v in report.re_predict.items()
        }
    for group in report.n_users:
        for measure in ("rbo", "recall", "ndcg"):
            figures[f"{NAMES[measure]}@{k}, {GROUPS[group]}"] = _column(report, group, measure, k)
    figures["Loss on the remaining data"] = {name: f"{value:.1f}" for name, value in report.loss.items()}
    if seconds is not None:
        figures["Seconds to forget"] = {name: f"{value:.3f}" for name, value in seconds.items()}
    title = f"RBO: agreement with {report.reference}" if report.reference else "Models side by side"
    return _by_model(title, report, figures)


def details(report: Report, group: str) -> Table:
    """Every measure at every k for one group of users."""
    figures = {
        f"{text}@{k}": _column(report, group, measure, k)
        for measure, text in NAMES.items()
        for k in report.ks
    }
    return _by_model(f"{GROUPS[group].capitalize()} ({report.n_users[group]})", report, figures)


def _column(report: Report, group: str, measure: str, k: int) -> dict[str, str]:
    return {
        name: f"{groups[group][measure][k]:.4f}"
        for name, groups in report.values.items()
        if measure in groups.get(group, {})
    }


def _by_model(title: str, report: Report, figures: Mapping[str, Mapping[str, str]]) -> Table:
    """Figures down, models across; a figure that no model has is left out."""
    models = tuple(report.values)
    rows = tuple((text, *(row.get(name, "") for name in models)) for text, row in figures.items() if row)
    return Table(title, ("", *models), rows)
