"""Rows that grow inside shared arrays: nothing is lost, nothing is left behind, little is kept free."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from alteraser.data.csr import ranges
from alteraser.data.growing import RowRooms, appended


def test_appended_rows_are_those_that_came() -> None:
    array, expected = np.arange(6.0).reshape(3, 2), [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    for number in range(200):
        row = [[float(number), -1.0]]
        array, expected = appended(array, np.array(row)), expected + row
    np.testing.assert_array_equal(array, expected)
    assert type(array) is np.ndarray
    assert array.flags.c_contiguous


def test_most_appends_copy_nothing_and_copies_share_nothing() -> None:
    array, n_copied = np.zeros(10_000), 0
    for _ in range(100):
        longer = appended(array, np.ones(1))
        n_copied += not np.shares_memory(array, longer)
        array = longer
    assert n_copied == 1
    other = copy.deepcopy(array)
    assert not np.shares_memory(appended(other, np.ones(1)), appended(array, np.zeros(1)))


def test_a_view_of_somebody_elses_array_is_never_written_behind() -> None:
    whole = np.arange(10.0)
    longer = appended(whole[:3], np.array([-1.0]))
    assert longer.tolist() == [0, 1, 2, -1]
    assert whole.tolist() == list(range(10))


@pytest.mark.parametrize("seed", range(5))
def test_rows_keep_their_values_wherever_they_go(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 40, 50)
    values = rng.integers(1, 10**6, counts.sum())
    expected = [part.tolist() for part in np.split(values, np.cumsum(counts)[:-1])]
    starts = np.cumsum(counts) - counts
    rooms = RowRooms(starts, starts + counts, len(values))
    for number in range(400):
        if number % 50 == 25:
            rooms.add_rows(2)
            counts, expected = np.append(counts, [0, 0]), [*expected, [], []]
        rows = np.sort(rng.choice(len(counts), 3, replace=False))
        n_new = rng.integers(1, 6, 3)
        if (moved := rooms.make_room(rows, n_new, counts)) is not None:
            values = moved.of(values)
        for row, n in zip(rows, n_new, strict=True):
            new = rng.integers(1, 10**6, n)
            at = rooms.starts[row] + counts[row]
            assert not values[at : at + n].any()  # free, and nothing of anybody is left there
            values[at : at + n] = new
            expected[row] += new.tolist()
            counts[row] += n
    for row, held in enumerate(expected):
        assert values[rooms.starts[row] : rooms.starts[row] + counts[row]].tolist() == held
    used = ranges(rooms.starts, counts)
    assert len(np.unique(used)) == len(used)
    free = np.ones(len(values), bool)
    free[used] = False
    assert not values[free].any()
    assert len(values) < 1.12 * counts.sum() + 3 * len(counts)
