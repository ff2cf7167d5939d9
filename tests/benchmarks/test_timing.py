"""How things are timed, by a clock that moves only when a task says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.timing import alternating, in_turn, median_ratio, quartiles, ratios


class Clock:
    """Counts seconds, and remembers who took them."""

    def __init__(self) -> None:
        self.now, self.order = 0.0, ""

    def task(self, name: str, seconds: list[float]) -> Callable[[], None]:
        """A task that takes each of these in turn."""
        left = iter(seconds)

        def run() -> None:
            self.now += next(left)
            self.order += name

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("benchmarks.timing.time.perf_counter", lambda: clock.now)
    return clock


def test_tasks_take_turns_and_the_first_round_is_not_counted(clock: Clock) -> None:
    tasks = {"a": clock.task("a", [100, 1, 2]), "b": clock.task("b", [200, 10, 20])}
    assert in_turn(tasks, rounds=2) == {"a": [1, 2], "b": [10, 20]}
    assert clock.order == "ababab"


def test_a_ratio_is_that_of_times_of_the_same_round() -> None:
    # The machine is ten times slower in the last round; the ratio of medians would be 1.5.
    seconds = {"ours": [1.0, 2.0, 30.0], "theirs": [2.0, 1.0, 20.0]}
    assert ratios(seconds, "ours", "theirs") == [0.5, 2.0, 1.5]
    assert median_ratio(seconds, "ours", "theirs") == 1.5
    assert median_ratio({"ours": [1, 3, 30], "theirs": [2, 3, 10]}, "ours", "theirs") == 1


def test_a_ratio_of_unequal_numbers_of_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        median_ratio({"ours": [1.0, 2.0], "theirs": [1.0]}, "ours", "theirs")


def test_who_comes_first_changes_with_every_round() -> None:
    order = []

    def task(name: str) -> Callable[[int], float]:
        def run(part: int) -> float:
            assert part == 0
            order.append(name)
            return float(len(order))

        return run

    assert alternating({"new": task("new"), "old": task("old")}, rounds=3) == {
        "new": [1.0, 4.0, 5.0],
        "old": [2.0, 3.0, 6.0],
    }
    assert order == ["new", "old", "old", "new", "new", "old"]


def test_a_round_of_parts_takes_their_median_and_turns_are_taken_at_each() -> None:
    order = []

    def task(name: str, *seconds: float) -> Callable[[int], float]:
        def run(part: int) -> float:
            order.append(f"{name}{part}")
            return seconds[part]

        return run

    tasks = {"new": task("new", 1, 2, 30), "old": task("old", 5, 4, 3)}
    assert alternating(tasks, rounds=2, parts=3) == {"new": [2, 2], "old": [4, 4]}
    assert order[:6] == ["new0", "old0", "old1", "new1", "new2", "old2"]
    assert order[6:] == ["old0", "new0", "new1", "old1", "old2", "new2"]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([5.0, 1.0, 3.0, 2.0, 4.0], (2.0, 3.0, 4.0)),
        ([1.0, 2.0], (1.25, 1.5, 1.75)),
        ([7.0], (7.0, 7.0, 7.0)),
    ],
)
def test_quartiles_are_those_of_the_sorted_values(
    values: list[float], wanted: tuple[float, float, float]
) -> None:
    assert quartiles(values) == wanted
