"""A `Tuning` as a table and as sections of a page."""

from __future__ import annotations

from itertools import accumulate

from alteraser.models.defaults import DEFAULTS
from alteraser.report import plots
from alteraser.report.html import Section, page
from alteraser.report.tables import Table
from alteraser.tuning.search import Tuning
from alteraser.tuning.trials import Trial


def settings_text(trial: Trial) -> str:
    """Its settings, without those that are at their defaults."""
    return ", ".join(
        f"{name} {value:g}" for name, value in trial.settings.items() if DEFAULTS.get(name) != value
    )


def table(tuning: Tuning) -> Table:
    """Every trial, the best first."""
    searched = tuple(tuning.space.searched)
    ranked = sorted(
        enumerate(tuning.trials, 1),
        key=lambda each: -1.0 if each[1].ndcg is None else each[1].ndcg,
        reverse=True,
    )
    rows = tuple(
        (
            str(number),
            *(f"{trial.settings[name]:g}" for name in searched),
            "failed" if trial.ndcg is None else f"{trial.ndcg:.4f}",
            str(trial.passes),
            f"{trial.seconds:.1f}",
        )
        for number, trial in ranked
    )
    return Table(
        "Trials, the best first", ("Trial", *searched, "NDCG@10", "Best after passes", "Seconds"), rows
    )


def tuning_page(tuning: Tuning, data: str) -> str:
    """The search on `data`, a file or name, as one page of HTML."""
    lead = f"{data}: {len(tuning.trials)} trials, judged by NDCG@10 over {tuning.n_users} users."
    return page("Which settings?", lead, sections(tuning))


def sections(tuning: Tuning) -> list[Section]:
    """Where the good settings lie, how the best grew, and all trials."""
    made = [trial for trial in tuning.trials if trial.ndcg is not None]
    values = [trial.ndcg or 0.0 for trial in made]
    drawn = []
    if {"w0", "l2"} <= tuning.space.searched.keys():
        points = [(trial.settings["w0"], trial.settings["l2"]) for trial in made]
        drawn.append(plots.coloured_points("NDCG@10 by w0 and l2", points, values, x="w0", y="l2"))
    numbers = [float(number) for number in range(1, len(made) + 1)]
    best = {"best so far": (numbers, list(accumulate(values, max))), "trial": (numbers, values)}
    drawn.append(plots.curves("NDCG@10 as the search went on", best, x="trial", y="NDCG@10"))
    text = (
        f"w0 is what a missing entry weighs, l2 how strongly vectors are held small. NDCG@10 is measured on items that "
        f"were held out of the training; more is better. Best: {settings_text(tuning.best)}."
    )
    return [
        Section("Where the good settings lie", text=text, plots=drawn),
        Section("All trials", tables=[table(tuning)]),
    ]
