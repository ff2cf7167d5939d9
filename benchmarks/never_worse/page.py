"""docs/never-worse.md from the records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks.never_worse.records import LONG_SESSION, ROUNDING, SESSION, WAYS, Record
from evidence.page import Page, measured_at, said, table

PAGE = Path(__file__).parents[2] / "docs" / "never-worse.md"
N_WORST = 10
SHOWN = {SESSION: "live model", LONG_SESSION: "live model, many requests"}
"""What ways are called here, if not as in the records."""
COLUMNS = (
    "way",
    "original",
    "cells",
    "requests",
    "worst rise",
    "beyond rounding",
    "never worse",
    "converged",
    "worst gap left",
    "tolerance met",
    "slowest, s",
)


def page(found: Sequence[Record], path: Path = PAGE) -> Page:
    """What was asked, a row for each way and original, and the worst cells if there are any."""
    rises = sum(record.n_beyond_rounding for record in found)
    broken = sum(record.breaks_its_word for record in found)
    requests = sum(len(record.seconds) for record in found)
    intro = (
        f"Made from `benchmarks/results/never-worse.json` by `make bench-page`; measured by `python -m benchmarks "
        f"never-worse`. Originals after a few passes of ALS, as ALS trains them by default, and at their optimum "
        f"forget in every way. The loss on the remaining data must not rise by more than rounding "
        f"({ROUNDING['float32']:g} of it in single precision, {ROUNDING['float64']:g} in double). Many requests are "
        f"of all kinds, one after another, each judged by the loss before and after it. Where forgetting says "
        f"that it converged, no more may be left than the tolerance of the gap that the request opened; that is known "
        f"for originals at their optimum, by joint Newton steps in double precision from the unlearned model.\n\n"
        f"{rises:,} of {requests:,} requests raised the loss; {broken:,} of {len(found):,} cells converged with more "
        f"than the tolerance left."
    )
    made = Page(path)
    made.add("# Never worse", intro, measured_at(map(vars, found)))
    made.add(table(COLUMNS, _rows(found)), *_worst(found))
    return made


def _rows(found: Sequence[Record]) -> list[tuple[str, ...]]:
    originals = dict.fromkeys(record.cell.original for record in found)
    groups = (
        (
            way,
            original,
            [record for record in found if (record.cell.way, record.cell.original) == (way, original)],
        )
        for way, original in product(WAYS, originals)
    )
    return [_row(way, original, group) for way, original, group in groups if group]


def _row(way: str, original: str, group: Sequence[Record]) -> tuple[str, ...]:
    rises = sum(record.n_beyond_rounding for record in group)
    converged = [said for record in group for said in record.converged]
    shares = [
        (record.share_left / record.judged_by, record.share_left, record.judged_by)
        for record in group
        if all(record.converged) and record.share_left is not None
    ]
    met = said(not any(record.breaks_its_word for record in group))
    return (
        SHOWN.get(way, way),
        original,
        f"{len(group):,}",
        f"{len(converged):,}",
        f"{max(max(record.rises) for record in group):.1e}",
        f"{rises:,}",
        said(not rises),
        f"{sum(converged):,}",
        "{1:.5f} of {2:g}".format(*max(shares)) if shares else "",
        met if shares else "",
        f"{max(max(record.seconds) for record in group):.3f}",
    )


def _worst(found: Sequence[Record]) -> list[str]:
    """The cells in which the loss rose most, and those that left most of the gap and called it converged."""
    risen = sorted(
        (record for record in found if record.n_beyond_rounding), key=lambda record: -max(record.rises)
    )
    broken = sorted(
        (record for record in found if record.breaks_its_word), key=lambda record: -(record.share_left or 0)
    )
    tables = (
        ("Where the loss rose most", "rise", [(record, f"{max(record.rises):.1e}") for record in risen]),
        ("Where most was left", "gap left", [(record, f"{record.share_left:.5f}") for record in broken]),
    )
    parts = []
    for title, column, cells in tables:
        rows = [
            (*(SHOWN.get(value, value) for value in vars(record.cell).values()), figure)
            for record, figure in cells[:N_WORST]
        ]
        if rows:
            names = tuple(vars(found[0].cell))
            parts += [f"## {title}", table((*names, column), rows)]
    return parts
