"""Arrays that grow at their end, and rows that grow inside shared arrays, without a copy each time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alteraser.data.csr import ranges

# The share of what is there that is kept free for more, at the end of arrays and behind each row: little memory, and
# arrays are copied once in so many changes that it costs next to nothing. A row that has grown also has two places.
SPARE, SPARE_PLACES = 1 / 64, 2
# More than this share of what is there does not stay unused. Arrays are copied once in so many removals that it costs
# next to nothing, as above.
MOST_UNUSED = 1 / 16


class _Room(np.ndarray[Any, Any]):
    """Memory with room for more rows than are in use."""


def appended(array: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    """The array with more rows behind it; it is copied only where there is no room for them."""
    n = len(array) + len(more)
    room = array.base
    while isinstance(room, _Room) and isinstance(room.base, _Room):
        room = room.base
    if not isinstance(room, _Room) or len(room) < n:
        room = _Room((n + int(SPARE * n) + 1, *array.shape[1:]), array.dtype)
        room[: len(array)] = array
        room[len(array) :] = 0
    room[len(array) : n] = more
    return room[:n].view(np.ndarray)


class Relocation(NamedTuple):
    """Which places go where, in arrays of so many places; `anew` where all rows find another place."""

    origin: NDArray[np.int64]
    target: NDArray[np.int64]
    n_places: int
    anew: bool

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array after it; what has gone elsewhere is not left behind."""
        if self.anew:
            made = np.zeros(self.n_places, array.dtype)
            made[self.target] = array[self.origin]
            return made
        kept = array[self.origin]
        array[self.origin] = 0
        array[self.target] = kept
        return array


class RowRooms:
    """Where each row stands in arrays that all rows share: from `starts` on, with room up to `ends`."""

    def __init__(self, starts: NDArray[np.int64], ends: NDArray[np.int64], n_places: int) -> None:
        self.starts, self._ends, self._n_places = starts, ends, n_places
        self._used = n_places

    def add_rows(self, n: int) -> None:
        """Appends rows without any room."""
        end = np.full(n, self._used, np.int64)
        self.starts, self._ends = appended(self.starts, end), appended(self._ends, end)

    def make_room(
        self, rows: NDArray[np.int64], n_new: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> Relocation | None:
        """Gives some rows room for so many more entries; `counts` has how many each row of all has. None: they have it.

        Rows that are short of it go to the end. Where that is full, all rows find a new place, long ones with room.
        """
        wanted = counts[rows] + n_new
        short = self.starts[rows] + wanted > self._ends[rows]
        if not short.any():
            return None
        room = _with_spare(wanted) + SPARE_PLACES
        if self._used + int(room[short].sum()) <= self._n_places:
            rows, room = rows[short], room[short]
            origin = ranges(self.starts[rows], counts[rows])
            self.starts[rows] = self._used + np.cumsum(room) - room
            self._ends[rows] = self.starts[rows] + room
            self._used += int(room.sum())
            return Relocation(origin, ranges(self.starts[rows], counts[rows]), self._n_places, anew=False)
        capacity = _with_spare(counts)
        capacity[rows] = room
        return self._laid_out(capacity, counts)

    def has_too_much(self, n: int) -> bool:
        """Whether many places are unused where all rows together have `n` entries."""
        return self._n_places > (1 + MOST_UNUSED) * n + len(self.starts)

    def give_back(self, counts: NDArray[np.int64]) -> Relocation:
        """Gives all rows, of so many entries each, a new place, long ones with some room."""
        return self._laid_out(_with_spare(counts), counts)

    def _laid_out(self, capacity: NDArray[np.int64], counts: NDArray[np.int64]) -> Relocation:
        """Puts all rows one after another, each with so many places."""
        origin = ranges(self.starts, counts)
        self._ends = np.cumsum(capacity)
        self.starts = self._ends - capacity
        self._used = int(capacity.sum())
        self._n_places = self._used + int(SPARE * self._used) + 1
        return Relocation(origin, ranges(self.starts, counts), self._n_places, anew=True)


def _with_spare(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    spare: NDArray[np.int64] = counts + (SPARE * counts).astype(np.int64)
    return spare
