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
    assert len(values) < 1.07 * counts.sum() + len(counts)


def test_what_is_taken_away_gives_its_room_back() -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(20, 60, 200)
    values, starts = rng.integers(1, 10**6, counts.sum()), np.cumsum(counts) - counts
    expected = [part.tolist() for part in np.split(values.copy(), starts[1:])]
    rooms, n_moved = RowRooms(starts, starts + counts, len(values)), 0
    for row in rng.permutation(200)[:190]:
        values[rooms.starts[row] : rooms.starts[row] + counts[row]] = 0
        counts[row], expected[row] = 0, []
        if rooms.has_too_much(int(counts.sum())):
            values, n_moved = rooms.give_back(counts).of(values), n_moved + 1
        assert len(values) <= 1.07 * counts.sum() + len(counts)
    assert n_moved < 100  # not every time
    for row, held in enumerate(expected):
        assert values[rooms.starts[row] : rooms.starts[row] + counts[row]].tolist() == held
    assert values.astype(bool).sum() == counts.sum()


def test_rows_that_have_room_still_have_it_where_others_need_more() -> None:
    """One row has lost most of what it had; both get more, and only the other has no room for it."""
    starts, counts, n_new = np.array([0, 50]), np.array([10, 50]), np.array([20, 5])
    rooms = RowRooms(starts, starts + 50, 100)
    moved = rooms.make_room(np.arange(2), n_new, counts)
    assert moved is not None
    n_places = len(moved.of(np.zeros(100)))
    bounds = [*rooms.starts.tolist(), n_places]
    assert (np.diff(bounds) >= counts + n_new).all()
