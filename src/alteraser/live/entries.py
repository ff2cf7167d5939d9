"""The entries of one side of a live model: sparse rows that lose and gain entries."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from alteraser.data.csr import CSR, PairWeights, ranges
from alteraser.data.growing import Relocation, RowRooms, appended
from alteraser.kernels.editing import find_entries, set_entries
from alteraser.kernels.sparse import SparseRows


class Entries:
    """Rows of entries with room behind them; this object is the only one that writes to them."""

    def __init__(self, rows: SparseRows) -> None:
        self._rows = rows
        self._rooms = RowRooms(rows.starts, rows.stops.copy(), len(rows.columns))
        self._n_entries = int((rows.stops - rows.starts).sum())

    @classmethod
    def of(cls, csr: CSR) -> Self:
        starts, stops = csr.starts[:-1].copy(), csr.starts[1:].copy()
        return cls(SparseRows(starts, stops, csr.columns.copy(), csr.weights.copy()))

    def __len__(self) -> int:
        return len(self._rows.starts)

    @property
    def rows(self) -> SparseRows:
        """The arrays, for kernels that read them."""
        return self._rows

    @property
    def n_entries(self) -> int:
        return self._n_entries

    def counts(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many entries some rows have."""
        return self._rows.stops[rows] - self._rows.starts[rows]

    def all_counts(self) -> NDArray[np.int64]:
        """How many entries each row has."""
        return self._rows.stops - self._rows.starts

    def of_row(self, row: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The columns and weights of one row."""
        some = slice(self._rows.starts[row], self._rows.stops[row])
        return self._rows.columns[some], self._rows.weights[some]

    def packed(self, rows: NDArray[np.int64]) -> SparseRows:
        """The entries of some rows one after another, without the room between them."""
        starts = self._rows.starts[rows]
        counts = self._rows.stops[rows] - starts
        places, stops = ranges(starts, counts), counts.cumsum()
        return SparseRows(stops - counts, stops, self._rows.columns[places], self._rows.weights[places])

    def weights_of(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> PairWeights:
        """The weight of each pair."""
        places = find_entries(rows, columns.astype(np.int32), self._rows)
        present = places >= 0
        return PairWeights(present, np.where(present, self._rows.weights[places], np.float32(0)))

    def set(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], before: PairWeights, after: PairWeights
    ) -> None:
        """Gives pairs that have the weights `before` those `after`; what is no longer present leaves no trace."""
        new = after.present & ~before.present
        self._n_entries += int(after.present.sum()) - int(before.present.sum())
        if new.any():
            counts = self.all_counts()
            self._relocate(self._rooms.make_room(*np.unique(rows[new], return_counts=True), counts), counts)
        set_entries(rows, columns.astype(np.int32), after.present, after.values, self._rows)
        if self._rooms.has_too_much(self._n_entries):
            counts = self.all_counts()
            self._relocate(self._rooms.give_back(counts), counts)

    def grow(self, n_rows: int) -> None:
        """Appends empty rows until there are `n_rows`."""
        more = n_rows - len(self)
        if more:
            self._rooms.add_rows(more)
            starts = self._rooms.starts
            self._rows = self._rows._replace(starts=starts, stops=appended(self._rows.stops, starts[-more:]))

    def _relocate(self, moved: Relocation | None, counts: NDArray[np.int64]) -> None:
        """Moves rows of so many entries each to their new places, if there are any."""
        if moved is not None:
            columns, weights = (moved.of(array) for array in (self._rows.columns, self._rows.weights))
            starts = self._rooms.starts
            self._rows = SparseRows(starts, starts + counts, columns, weights)
