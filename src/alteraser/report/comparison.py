"""A `Report` of `compare` as sections of a page."""

from __future__ import annotations

from collections.abc import Mapping

from alteraser.measure.compare import FORGETTING, Report
from alteraser.report import plots
from alteraser.report.html import Section
from alteraser.report.tables import GROUPS, NAMES, details, summary


def sections(report: Report, *, seconds: Mapping[str, float] | None = None) -> list[Section]:
    """What the models remember, how they agree, how accurate they are and what they took: plots first, then tables."""
    k = report.ks[0]
    drawn = []
    if report.re_predict:
        drawn.append(plots.bars("Mean score of the forgotten pairs", report.re_predict))
    group = FORGETTING if FORGETTING in report.n_users else next(iter(report.n_users))
    for measure in ("rbo", "ndcg", "recall"):
        values = {
            name: groups[group][measure][k]
            for name, groups in report.values.items()
            if measure in groups[group]
        }
        if values:
            against = f" against {report.reference}" if measure == "rbo" else ""
            drawn.append(plots.bars(f"{NAMES[measure]}@{k}{against}, {GROUPS[group]}", values))
    if seconds:
        drawn.append(plots.bars("Seconds", seconds, unit=" s"))
    return [
        Section("Side by side", plots=drawn, tables=[summary(report, seconds=seconds)]),
        *(
            Section(f"All figures: {GROUPS[group]}", tables=[details(report, group)])
            for group in report.n_users
        ),
    ]
