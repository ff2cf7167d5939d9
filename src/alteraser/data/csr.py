"""`CSR`: the merged interactions of one side, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class PairWeights(NamedTuple):
    """Which pairs are there, and the merged weight of those that are; 0 for the others."""

    present: NDArray[np.bool_]
    values: NDArray[np.float32]

    @classmethod
    def absent(cls, n_pairs: int) -> PairWeights:
        """The weights of pairs none of which is there."""
        return cls(np.zeros(n_pairs, np.bool_), np.zeros(n_pairs, np.float32))

    @classmethod
    def of(cls, values: NDArray[np.float32]) -> PairWeights:
        """The weights of pairs all of which are there."""
        return cls(np.ones(len(values), np.bool_), values)


@dataclass(frozen=True, eq=False, repr=False)
class CSR:
    """Merged interactions row by row: row r holds `columns[starts[r]:starts[r + 1]]`, ascending."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __repr__(self) -> str:
        return f"CSR({len(self)} rows, {self.n_entries} entries)"

    @property
    def n_entries(self) -> int:
        return len(self.columns)

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    @property
    def occupied(self) -> NDArray[np.int64]:
        """The rows that hold anything."""
        return np.flatnonzero(self.counts)

    def row(self, row: int) -> slice:
        """Where the entries of a row stand."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def entries_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the entries of some rows stand, one row after another."""
        return ranges(self.starts[rows], self.starts[rows + 1] - self.starts[rows])

    def owners(self) -> NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self)), self.counts)

    def pair_keys(self, n_columns: int) -> NDArray[np.int64]:
        """One number for each entry, ascending: row · n_columns + column."""
        return self.owners() * n_columns + self.columns

    def weights_of(
        self, rows: NDArray[np.signedinteger], columns: NDArray[np.signedinteger], *, n_columns: int
    ) -> PairWeights:
        """The weight of each pair of a row and a column; only the rows that are named are looked at."""
        named, place = np.unique(rows, return_inverse=True)
        entries = self.entries_of(named)
        owners = np.repeat(np.arange(len(named)), self.counts[named])
        keys, asked = owners * n_columns + self.columns[entries], place * n_columns + columns
        if len(keys) == 0:
            return PairWeights.absent(len(asked))
        found = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        present = keys[found] == asked
        return PairWeights(present, np.where(present, self.weights[entries[found]], np.float32(0)))


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, … for each start, `counts` of them, one after another."""
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return shift + np.arange(len(shift))
