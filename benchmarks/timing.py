"""How things are timed: in turn, several rounds, medians; a busy machine then slows all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from alteraser.data.interactions import Interactions
from alteraser.models.mf import MF
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Rows, Sweeper

N_PASSES = 5


def in_turn(tasks: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, list[float]]:
    """The seconds of each task in each round; one round before them is not counted (compilation, caches)."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            began = time.perf_counter()
            task()
            if number > 0:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def alternating(
    tasks: Mapping[str, Callable[[int], float]], *, rounds: int, parts: int = 1
) -> dict[str, list[float]]:
    """What each task says it took in each round, the median of its parts; after each part the order is reversed.

    Who comes second finds the machine as the first has left it, and so each of two comes second every other time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    order = list(tasks)
    for _ in range(rounds):
        took: dict[str, list[float]] = {name: [] for name in tasks}
        for part in range(parts):
            for name in order:
                took[name].append(tasks[name](part))
            order.reverse()
        for name in tasks:
            seconds[name].append(statistics.median(took[name]))
    return seconds


def ratios(seconds: Mapping[str, list[float]], ours: str, theirs: str) -> list[float]:
    """Of each round, our time over theirs."""
    return [a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True)]


def median_ratio(seconds: Mapping[str, list[float]], ours: str, theirs: str) -> float:
    """The median over the rounds of our time over theirs in the same round."""
    return statistics.median(ratios(seconds, ours, theirs))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """A quarter of the values is at most the first, half of them at most the second, a quarter at least the third."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def seconds_of_a_pass(model: MF, data: Interactions) -> float:
    """The median of a few exact passes over all rows: the measure that requests are told in."""
    sweeper, rows, seconds = Sweeper(ah_newton), Rows.occupied(data), []
    for _ in range(N_PASSES):
        began = time.perf_counter()
        sweeper.sweep(model, data, rows)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
