"""How things are timed: in turn, several rounds, medians; a busy machine then slows all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


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


def median_ratio(seconds: Mapping[str, list[float]], ours: str, theirs: str) -> float:
    """The median over the rounds of our time over theirs in the same round."""
    return statistics.median(a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True))
