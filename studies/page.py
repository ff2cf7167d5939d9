"""docs/results.md from the result files; figures are never typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from alteraser.errors import DataError
from alteraser.report import plots
from evidence.page import YES, Page, measured_at
from evidence.store import Result, Store
from studies.goals import goals_table
from studies.methods import ORIGINAL
from studies.tables import (
    Group,
    Record,
    grouped,
    mean_of,
    statistics_table,
    study_table,
    tables,
    tuning_table,
)

INTRODUCTION = """# Results

The evaluation of *Forgetting Fast in Recommender Systems* run again: its data sets, scenarios, methods and
measures. Made by `make results-page` from the files in [results](results), which `python -m studies reproduce`,
`study` and `tune` wrote. Cells are mean ± standard deviation over the runs; in brackets what the paper printed.
Definitions: [measures](measures.md).

Two regimes. **paper**: ENMF trained by AdamW with early stopping, as in the paper. **converged**: MF trained by
accelerated ALS and joint Newton steps to the optimum, so that the paper's assumption that the original minimises
its loss really holds. Two scenarios: **noise**, false interactions of 64 users are injected and then forgotten,
which the paper printed; **privacy**, 64 users have half of their own forgotten, which it ran but did not print.

## Where we differ from the paper, and why

- Its code was never released. What it leaves open was decided here: early stopping watches the training loss
  (relative improvement below 1e-4 counts as none); dropout is off; h is kept at root mean square 1, because a free
  h undoes the penalty; hyper-parameters were chosen on a validation slice (of AdamW's own, the quickest within a
  hundredth of the best).
- Original and Retrain start from different weights. Retrain* starts from Retrain's with another order of batches;
  in the converged regime, where nothing else is random, from a third.
- Seconds are from the request to the new tables in memory, on two CPU cores; the paper used GPUs: only ratios
  compare.
- AltEraser adds to the paper's algorithm that with AH-Newton the passes over all are steps of Newton's method over
  all rows together ([how it works](how-it-works.md)), each counted as a pass; with the other solvers they are
  extrapolated. "plain passes" are as in the paper. They end, or do not begin, where the model is as near its
  optimum as the original was to its own ("training gap 0": they go on to the tolerance). On ml-1m and
  kuairec-binary in the paper's regime they do not begin: the AltErasers there are one forgetting pass by different
  solvers.
- In the converged regime the time of AltEraser is compared with that of retrainings which end as soon as they
  reach its loss: by accelerated ALS (Anderson), and by accelerated ALS that ends with joint Newton steps. Retrain
  itself, with which lists are compared, goes to the optimum.
- "Speed-up over ALS" in the paper's regime is over ALS with h at ones, which ends at another loss (shown beside
  it).
"""


def write_page(folder: Path, path: Path) -> int:
    """Writes the page and its plots, which go beside the results, and returns how many results it is made of."""
    results = dict(Store(folder).all())
    cases = [result["runs"] for result in results.values() if "runs" in result]
    studies = {name: result for name, result in results.items() if "study" in result}
    searches = [result for result in results.values() if "trials" in result]
    if len(cases) + len(studies) + len(searches) < len(results):
        raise DataError(
            f"{folder} holds JSON files that are no results of `python -m studies`. Move them away."
        )
    page = Page(path)
    page.add(INTRODUCTION)
    data = {run["results"][0]["dataset"]: run["data"] for runs in cases for run in runs}
    page.add("## The data", statistics_table(data).markdown())
    page.add(*_goals([record for runs in cases for run in runs for record in run["results"]]))
    for runs in sorted(cases, key=_case_of):
        _add_case(page, folder, runs)
    for name, result in studies.items():
        _add_study(page, folder, name, result)
    for result in searches:
        table = tuning_table(result)
        page.add(f"## The search: {table.title}", measured_at(result["trials"]), table.markdown())
    page.write()
    return len(results)


def _case_of(runs: Sequence[Result]) -> Group:
    (case,) = grouped(record for run in runs for record in run["results"])
    return case


def _add_case(page: Page, folder: Path, runs: Sequence[Result]) -> None:
    """The section of a data set, scenario and regime: plots, then a table for each kind of measure."""
    records = [record for run in runs for record in run["results"]]
    ((case, methods),) = grouped(records).items()
    dataset, scenario, regime = case
    n_runs = max(len(rows) for rows in methods.values())
    page.add(f"## {dataset}, {scenario}, {regime} regime")
    page.add(f"{n_runs} run{'s' if n_runs > 1 else ''}. {measured_at(runs)}")
    for name, svg in _plots(methods):
        page.plot(folder / f"{'-'.join(case)}-{name}.svg", svg, name)
    for table in tables(records):
        page.add(f"### {table.title.split(' — ')[-1]}", table.markdown())


STUDIES = {
    "sizes": "How cost and quality move with the size of the request",
    "solvers": "Every solver on the same request",
    "enmf": "ENMF with h solved too",
    "acceleration": "Plain passes, Anderson, joint Newton (in training after Anderson's passes)",
    "conditions": "When forgetting equals retraining",
}


def _add_study(page: Page, folder: Path, name: str, result: Result) -> None:
    """The section of a study: its table, and its figure if it has one."""
    study, records = result["study"], result["records"]
    of = f"{records[0]['dataset']}, {records[0]['regime']} regime"
    if (sliced := result["users"]) != result["data"]["users"]:
        of += f", {sliced} of its {result['data']['users']} users"
    page.add(f"## {STUDIES[study]}: {of}", measured_at([result]))
    if study in FIGURES:
        page.plot(folder / f"{name}.svg", FIGURES[study](f"{STUDIES[study]}: {of}", records), name)
    page.add(study_table(study, records).markdown())


def _lines(records: Sequence[Record], x: str, *path: str) -> plots.Lines:
    """A line for each method: a figure against what was varied."""
    methods = dict.fromkeys(r["method"] for r in records)
    lines = {}
    for method in methods:
        points = sorted(
            (float(r[x]), mean_of([r], *path)) for r in records if r["method"] == method and path[0] in r
        )
        if points:
            lines[method] = ([across for across, _ in points], [up for _, up in points])
    return lines


def _sizes_figure(title: str, records: Sequence[Record]) -> str:
    x = "interactions deleted"
    rows = {
        "seconds": {x: _lines(records, "size", "seconds")},
        "RBO@10": {x: _lines(records, "size", "rbo", "10")},
    }
    return plots.panels(title, rows, log_x=[x], log_y=["seconds"])


def _conditions_figure(title: str, records: Sequence[Record]) -> str:
    varied = list(dict.fromkeys(r["varied"] for r in records))
    of = {each: [r for r in records if r["varied"] == each] for each in varied}
    rows = {
        "RBO@10 with Retrain": {each: _lines(of[each], "value", "rbo", "10") for each in varied},
        "NDCG@10": {each: _lines(of[each], "value", "ndcg", "10") for each in varied},
    }
    return plots.panels(title, rows, log_x=varied)


def _acceleration_figure(title: str, records: Sequence[Record]) -> str:
    row = {}
    for task in dict.fromkeys(r["task"] for r in records):
        chosen = [r for r in records if r["task"] == task]
        lowest = min(min(r["losses"]) for r in chosen)
        lines = {}
        for r in chosen:
            points = [
                (t, loss - lowest) for t, loss in zip(r["clock"], r["losses"], strict=True) if loss > lowest
            ]
            lines[r["way"]] = ([t for t, _ in points], [gap for _, gap in points])
        row[f"seconds to {task}"] = lines
    return plots.panels(
        title, {"loss above the lowest": row}, log_x=list(row), log_y=["loss above the lowest"]
    )


FIGURES: dict[str, Callable[[str, Sequence[Record]], str]] = {
    "sizes": _sizes_figure,
    "conditions": _conditions_figure,
    "acceleration": _acceleration_figure,
}


def _goals(records: Sequence[Record]) -> Iterator[str]:
    yield "## What was to be reached\n\nNoise scenario, means over the runs.\n"
    for regime in ("paper", "converged"):
        for dataset in dict.fromkeys(record["dataset"] for record in records):
            table = goals_table(records, dataset, regime)
            if table is not None:
                reached = sum(row[-1] == YES for row in table.rows)
                yield f"### {table.title}: {reached} of {len(table.rows)} reached"
                yield table.markdown()


def _plots(methods: Mapping[str, list[Record]]) -> Iterator[tuple[str, str]]:
    """Agreement against seconds, the memory of the forgotten, and loss against passes."""

    def mean(name: str, *path: str) -> float:
        return mean_of(methods[name], *path)

    yield (
        "rbo-seconds",
        plots.scatter(
            "RBO@10 with Retrain against seconds",
            {name: (mean(name, "seconds"), mean(name, "rbo", "10")) for name in methods if name != ORIGINAL},
            x="seconds (log)",
            y="RBO@10",
        ),
    )
    yield (
        "re-predict",
        plots.bars("Mean score of the forgotten pairs", {n: mean(n, "re_predict") for n in methods}),
    )
    first = {
        name: rows[0]
        for name, rows in methods.items()
        if "losses" in rows[0] and name.startswith("AltEraser")
    }
    if first:
        lowest = min(min(record["losses"]) for record in first.values())
        lines = {}
        for name, record in first.items():
            losses = [record["loss_before"], *record["losses"]]
            above = [(number, loss - lowest) for number, loss in enumerate(losses) if loss > lowest]
            lines[name] = ([number for number, _ in above], [gap for _, gap in above])
        yield (
            "loss-passes",
            plots.curves("Loss above the lowest, first run", lines, x="passes", y="gap", log=True),
        )
