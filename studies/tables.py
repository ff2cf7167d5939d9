"""The paper's tables from the results of runs, the paper's value beside each of ours."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alteraser.report.tables import Table
from studies.methods import ORIGINAL, RETRAININGS, TO_LOSS_OF
from studies.retrainings import Timed, fastest

NONE_THERE = "no retraining got there"
"""What is said of a speed-up over retrainings none of which ended at the loss that was wanted."""
Record = Mapping[str, Any]
Group = tuple[str, str, str]  # data set, scenario, regime
KS = ("10", "20", "50")
PAPER = Path(__file__).with_name("paper.json")


@dataclass(frozen=True)
class Column:
    """A figure of a record, and where the paper has it: its table and name."""

    title: str
    take: Callable[[Record], float | None]
    paper: tuple[str, str] | None = None
    digits: int = 4


def _nested(*path: str) -> Callable[[Record], float | None]:
    def take(record: Record) -> float | None:
        value: Any = record
        for key in path:
            value = value.get(key) if value is not None else None
        return None if value is None else float(value)

    return take


def values_of(records: Iterable[Record], *path: str) -> list[float]:
    """A figure of each record that has it."""
    return [value for record in records if (value := _nested(*path)(record)) is not None]


def mean_of(records: Iterable[Record], *path: str) -> float:
    """The mean over records of a figure that all of them have."""
    return statistics.mean(values_of(records, *path))


def median_of(records: Iterable[Record], *path: str) -> float:
    """The median over records of a figure that all of them have."""
    return statistics.median(values_of(records, *path))


@dataclass(frozen=True)
class OverFastest:
    """Of each run the seconds of the fastest retraining to the loss of a method over the method's, and which it was.

    Where no retraining got there the ratio is NaN.
    """

    ratios: list[float]
    rivals: list[str | None]

    @classmethod
    def of(cls, methods: Mapping[str, Sequence[Record]], ours: str) -> OverFastest | None:
        """None where the retrainings to the loss of this method were not all run."""
        if not set(TO_LOSS_OF[ours]) <= set(methods):
            return None
        ratios, names = [], []
        for record in methods[ours]:
            timed = {
                name: Timed(other["seconds"], other["loss"])
                for name in RETRAININGS
                for other in methods.get(name, ())
                if other.get("run") == record.get("run")
            }
            name = fastest(timed, record["loss"])
            names.append(name)
            ratios.append(timed[name].seconds / record["seconds"] if name is not None else math.nan)
        return cls(ratios, names)

    @property
    def reached(self) -> list[float]:
        """The ratios of the runs in which a retraining got there."""
        return [ratio for ratio in self.ratios if not math.isnan(ratio)]

    def told(self, *, digits: int) -> str:
        """Their mean, their median, and, if they are not all, of how many runs they are."""
        if not self.reached:
            return NONE_THERE
        mean, median = (of(self.reached) for of in (statistics.mean, statistics.median))
        n, there = len(self.ratios), len(self.reached)
        over = "" if there == n else f" over {there} of {n} runs; in {n - there} no retraining got there"
        return f"{mean:.{digits}f} (median {median:.{digits}f}){over}"


CONSISTENCY = (
    Column("Re-predict", _nested("re_predict"), ("consistency", "re_predict")),
    *(Column(f"RBO@{k}", _nested("rbo", k), ("consistency", f"rbo@{k}")) for k in KS),
    *(Column(f"RBO@{k}, nothing left out", _nested("rbo_training", k)) for k in KS),
)
ACCURACY = tuple(
    Column(f"{name}@{k}", _nested(measure, k), ("accuracy", f"{measure}@{k}"))
    for name, measure in (("Recall", "recall"), ("NDCG", "ndcg"))
    for k in KS
)
OTHERS = tuple(
    Column(f"{name}@{k}", _nested("others", measure, k))
    for name, measure in (("RBO", "rbo"), ("Recall", "recall"), ("NDCG", "ndcg"))
    for k in ("10", "50")
)
EFFICIENCY = (
    Column("Seconds", _nested("seconds"), ("efficiency", "seconds"), 3),
    Column("Speed-up", _nested("speed_up"), ("efficiency", "speed_up"), 2),
    Column("Speed-up over ALS", _nested("speed_up_als"), None, 2),
    Column("Over accelerated ALS to the same loss", _nested("speed_up_same_loss_passes"), None, 2),
    Column("Over joint Newton to the same loss", _nested("speed_up_same_loss_newton"), None, 2),
    Column("Over accelerated ALS by CG to the same loss", _nested("speed_up_same_loss_cg"), None, 2),
    Column("Seconds with measuring", _nested("seconds_measured"), None, 3),
    Column("Passes", _nested("passes"), None, 1),
    Column("Loss", _nested("loss"), None, 1),
)
TABLES = {
    "Consistency: forgetting users": CONSISTENCY,
    "Accuracy: forgetting users": ACCURACY,
    "The other users": OTHERS,
    "Efficiency": EFFICIENCY,
}


def grouped(records: Iterable[Record]) -> dict[Group, dict[str, list[Record]]]:
    """The records by data set, scenario and regime, then by method, in the order they come."""
    groups: dict[Group, dict[str, list[Record]]] = {}
    for record in records:
        group = groups.setdefault((record["dataset"], record["scenario"], record["regime"]), {})
        group.setdefault(record["method"], []).append(record)
    return groups


def tables(records: Iterable[Record]) -> Iterator[Table]:
    """Every table of every group that has records."""
    published = paper()
    for (dataset, scenario, regime), methods in grouped(records).items():
        beside = published if (scenario, regime) == ("noise", "paper") else {}
        for title, columns in TABLES.items():
            heading = f"{dataset}, {scenario}, {regime} regime — {title}"
            yield table(
                heading, columns, methods, {name: part.get(dataset, {}) for name, part in beside.items()}
            )


def table(
    heading: str, columns: Iterable[Column], methods: Mapping[str, list[Record]], published: Mapping[str, Any]
) -> Table:
    """A row per method: mean ± standard deviation over the runs, and in brackets what the paper has."""
    shown = [
        c for c in columns if any(c.take(record) is not None for rows in methods.values() for record in rows)
    ]
    rows = tuple(
        (name, *(_cell(column, name, records, published) for column in shown))
        for name, records in methods.items()
    )
    return Table(heading, ("Method", *(column.title for column in shown)), rows)


def _cell(column: Column, method: str, records: list[Record], published: Mapping[str, Any]) -> str:
    values = [value for record in records if (value := column.take(record)) is not None]
    if not values:
        return "" if method != ORIGINAL else "–"
    text = f"{statistics.mean(values):.{column.digits}f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.{column.digits}f}"
    if column.paper is not None:
        part, name = column.paper
        value = published.get(part, {}).get(method, {}).get(name)
        text += "" if value is None else f" [{value:.{min(column.digits, 4)}f}]"
    return text


def paper() -> dict[str, Any]:
    """The paper's own figures: consistency, accuracy and efficiency by data set, method and measure."""
    figures: dict[str, Any] = json.loads(PAPER.read_text(encoding="utf-8"))
    return figures


VARIED = {
    "sizes": ("size", "method"),
    "solvers": ("solver",),
    "enmf": ("method",),
    "acceleration": ("task", "way"),
    "conditions": ("varied", "value", "method"),
}
"""What the rows of each study's table are told apart by."""
STUDY_COLUMNS = (
    Column("Seconds", _nested("seconds"), digits=3),
    Column("Speed-up", _nested("speed_up"), digits=2),
    Column("Passes", _nested("passes"), digits=0),
    Column("RBO@10", _nested("rbo", "10")),
    Column("RBO@50", _nested("rbo", "50")),
    Column("NDCG@10", _nested("ndcg", "10")),
    Column("Re-predict", _nested("re_predict")),
    Column("Loss", _nested("loss"), digits=2),
)


def study_table(study: str, records: Sequence[Record]) -> Table:
    """A row per record of a study: what was varied, then cost and quality."""
    varied = VARIED[study]
    shown = [c for c in STUDY_COLUMNS if any(c.take(record) is not None for record in records)]
    rows = tuple(
        (*(_short(r[key]) for key in varied), *(_cell(c, r.get("method", ""), [r], {}) for c in shown))
        for r in records
    )
    heading = f"{records[0]['dataset']}, {records[0]['regime']} regime: {study}"
    return Table(heading, (*(key.capitalize() for key in varied), *(c.title for c in shown)), rows)


def _short(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def statistics_table(data: Mapping[str, Record]) -> Table:
    """The size of each data set, in brackets the paper's."""
    published = paper()["datasets"]
    rows = tuple(
        (
            name,
            *(f"{sizes[key]:,} [{published[name][key]:,}]" for key in ("users", "items", "interactions")),
            f"{sizes['density']:.2%} [{published[name]['density']:.2%}]",
        )
        for name, sizes in data.items()
    )
    return Table("Data", ("", "Users", "Items", "Interactions", "Density"), rows)


def tuning_table(result: Record) -> Table:
    """The trials of a search, best first."""
    trials = sorted(result["trials"], key=lambda trial: -float(trial["ndcg@10"]))
    fields = [name for name in trials[0]["settings"] if len({t["settings"][name] for t in trials}) > 1]
    rows = tuple(
        (
            *(f"{trial['settings'][name]:g}" for name in fields),
            f"{trial['ndcg@10']:.4f}",
            f"{trial['recall@10']:.4f}",
            str(trial["passes"]),
        )
        for trial in trials
    )
    heading = f"{result['dataset']}, {result['regime']} regime: {len(trials)} trials"
    return Table(heading, (*fields, "NDCG@10", "Recall@10", "Passes"), rows)
