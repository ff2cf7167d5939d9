"""The headline of the results: one table beside the paper's, where we fall short and why, one plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from alteraser.report import plots
from alteraser.report.tables import Table
from evidence.page import UNKNOWN, Page, measured_at
from evidence.store import Result
from studies.methods import (
    AH_FORGETTING,
    DEFAULT,
    RETRAIN,
    RETRAIN_INDEPENDENT,
    RETRAIN_STAR,
    SHARED_SEED,
    SHARED_WEIGHTS,
    WARM_START,
)
from studies.shortfalls import (
    COLUMNS,
    RBO,
    SPEED_UP,
    Column,
    RecordsByMethod,
    listed,
    published_of,
    shortfalls,
)
from studies.tables import OverFastest, Record, grouped, mean_of

FOLDER = "headline"
"""Where its runs are kept, in the folder of results: apart, so that all its figures are of one measurement."""

ROWS = (RETRAIN, RETRAIN_STAR, RETRAIN_INDEPENDENT, WARM_START, DEFAULT, SHARED_WEIGHTS, SHARED_SEED)
"""The methods in the table."""
PLOTTED = (*ROWS[1:], AH_FORGETTING)
"""The methods in the plot: Retrain agrees with itself."""
SHORT_NAMES = {
    DEFAULT: "AltEraser",
    SHARED_WEIGHTS: "AltEraser, original from Retrain's initial weights",
    SHARED_SEED: "AltEraser, original from Retrain's seed",
    AH_FORGETTING: "AltEraser, forgetting pass only",
}
"""What methods are called here, if not by their names."""
LEGEND = """RBO@10: how far the top ten of the forgetting users agree with those of Retrain (1: the same lists).
NDCG@10: accuracy for them on held-out interactions. Speed-up: Retrain's seconds by the method's. The fastest retraining
is the quickest of those that reach AltEraser's loss, by AdamW, or by ALS that keeps h as AltEraser does. Retrain*
starts from Retrain's initial weights, Retrain (independent) and the original from their own; an original from Retrain's
seed has its initial weights and its order of batches. AltEraser is the package's default."""

METHOD = """## How it was measured

The evaluation of *Forgetting Fast in Recommender Systems* run again: 64 users, whose injected false interactions are
forgotten (noise scenario); ENMF trained by AdamW with early stopping. The paper's code was never released. What it
leaves open was decided here: early stopping watches the training loss (relative improvement below 1e-4 counts as none);
dropout is off; h is kept at root mean square 1, because a free h undoes the penalty; hyper-parameters were chosen on a
validation slice. Seconds are from the request to the new tables in memory, on a CPU; the paper used GPUs: only ratios
compare. Definitions: [measures](measures.md). `python -m studies headline` measures the table, `make results-page`
makes the pages from the files in [results](results)."""


def add_to(page: Page, folder: Path, runs: Sequence[Result]) -> None:
    """Puts the headline on the page; its plot goes to the folder of its runs."""
    page.add("# Results")
    if not runs:
        page.add("The table that belongs here was not measured yet: `python -m studies headline` does it.")
    else:
        records = by_dataset(record for run in runs for record in run["results"])
        page.add(headline_table(records).markdown(), LEGEND)
        page.add(" ".join(("**Where we fall short, and why.**", *shortfalls(records))))
        page.plot(folder / "rbo-speed-up.svg", agreement_plot(records), "RBO@10 against speed-up")
        page.add(f"{_runs_of(records)} {measured_at(runs)} {_threads(runs)}")
    page.add(METHOD)


def by_dataset(records: Iterable[Record]) -> RecordsByMethod:
    """The records by data set and method."""
    return {dataset: methods for (dataset, _, _), methods in sorted(grouped(records).items())}


def headline_table(records: RecordsByMethod) -> Table:
    """A row for each data set and method: RBO@10, NDCG@10 and speed-up, the paper's and ours."""
    columns = (
        *("Data set", "Method"),
        *(t for each in COLUMNS for t in (f"{each.title}: paper", "ours")),
        "Speed-up over the fastest retraining",
    )
    rows = [
        (
            f"**{dataset}**" if name == RETRAIN else "",
            f"**{SHORT_NAMES[name]}**" if name == DEFAULT else SHORT_NAMES.get(name, name),
            *(cell for each in COLUMNS for cell in _cells(each, dataset, name, methods[name])),
            _over_fastest(methods) if name == DEFAULT else "",
        )
        for dataset, methods in records.items()
        for name in ROWS
    ]
    return Table("Results", columns, tuple(rows))


def _cells(column: Column, dataset: str, method: str, records: Sequence[Record]) -> tuple[str, str]:
    published = published_of(column, dataset, method)
    ours = f"{mean_of(records, *column.path):.{column.digits}f}"
    return "" if published is None else f"{published:.{column.digits}f}", ours


def _over_fastest(methods: Mapping[str, Sequence[Record]]) -> str:
    """AltEraser's speed-up over the fastest retraining to its loss: the mean, and the median beside it."""
    found = OverFastest.of(methods, DEFAULT)
    return UNKNOWN if found is None else found.told(digits=SPEED_UP.digits)


def agreement_plot(records: RecordsByMethod) -> str:
    """Agreement against speed-up: a panel for each data set, every run, the means, and the paper's figures."""
    ours = {
        dataset: {
            SHORT_NAMES.get(name, name): (_of_runs(methods[name], SPEED_UP), _of_runs(methods[name], RBO))
            for name in PLOTTED
        }
        for dataset, methods in records.items()
    }
    published = {
        dataset: {
            SHORT_NAMES.get(name, name): (published_of(SPEED_UP, dataset, name) or 1.0, value)
            for name in PLOTTED
            if (value := published_of(RBO, dataset, name)) is not None
        }
        for dataset in records
    }
    return plots.clouds(
        "Agreement with retraining against speed-up (top right is best)",
        ours,
        hollow=published,
        hollow_name="the paper's",
        x="speed-up over Retrain (log)",
        y="RBO@10 with Retrain",
    )


def _of_runs(records: Sequence[Record], column: Column) -> list[float]:
    return [mean_of([record], *column.path) for record in records]


def number_of(runs: Sequence[Result]) -> str:
    """How many runs these are, in words."""
    return f"{len(runs)} run{'s' if len(runs) != 1 else ''}"


def _runs_of(records: RecordsByMethod) -> str:
    """How many runs each data set has; said once if they are as many."""
    counts = {dataset: len(methods[RETRAIN]) for dataset, methods in records.items()}
    if len(set(counts.values())) == 1:
        count = next(iter(counts.values()))
        return f"Means over {count} run{'s' if count > 1 else ''}, each with a split and requests of its own."
    return "Means over " + listed(f"{count} runs of {dataset}" for dataset, count in counts.items()) + "."


def _threads(runs: Sequence[Result]) -> str:
    """On how many threads, and how busy the machine was."""
    made = [run["made_with"] for run in runs if "load" in run.get("made_with", {})]
    if not made:
        return ""
    threads = listed(sorted({str(each["threads"]) for each in made}))
    text = f"Threads: {threads} of {made[0]['cores']}."
    if busy := [each["load"] for each in made if each["load"] > each["cores"]]:
        text += f" Others worked on the machine (load up to {max(busy):.1f}), so speed-ups are rough."
    return text
