"""How a move of rows reaches the rest of the model: neighbours through common entries, everybody through Gram matrices.

A row's residual is half of minus the gradient of the loss in it,

    Σ_{c∈R_r} (w − e·ŷ)·x_c − m_r·Ĝ·y_r − λ_r·y_r,    e = w − m_r m_c,    Ĝ = Σ_c m_c x_c x_cᵀ over all c.

A move of the other side's rows changes it through the entries and through Ĝ. The second part would reach every row,
so it is not written to any: a stored residual is that with the Ĝ of when it was begun, and the correction m_r·(change
of Ĝ)·y_r is subtracted where a residual is read.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.arrays import DoubleMatrix, Floats, Matrix, Stack
from alteraser.kernels.jit import inner, threaded
from alteraser.kernels.live import Factors, Grams, Moves, RowArrays, Slots, Targets
from alteraser.kernels.sparse import SparseRows
from alteraser.kernels.tiles import TILE_COLUMNS, TILE_ROWS, add_tile, fetch_ahead, padded

CHUNK = 32  # entries gathered at a time: with d = 64 in float32 they fit the first-level cache
AHEAD = 6  # entries asked for before they are needed; measured on this kernel, where waiting for memory ends


@threaded
def spread_moves(
    rows: NDArray[np.int64],
    entries: SparseRows,
    moves: Moves,
    other: Factors,
    pending: Slots,
    sums: Stack,
    totals: DoubleMatrix,
) -> None:
    """Adds to the pending residuals of the other side what the moves of `rows` bring through common entries.

    Let x be a row's scaled factors, Δ their change, and for an entry c with excess weight e before and e' after

        slope = w − e'·(y_c·(x + Δ)),    bend = e'·(y_c·Δ) + (e' − e)·(y_c·x):

    the residual of c gains slope·Δ − bend·x. Of each worker and row, `sums` has Σ bend·y_c, Σ m_c·bend·y_c and
    Σ m_c·slope·y_c, padded to whole tiles; `totals` has Σ e'·(y_c·Δ)², by how much the squared norms of the
    residuals grew, and Σ slope·(y_c·Δ). A worker has a range of columns to itself, so that adding does not race.
    """
    scaled, change, missing_before, missing_after = moves
    vectors, missing_other = other
    slots, residuals = pending
    columns, weights = entries.columns, entries.weights
    n_workers = sums.shape[0]
    d = vectors.shape[1]
    stride = padded(d)
    kind = vectors.dtype.type
    share = (len(vectors) + n_workers - 1) // n_workers
    for worker in prange(n_workers):
        low, high = worker * share, min((worker + 1) * share, len(vectors))
        gathered, factors = np.zeros(CHUNK * stride, vectors.dtype), np.zeros(CHUNK * stride, vectors.dtype)
        curvature, growth, along = 0.0, 0.0, 0.0
        for k in range(len(rows)):
            first = entries.starts[rows[k]]
            held = columns[first : entries.stops[rows[k]]]
            last = first + np.searchsorted(held, high)
            for begin in range(first + np.searchsorted(held, low), last, CHUNK):
                n = min(CHUNK, last - begin)
                for i in range(n):
                    soon = columns[min(begin + i + AHEAD, last - 1)]
                    fetch_ahead(vectors, soon)
                    fetch_ahead(residuals, slots[soon])
                    column = columns[begin + i]
                    start = np.uintp(i * stride)
                    score, moved = kind(0), kind(0)
                    for j in range(np.uintp(0), np.uintp(d)):
                        y = vectors[column, j]
                        gathered[start + j] = y
                        score += y * scaled[k, j]
                        moved += y * change[k, j]
                    weight, missing = kind(weights[begin + i]), missing_other[column]
                    before, after = weight - missing_before[k] * missing, weight - missing_after[k] * missing
                    bend = after * moved + (after - before) * score
                    slope = weight - after * (score + moved)
                    factors[start], factors[start + np.uintp(1)] = bend, missing * bend
                    factors[start + np.uintp(2)] = missing * slope
                    curvature += after * moved * moved
                    along += slope * moved
                    residual, grown = residuals[slots[column]], kind(0)
                    for j in range(np.uintp(0), np.uintp(d)):
                        gain = slope * change[k, j] - bend * scaled[k, j]
                        grown += gain * (residual[j] + residual[j] + gain)
                        residual[j] += gain
                    growth += grown
                for j in range(0, d, TILE_COLUMNS):
                    add_tile(sums[worker, k], j, factors, 0, gathered, j, stride, n)
        totals[worker, 0], totals[worker, 1], totals[worker, 2] = curvature, growth, along


@threaded
def move_rows(
    rows: NDArray[np.int64],
    side: RowArrays,
    pending: Slots,
    targets: Targets,
    spread: Stack,
    grams: Grams,
    sums: Stack,
    totals: DoubleMatrix,
) -> None:
    """Turns rows whose moves were spread to their neighbours into `targets`; their own residuals follow.

    With y the vector of a row, Δ its change, m its weight after the move, r its pending residual and S what the
    entries give to the Hessian's product with Δ (`spread`, by `spread_moves`), for weights that stay as they are:

        the loss changes by    −(2r − m·ĜΔ − λΔ)·Δ, pending residual alone, but for the entries' curvature S·Δ
        pending becomes        r − S − m·ĜΔ − λΔ, stored with + m·(change of Ĝ since the request)·Δ
        deferred stays         stored with + m·(change of Ĝ until the request)·Δ

    Of each worker, `sums` gains the changes of Σ m y yᵀ, Σ m² y yᵀ,
    Σ m y deferredᵀ, Σ m y pendingᵀ, and of Σ m y pendingᵀ of the other side; `totals` has by how much the loss
    falls as far as the pending residual tells (but for the entries' curvature), by how much the squared norms of
    deferred and of pending residuals grow, and what missing entries and penalties add to the whole loss: their sum
    over the rows, and that of its absolute values.
    """
    table, missing, l2, squared_norms, deferred = side
    slots, values = pending
    vectors, missing_after, l2_after = targets
    h, gram, deferred_correction, pending_correction = grams
    d = table.shape[1]
    stride = padded(d)
    kind = table.dtype
    n_workers = sums.shape[0]
    for worker in prange(n_workers):
        # Of each row, what it was, with a minus, and what it becomes: one beneath the other.
        weighted, y, magnitudes, old_new_deferred, old_new_pending, slopes, gains = (
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
        )
        change, by_gram, by_deferred, by_pending, own_by_pending = (
            np.empty(d, kind),
            np.empty(d, kind),
            np.empty(d, kind),
            np.empty(d, kind),
            np.empty(d, kind),
        )
        own_by_gram, own_by_deferred = np.zeros(d, kind), np.zeros(d, kind)
        fall, growth, growth_of_pending, rest, rest_size = 0.0, 0.0, 0.0, 0.0, 0.0
        half = CHUNK // 2
        for begin in range(worker * half, len(rows), n_workers * half):
            n = min(half, len(rows) - begin)
            for i in range(n):
                k = begin + i
                row = rows[k]
                old, after = table[row], vectors[k]
                m0, m1, r0, r1 = missing[row], missing_after[k], l2[row], l2_after[k]
                for j in range(d):
                    change[j] = after[j] - old[j]
                _times_matrix(change, gram, by_gram)
                _times_matrix(change, deferred_correction, by_deferred)
                _times_matrix(change, pending_correction, by_pending)
                _times_matrix(old, pending_correction, own_by_pending)
                if m1 != m0:
                    _times_matrix(old, gram, own_by_gram)
                    _times_matrix(old, deferred_correction, own_by_deferred)
                held, held_pending = deferred[row], values[slots[row]]
                fallen, grown, grown_of_pending, square = (
                    kind.type(0),
                    kind.type(0),
                    kind.type(0),
                    kind.type(0),
                )
                added = kind.type(0)
                first, second = 2 * i * stride, (2 * i + 1) * stride
                for j in range(d):
                    own, of_bend, of_slope = kind.type(0), kind.type(0), kind.type(0)
                    for part in range(len(spread)):
                        own += spread[part, k, j]
                        of_bend += spread[part, k, stride + j]
                        of_slope += spread[part, k, 2 * stride + j]
                    own *= h[j]
                    # The Hessian times the change: what missing entries and the penalty give, then all of it.
                    apart = m1 * by_gram[j] + r1 * change[j]
                    less = own + apart
                    residual = held_pending[j] - m0 * own_by_pending[j]
                    fallen += (residual + residual - apart) * change[j]
                    added += apart * (old[j] + after[j])
                    less += (m1 - m0) * own_by_gram[j] + (r1 - r0) * old[j]
                    deferred0 = held[j]
                    deferred1 = deferred0 + m1 * by_deferred[j] + (m1 - m0) * own_by_deferred[j]
                    pending0 = held_pending[j]
                    pending1 = pending0 - less + m1 * by_pending[j] + (m1 - m0) * own_by_pending[j]
                    grown += (deferred1 - deferred0) * (deferred1 + deferred0)
                    grown_of_pending += (pending1 - pending0) * (pending1 + pending0)
                    y[first + j], y[second + j] = old[j], after[j]
                    weighted[first + j], weighted[second + j] = -m0 * old[j], m1 * after[j]
                    magnitudes[first + j], magnitudes[second + j] = m0 * old[j], m1 * after[j]
                    old_new_deferred[first + j], old_new_deferred[second + j] = deferred0, deferred1
                    old_new_pending[first + j], old_new_pending[second + j] = pending0, pending1
                    slopes[first + j], slopes[second + j] = of_slope, -of_bend
                    gains[first + j], gains[second + j] = h[j] * change[j], h[j] * old[j]
                    square += (h[j] * after[j]) ** 2
                    held[j], held_pending[j], old[j] = deferred1, pending1, after[j]
                missing[row], l2[row], squared_norms[row] = m1, r1, square
                fall += fallen
                growth += grown
                growth_of_pending += grown_of_pending
                rest += added
                rest_size += abs(added)
            for i in range(0, d, TILE_ROWS):
                for j in range(0, d, TILE_COLUMNS):
                    at = i * stride + j
                    add_tile(sums[worker, 0], at, weighted, i, y, j, stride, 2 * n)
                    add_tile(sums[worker, 1], at, weighted, i, magnitudes, j, stride, 2 * n)
                    add_tile(sums[worker, 2], at, weighted, i, old_new_deferred, j, stride, 2 * n)
                    add_tile(sums[worker, 3], at, weighted, i, old_new_pending, j, stride, 2 * n)
                    add_tile(sums[worker, 4], at, slopes, i, gains, j, stride, 2 * n)
        totals[worker, 0], totals[worker, 1], totals[worker, 2] = fall, growth, growth_of_pending
        totals[worker, 3], totals[worker, 4] = rest, rest_size


@inner
def _times_matrix(vector: Floats, matrix: Matrix, product: Floats) -> None:
    d = len(product)
    product[:] = 0
    whole = d // 4 * 4
    for i in range(0, whole, 4):
        f0, f1, f2, f3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        m0, m1, m2, m3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for j in range(d):
            product[j] += f0 * m0[j] + f1 * m1[j] + f2 * m2[j] + f3 * m3[j]
    for i in range(whole, d):
        for j in range(d):
            product[j] += vector[i] * matrix[i, j]
