"""Residuals of rows of a live model, what moves of rows do to the loss, and what residuals are worth.

A row's residual is half of minus the gradient of the loss in it,

    Σ_{c∈R_r} (w − e·ŷ)·x_c − m_r·Ĝ·y_r − λ_r·y_r,    e = w − m_r m_c,    Ĝ = Σ_c m_c x_c x_cᵀ over all c,

less what the row is to keep of it (letters as in `live.py`).
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.arrays import DoubleMatrix, Doubles, Floats, Matrix
from alteraser.kernels.jit import compiled, inner, threaded
from alteraser.kernels.live import Factors, RowArrays
from alteraser.kernels.sparse import SparseRows
from alteraser.kernels.tiles import fetch_ahead

AHEAD = 6  # entries asked for before they are needed
CHUNK = 64  # entries summed in their own precision, before sums go on in double


@threaded
def row_residuals(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    entries: SparseRows,
    own: RowArrays,
    other: Factors,
    gram: Matrix,
    residuals: Matrix,
    n_workers: int,
) -> None:
    """Sets residuals[k] to the residual of rows[k]; rows are visited in `order`. What a row keeps is not looked at."""
    h, table, missing_row, l2, _ = own
    vectors, missing_other = other
    columns, weights = entries.columns, entries.weights
    d = table.shape[1]
    kind = table.dtype.type
    for worker in prange(n_workers):
        x, part, by_gram = np.empty(d, table.dtype), np.empty(d, table.dtype), np.empty(d, table.dtype)
        total = np.empty(d, np.float64)
        for turn in range(worker, len(order), n_workers):
            k = order[turn]
            row = rows[k]
            y, m = table[row], missing_row[row]
            for j in range(d):
                x[j] = h[j] * y[j]
                total[j] = 0
            first, last = entries.starts[row], entries.stops[row]
            for begin in range(first, last, CHUNK):
                end = min(begin + CHUNK, last)
                for j in range(d):
                    part[j] = 0
                for entry in range(begin, end):
                    fetch_ahead(vectors, columns[min(entry + AHEAD, last - 1)])
                    column = columns[entry]
                    y_c = vectors[column]
                    score = kind(0)
                    for j in range(d):
                        score += y_c[j] * x[j]
                    weight = kind(weights[entry])
                    slope = weight - (weight - m * missing_other[column]) * score
                    for j in range(d):
                        part[j] += slope * y_c[j]
                for j in range(d):
                    total[j] += np.float64(part[j])
            _times_matrix(y, gram, by_gram)
            for j in range(d):
                rest = m * by_gram[j] + l2[row] * y[j]
                residuals[k, j] = kind(np.float64(h[j]) * total[j] - np.float64(rest))


@threaded
def measure_moves(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    entries: SparseRows,
    own: RowArrays,
    change: Matrix,
    other: Factors,
    gram: Matrix,
    totals: DoubleMatrix,
) -> None:
    """Sums what it does to the loss that each rows[k] moves by change[k], while the other side stays.

    Of each worker `totals` has the change of the loss; 2·Σ kept·change, which is added to it where what rows keep of
    their residuals does not count; and the size of what missing entries and penalties add, of which rounding errors
    are a share.
    """
    h, table, missing_row, l2, kept = own
    vectors, missing_other = other
    columns, weights = entries.columns, entries.weights
    d = table.shape[1]
    kind = table.dtype.type
    n_workers = len(totals)
    for worker in prange(n_workers):
        x, dx, by_gram = np.empty(d, table.dtype), np.empty(d, table.dtype), np.empty(d, table.dtype)
        of_loss, of_kept, size = 0.0, 0.0, 0.0
        for turn in range(worker, len(order), n_workers):
            k = order[turn]
            row = rows[k]
            y, dy, m = table[row], change[k], missing_row[row]
            for j in range(d):
                x[j], dx[j] = h[j] * y[j], h[j] * dy[j]
            first, last = entries.starts[row], entries.stops[row]
            along, curved = 0.0, 0.0
            for entry in range(first, last):
                fetch_ahead(vectors, columns[min(entry + AHEAD, last - 1)])
                column = columns[entry]
                y_c = vectors[column]
                score, moved = kind(0), kind(0)
                for j in range(d):
                    score += y_c[j] * x[j]
                    moved += y_c[j] * dx[j]
                weight = kind(weights[entry])
                excess = weight - m * missing_other[column]
                along += np.float64((weight - excess * score) * moved)
                curved += np.float64(excess * moved * moved)
            _times_matrix(dy, gram, by_gram)
            missing, own_kept = 0.0, 0.0
            for j in range(d):
                missing += np.float64((m * by_gram[j] + l2[row] * dy[j]) * (y[j] + y[j] + dy[j]))
                own_kept += np.float64(kept[row, j] * dy[j])
            of_loss += curved - 2 * along + missing
            of_kept += 2 * own_kept
            size += abs(missing)
        totals[worker, 0], totals[worker, 1], totals[worker, 2] = of_loss, of_kept, size


@threaded
def entry_curvatures(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    entries: SparseRows,
    scaled: Factors,
    other: Factors,
    most: int,
    curvatures: Floats,
    n_workers: int,
) -> None:
    """Sets curvatures[k] to Σ_c e·(y_c·change)² over the entries of rows[k], whose scaled change is scaled.vectors[k].

    Of rows with more than `most` entries, so many at equal distances stand for all.
    """
    vectors, missing_other = other
    columns, weights = entries.columns, entries.weights
    d = vectors.shape[1]
    kind = vectors.dtype.type
    for worker in prange(n_workers):
        for turn in range(worker, len(order), n_workers):
            k = order[turn]
            row = rows[k]
            dx, m = scaled.vectors[k], scaled.missing[k]
            first, last = entries.starts[row], entries.stops[row]
            stride = (last - first + most - 1) // most
            curved, n = 0.0, 0
            for entry in range(first, last, max(stride, 1)):
                fetch_ahead(vectors, columns[min(entry + AHEAD * stride, last - 1)])
                column = columns[entry]
                moved = kind(0)
                for j in range(d):
                    moved += vectors[column, j] * dx[j]
                excess = kind(weights[entry]) - m * missing_other[column]
                curved += np.float64(excess * moved * moved)
                n += 1
            curvatures[k] = kind(curved * (last - first) / max(n, 1))


@inner
def _times_matrix(vector: Floats, matrix: Matrix, product: Floats) -> None:
    d = len(product)
    for j in range(d):
        product[j] = 0
    whole = d // 4 * 4
    for i in range(0, whole, 4):
        f0, f1, f2, f3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        m0, m1, m2, m3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for j in range(d):
            product[j] += f0 * m0[j] + f1 * m1[j] + f2 * m2[j] + f3 * m3[j]
    for i in range(whole, d):
        for j in range(d):
            product[j] += vector[i] * matrix[i, j]


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
) -> None:
    """Sets decrements[k] to about rᵀ(alpha·G + l2·I)⁻¹r.

    G has this spectrum. Of r only the norm is used: it is taken to be spread over the eigenvectors of G in proportion
    to the eigenvalues. Where G is zero, the penalty is all there is.
    """
    kind = residuals.dtype.type
    trace = spectrum.sum()
    for k in range(len(residuals)):
        norm, share = kind(0), kind(0)
        for j in range(len(spectrum)):
            norm += residuals[k, j] * residuals[k, j]
            share += spectrum[j] / (alpha[k] * spectrum[j] + l2[k])
        decrements[k] = norm * share / trace if trace > 0 else norm / l2[k]
