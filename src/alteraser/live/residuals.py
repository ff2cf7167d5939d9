"""The residuals of one side of a live model.

A row's residual is half of minus the gradient of the loss in it. It has three parts:

    whole = pending + deferred + the original's own

- pending: what the request at hand has changed it by, the moves that were made for it included. Refinement removes it.
- deferred: what earlier requests have left of theirs.
- the original's own: what the model was short of its optimum from the beginning. It is stored nowhere and follows from
  the whole, which is computed from a row's entries where it is needed.

The last two together are the prior residual: what a row had before the request. Drift is pending and deferred together.

A change of the other side reaches a row through their common entries, and every row through the Gram matrix Ĝ. The
second part is written to no row: what is stored is E_r = r + m_r·(Ĝ − Ĝ₀)·y_r, with the Ĝ₀ of when the storing began,
and the correction m_r·(Ĝ − Ĝ₀)·y_r is subtracted where a residual r is read. The sums Σ‖E_r‖², Σ m_r y_r E_rᵀ and Σ
m_r² y_r y_rᵀ give the norm of the residuals of rows that nobody visits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.growing import appended
from alteraser.kernels.jit import threads_for
from alteraser.kernels.live import Slots
from alteraser.kernels.residuals import (
    add_residuals_to_slots,
    defer_rows,
    give_slots,
    give_slots_to_neighbours,
)
from alteraser.kernels.sparse import SparseRows
from alteraser.live.factors import SideFactors, times

Floats = NDArray[Any]


@dataclass
class Sums:
    """Σ‖E_r‖² and Σ m_r y_r E_rᵀ over all rows."""

    squared_norm: float
    by_vectors: Floats

    @classmethod
    def zero(cls, dim: int) -> Sums:
        return cls(0.0, np.zeros((dim, dim)))

    @classmethod
    def of(cls, weighted: Floats, residuals: Floats) -> Sums:
        """From m_r·y_r and E_r of all rows that have any."""
        exact = residuals.astype(np.float64)
        return cls(float(np.square(exact).sum()), times(weighted.astype(np.float64).T, exact))

    def __iadd__(self, other: Sums) -> Sums:
        self.squared_norm += other.squared_norm
        self.by_vectors += other.by_vectors
        return self

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.squared_norm + other.squared_norm, self.by_vectors + other.by_vectors)

    def corrected(self, correction: NDArray[np.float64], sum_m2_yy: NDArray[np.float64]) -> float:
        """Σ‖E_r − m_r·correction·y_r‖² over all rows."""
        if not correction.any():
            return max(self.squared_norm, 0.0)
        across = float(np.vdot(correction, self.by_vectors))
        return max(self.squared_norm - 2 * across + float(np.vdot(correction @ correction, sum_m2_yy)), 0.0)


class Residuals:
    """Pending and deferred residuals of the rows of a side; it alone writes them and their sums.

    Pending ones stand in slots, which only rows have that something was written to: rows that were touched.
    """

    def __init__(self, deferred: Floats) -> None:
        n, d = deferred.shape
        self.deferred = deferred
        self._deferred_sums = Sums.zero(d)
        self._slots = np.full(n, -1, dtype=np.int32)
        self._owners = np.zeros(n, np.int64)
        self._values = np.zeros_like(deferred)
        self._n_touched = 0
        self._pending_sums = Sums.zero(d)

    # Asking ----------------------------------------------------------------------------------------------------

    @property
    def touched(self) -> NDArray[np.int64]:
        """The rows that a pending residual was written to."""
        return self._owners[: self._n_touched]

    @property
    def untouched(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._slots < 0)

    @property
    def slots(self) -> Slots:
        """The arrays of the pending residuals, for kernels that move rows."""
        return Slots(self._slots, self._values)

    def pending(self, rows: NDArray[np.int64]) -> Floats:
        """What is stored of the pending residual of some rows."""
        slots = self._slots[rows]
        values: Floats = self._values[slots]
        values[slots < 0] = 0
        return values

    def squared_norm(self, factors: SideFactors, other: SideFactors) -> float:
        """The sum of the squared norms of pending and deferred residuals together; only touched rows are looked at."""
        both = self._pending_sums + self._deferred_sums
        if self._n_touched:
            deferred, pending = self.deferred[self.touched], self._values[: self._n_touched]
            both.squared_norm += 2 * float(np.einsum("rj,rj->", deferred, pending, dtype=np.float64))
        return both.corrected(other.correction_in_double, factors.sum_m2_yy)

    def pending_squared_norm(self, factors: SideFactors, other: SideFactors) -> float:
        """The same of pending residuals alone; no row is looked at."""
        return self._pending_sums.corrected(other.pending_correction_in_double, factors.sum_m2_yy)

    # Writing ---------------------------------------------------------------------------------------------------

    def touch(self, rows: NDArray[np.int64]) -> None:
        """Makes slots for some rows."""
        self._n_touched = give_slots(rows, self._slots, self._owners, self._n_touched)

    def touch_neighbours(self, rows: NDArray[np.int64], entries: SparseRows) -> None:
        """Makes slots for the rows that the entries of some rows of the other side lead to."""
        self._n_touched = give_slots_to_neighbours(rows, entries, self._slots, self._owners, self._n_touched)

    def add_pending(self, rows: NDArray[np.int64], change: Floats, factors: SideFactors) -> None:
        """Adds to the pending residual of some rows; a row may be named more than once."""
        self.touch(rows)
        growth = float(add_residuals_to_slots(rows, change, self.slots))
        self._pending_sums += Sums(growth, times(factors.weighted_by_m(rows).T, change))

    def add_to_sums(self, *, pending: Sums | None = None, deferred: Sums | None = None) -> None:
        """Adds the changes of the sums by a move."""
        if pending is not None:
            self._pending_sums += pending
        if deferred is not None:
            self._deferred_sums += deferred

    def sum_deferred(self, factors: SideFactors) -> None:
        """Computes the sums of the deferred residuals from the beginning."""
        rows = np.flatnonzero(self.deferred.any(1))
        self._deferred_sums = Sums.of(factors.weighted_by_m(rows), self.deferred[rows])

    def set_deferred(self, rows: NDArray[np.int64], values: Floats, factors: SideFactors) -> None:
        """Replaces the deferred residual of some rows; each is named once."""
        before = self.deferred[rows]
        growth = np.square(values, dtype=np.float64).sum() - np.square(before, dtype=np.float64).sum()
        by_vectors = times(factors.weighted_by_m(rows).T, values - before)
        self._deferred_sums += Sums(float(growth), by_vectors)
        self.deferred[rows] = values

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Forgets the residuals of rows that are zero and have no entries: they are at their minimum.

        Σ m y Eᵀ stays as it is, since their y is zero.
        """
        for values, sums in (
            (self.deferred[rows], self._deferred_sums),
            (self.pending(rows), self._pending_sums),
        ):
            sums.squared_norm -= float(np.square(values).sum(dtype=np.float64))
        self.deferred[rows] = 0
        slots = self._slots[rows]
        self._values[slots[slots >= 0]] = 0

    def defer(self) -> None:
        """Turns what is pending into deferred residuals."""
        if self._n_touched == 0:
            return
        with threads_for(8 * self._n_touched * self.deferred.shape[1]):
            growth = float(defer_rows(self.touched, self.slots, self.deferred))
        self._deferred_sums += Sums(growth, self._pending_sums.by_vectors)
        self._owners[: self._n_touched] = 0
        self._n_touched, self._pending_sums = 0, Sums.zero(self.deferred.shape[1])

    def make_all_pending(self, values: Floats, factors: SideFactors) -> None:
        """Makes `values` the pending residuals of all rows, and leaves no deferred ones."""
        n = len(values)
        self.deferred, self._values = np.zeros_like(self.deferred), values
        self._owners, self._slots = np.arange(n), np.arange(n, dtype=np.int32)
        self._n_touched = n
        self._pending_sums = Sums.of(factors.weighted_by_m(self._owners), values)
        self._deferred_sums = Sums.zero(values.shape[1])

    def grow(self, n_rows: int) -> None:
        """Appends rows without residuals until there are `n_rows`."""
        more = n_rows - len(self.deferred)
        self.deferred, self._values = (
            appended(array, np.zeros((more, array.shape[1]), array.dtype))
            for array in (self.deferred, self._values)
        )
        self._slots = appended(self._slots, np.full(more, -1, np.int32))
        self._owners = appended(self._owners, np.zeros(more, np.int64))
