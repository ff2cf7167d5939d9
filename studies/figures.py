"""The figures on the pages of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from alteraser.report import plots
from studies.methods import ORIGINAL
from studies.tables import Record, mean_of


def case_figures(methods: Mapping[str, list[Record]]) -> Iterator[tuple[str, str]]:
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
