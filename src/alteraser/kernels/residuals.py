"""The pending residuals of a live model, kept in slots for the rows that have any; and what residuals are worth."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.arrays import Doubles, Floats, Matrix
from alteraser.kernels.jit import compiled, inner, threaded
from alteraser.kernels.live import Slots
from alteraser.kernels.sparse import SparseRows
from alteraser.kernels.tiles import fetch_ahead

AHEAD = 6  # rows asked for before they are needed


@compiled
def give_slots(
    rows: NDArray[np.int64], slots: NDArray[np.int32], owners: NDArray[np.int64], n_slots: int
) -> int:
    """Gives the next slot to every row that has none; returns how many slots there are then."""
    for row in rows:
        n_slots = _give_slot(row, slots, owners, n_slots)
    return n_slots


@compiled
def give_slots_to_neighbours(
    rows: NDArray[np.int64],
    entries: SparseRows,
    slots: NDArray[np.int32],
    owners: NDArray[np.int64],
    n_slots: int,
) -> int:
    """As `give_slots`, for the rows of the other side that the entries of `rows` lead to.

    Whether a row has a slot already cannot be foreseen, so that every entry writes instead of asking.
    """
    last = len(owners) - 1
    for row in rows:
        for entry in range(entries.starts[row], entries.stops[row]):
            if n_slots > last:
                return n_slots
            column = np.uintp(entries.columns[entry])
            slot = slots[column]
            owners[n_slots] = column
            slots[column] = n_slots if slot < 0 else slot
            n_slots += slot < 0
    if n_slots <= last:
        owners[n_slots] = 0  # of the last row that had a slot already
    return n_slots


@inner
def _give_slot(row: int, slots: NDArray[np.int32], owners: NDArray[np.int64], n_slots: int) -> int:
    if slots[row] < 0:
        slots[row], owners[n_slots] = n_slots, row
        n_slots += 1
    return n_slots


@compiled
def add_residuals_to_slots(rows: NDArray[np.int64], change: Matrix, pending: Slots) -> float:
    """Adds change[k] to the residual of rows[k]; returns by how much the sum of squared norms grew."""
    growth = 0.0
    for k in range(len(rows)):
        residual = pending.values[pending.slots[rows[k]]]
        for j in range(change.shape[1]):
            gain = change[k, j]
            growth += gain * (residual[j] + residual[j] + gain)
            residual[j] += gain
    return growth


@threaded
def defer_rows(rows: NDArray[np.int64], pending: Slots, deferred: Matrix) -> float:
    """Adds the residual in slot k to the deferred one of rows[k], and empties the slot.

    Returns by how much the sum of the squared norms of deferred residuals grew.
    """
    growth = 0.0
    values, slots = pending.values, pending.slots
    kind = deferred.dtype.type
    last = len(rows) - 1
    for k in prange(len(rows)):
        row = rows[k]
        fetch_ahead(deferred, rows[min(k + AHEAD, last)])
        old, grown = deferred[row], kind(0)
        for j in range(deferred.shape[1]):
            grown += values[k, j] * (old[j] + old[j] + values[k, j])
            old[j] += values[k, j]
            values[k, j] = 0
        slots[row] = -1
        growth += grown
    return growth


@threaded
def entry_traces(
    entries: SparseRows, missing_row: Floats, missing_other: Floats, squared_norms: Floats
) -> Floats:
    """Returns Σ_c e·‖x_c‖² over the entries of each row: the trace of what they add to half its Hessian."""
    traces = np.zeros(len(entries.starts), squared_norms.dtype)
    for row in prange(len(traces)):
        total = squared_norms.dtype.type(0)
        for entry in range(entries.starts[row], entries.stops[row]):
            column = entries.columns[entry]
            excess = entries.weights[entry] - missing_row[row] * missing_other[column]
            total += excess * squared_norms[column]
        traces[row] = total
    return traces


@compiled
def estimate_decrements(
    residuals: Matrix, alpha: Floats, l2: Floats, spectrum: Floats, decrements: Doubles
) -> float:
    """Sets decrements[k] to about rᵀ(alpha·G + l2·I)⁻¹r; returns the sum of all squared norms.

    G has this spectrum. Of r only the norm is used: it is taken to be spread over the eigenvectors of G in proportion
    to the eigenvalues. Where G is zero, the penalty is all there is.
    """
    total = 0.0
    kind = residuals.dtype.type
    trace = spectrum.sum()
    for k in range(len(residuals)):
        norm, share = kind(0), kind(0)
        for j in range(len(spectrum)):
            norm += residuals[k, j] * residuals[k, j]
            share += spectrum[j] / (alpha[k] * spectrum[j] + l2[k])
        total += norm
        decrements[k] = norm * share / trace if trace > 0 else norm / l2[k]
    return total
