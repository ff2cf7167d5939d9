"""What the kernels are given: sparse rows, the fixed side, the weights of the rows, and the rows to visit.

Row r minimises a ridge problem over its vector y, whose entries point at the vectors x_c of the fixed side (`rows.py`):

    Σ_c w_c (1 − y·x_c)²  +  m_r Σ_{c not in r} m_c (y·x_c)²  +  λ_r ‖y‖²

Numba compiles a kernel anew for every combination of number types and memory layouts: arrays are as `arrays.py` says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alteraser.kernels.arrays import Floats, Matrix
from alteraser.kernels.jit import n_threads

LONG = np.uint16(65_535)


class SparseRows(NamedTuple):
    """Row r holds columns[starts[r]:stops[r]], ascending, and their weights w_c.

    Rows may have room to spare behind them, so that the rows of a live model can lose and gain entries.
    """

    starts: NDArray[np.int64]  # [n_rows]
    stops: NDArray[np.int64]  # [n_rows]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def from_csr(
        cls, indptr: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.float32]
    ) -> SparseRows:
        """Compressed rows, each of which ends where the next one begins; nothing is copied."""
        return cls(indptr[:-1], indptr[1:], columns, weights)


class FixedFactors(NamedTuple):
    """The side that stays as it is, as scores use it."""

    vectors: Matrix  # x_c, [n_columns, d]: the scaled factors h ⊙ q
    missing: Floats  # m_c, [n_columns]: its factor in the weight of a missing entry


class RowWeights(NamedTuple):
    """How the objective weighs each row of the side that is solved."""

    missing: Floats  # m_r, [n_rows]: its factor in the weight of a missing entry
    ridge: Floats  # λ_r, [n_rows]


class Schedule(NamedTuple):
    """The rows to visit, dealt out to the workers in turn, and at which place the answer of each of them stands."""

    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    n_workers: int


def longest_first(chosen: NDArray[np.int64], rows: SparseRows) -> Schedule:
    """Visits the chosen rows from the longest to the shortest, so that all threads end at about the same time.

    The answer of chosen[i] stands at place i.
    """
    order = by_length(rows.stops[chosen] - rows.starts[chosen])
    return Schedule(chosen[order], order, n_threads())


def by_length(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of some rows with so many entries, from the longest row to the shortest.

    All that are longer than the largest short integer are alike: these can be sorted a dozen times as fast.
    """
    return np.argsort(LONG - np.minimum(counts, LONG).astype(np.uint16), kind="stable")
