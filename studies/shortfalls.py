"""Where the headline falls short of Retrain*, of Warm-Start and of the paper, and why, in sentences."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from alteraser.live.scopes import AutoRows
from evidence.page import OTHER_WAY
from studies.goals import higher_in
from studies.methods import (
    AH_FORGETTING,
    AH_NEWTON,
    DEFAULT,
    RETRAIN,
    RETRAIN_INDEPENDENT,
    RETRAIN_STAR,
    SHARED_SEED,
    SHARED_WEIGHTS,
    WARM_START,
)
from studies.tables import NONE_THERE, OverFastest, Record, mean_of, median_of, paper, values_of


class Column(NamedTuple):
    """A column: the figure of a record, where the paper has it, and how many digits are shown."""

    title: str
    path: tuple[str, ...]
    part: str
    name: str
    digits: int


COLUMNS = (
    Column("RBO@10", ("rbo", "10"), "consistency", "rbo@10", 3),
    Column("NDCG@10", ("ndcg", "10"), "accuracy", "ndcg@10", 3),
    Column("Speed-up", ("speed_up",), "efficiency", "speed_up", 1),
)
RBO, _, SPEED_UP = COLUMNS
IN_THE_PAPER = {name: name for name in (RETRAIN, RETRAIN_STAR, WARM_START)} | {DEFAULT: AH_NEWTON}
"""The methods that the paper has, and what it calls them."""
RecordsByMethod = Mapping[str, Mapping[str, Sequence[Record]]]
"""The records by data set and method."""
MOST_DIGITS = 6


def published_of(column: Column, dataset: str, method: str) -> float | None:
    """What the paper printed, if it did."""
    known: Mapping[str, float] = paper()[column.part][dataset].get(IN_THE_PAPER.get(method), {})
    return known.get(column.name)


def shortfalls(records: RecordsByMethod) -> Iterator[str]:
    """A sentence for each way to fall short, or one that says that there is none."""
    found = [*_of_agreement(records), *_of_speed(records)]
    nowhere = (
        "Nowhere does AltEraser agree less with Retrain than Retrain* or Warm-Start do, or gain less time than in the "
        "paper."
    )
    yield from found or [nowhere]


def _of_agreement(records: RecordsByMethod) -> Iterator[str]:
    less, behind = (
        [d for d in records if _mean(records[d][DEFAULT]) < _mean(records[d][other])]
        for other in (RETRAIN_STAR, WARM_START)
    )
    if less:
        against = (f"{d} ({_beside(records[d], RETRAIN_STAR)})" for d in less)

        def of(method: str) -> str:
            return listed(f"{_mean(records[d][method]):.{RBO.digits}f}" for d in less)

        yield (
            f"AltEraser agrees less with Retrain than Retrain* does on {listed(against)}: AdamW, stopped early, ends "
            "where initial weights and order of batches lead it, and the original shares neither with Retrain, as "
            f"little as an independent retraining does ({of(RETRAIN_INDEPENDENT)}); from an original of Retrain's "
            f"initial weights AltEraser reaches {of(SHARED_WEIGHTS)}, from one of its seed {of(SHARED_SEED)}."
        )
    if behind:
        against = (
            f"{d} ({_beside(records[d], WARM_START)}; {higher_in(records[d][DEFAULT], records[d][WARM_START])})"
            for d in behind
        )
        yield f"AltEraser agrees less with Retrain than Warm-Start does on {listed(against)}."


def _of_speed(records: RecordsByMethod) -> Iterator[str]:
    over_retrain = {d: values_of(records[d][DEFAULT], *SPEED_UP.path) for d in records}
    fastest = {d: OverFastest.of(records[d], DEFAULT) for d in records}
    slower = dict(_below_the_paper(over_retrain))
    if slower:
        times = (
            f"{_mean(records[d][AH_FORGETTING]):.{RBO.digits}f} at "
            f"{mean_of(records[d][AH_FORGETTING], *SPEED_UP.path):.{SPEED_UP.digits}f} times"
            for d in slower
        )
        yield (
            f"AltEraser's speed-up over Retrain is below the paper's on {listed(slower.values())}, because by default "
            f"it goes on until {_tolerance(records)} is left of the gap that the requests opened in the loss, long "
            f"after the lists have settled: its forgetting pass alone has an RBO@10 of {listed(times)}."
        )
    reached = {d: found.reached for d, found in fastest.items() if found is not None and found.reached}
    if below := dict(_below_the_paper(reached)):
        yield (
            "AltEraser's speed-up over the fastest retraining to its loss is below the paper's over Retrain on "
            f"{listed(below.values())}."
        )
    if none := [d for d, found in fastest.items() if found is not None and not found.reached]:
        yield f"To AltEraser's loss {NONE_THERE} on {listed(none)}."


def _below_the_paper(speed_ups: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, str]]:
    """The data sets on which the mean speed-up is below what the paper printed, each with the figures."""
    for dataset, values in speed_ups.items():
        wanted, mean, median = (
            published_of(SPEED_UP, dataset, DEFAULT) or 0.0,
            *(of(values) for of in (statistics.mean, statistics.median)),
        )
        if mean < wanted:
            told = f"{_against(mean, wanted, SPEED_UP.digits)}; median {median:.{SPEED_UP.digits}f}"
            yield dataset, f"{dataset} ({told}{'' if median < wanted else f', {OTHER_WAY}'})"


def _tolerance(records: RecordsByMethod) -> str:
    """What AltEraser by default leaves of the gap, by its own estimate.

    Runs that were measured before it was recorded are of the present default.
    """
    default = AutoRows().tolerance
    shares = {each.get("tolerance", default) for methods in records.values() for each in methods[DEFAULT]}
    return "an estimated " + " or ".join(f"{100 * share:g} %" for share in sorted(shares))


def _mean(records: Sequence[Record]) -> float:
    return mean_of(records, *RBO.path)


def _beside(methods: Mapping[str, Sequence[Record]], other: str) -> str:
    """AltEraser's mean agreement against the higher one of another method, and the medians."""
    means, medians = (
        [of(methods[name], *RBO.path) for name in (DEFAULT, other)] for of in (mean_of, median_of)
    )
    shown = " and ".join(f"{each:.{RBO.digits}f}" for each in medians)
    told = f"{_against(means[0], means[1], RBO.digits)}; medians {shown}"
    return told + ("" if medians[0] < medians[1] else f", {OTHER_WAY}")


def _against(ours: float, theirs: float, digits: int) -> str:
    """Two figures with so many digits that one sees them differ."""
    shown = [f"{ours:.{digits}f}", f"{theirs:.{digits}f}"]
    return (
        " against ".join(shown)
        if len({*shown}) > 1 or digits >= MOST_DIGITS
        else _against(ours, theirs, digits + 1)
    )


def listed(parts: Iterable[str]) -> str:
    """What there is, in a row of words."""
    *before, last = parts
    return f"{', '.join(before)} and {last}" if before else last
