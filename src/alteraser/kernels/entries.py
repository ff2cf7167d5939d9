"""Sums over the entries of sparse rows: scores, losses and gradients, with nothing stored per entry.

Names as in `sparse.py`. A score is y_r·x_c. The loss of the entries of row r, less what the same pairs would cost as
missing entries, is Σ_c w_c (1 − y_r·x_c)² − m_r m_c (y_r·x_c)².
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.arrays import Doubles, Floats, Matrix, Stack
from alteraser.kernels.jit import inner, n_threads, threaded
from alteraser.kernels.sparse import FixedFactors, Schedule, SparseRows


@inner
def _dot(table: Matrix, row: int, other: Matrix, column: int) -> Any:
    # From zero, not from the first product: the loop then has no leftovers that do not fill a vector register.
    total = table.dtype.type(0)
    for j in range(table.shape[1]):
        total += table[row, j] * other[column, j]
    return total


@threaded
def row_losses(
    rows: SparseRows, own: Matrix, vectors: Matrix, missing_row: Doubles, missing_column: Doubles
) -> Doubles:
    """Sums the loss of each row's entries, less what they would cost as missing entries, in double precision.

    The weights of missing entries are doubles, whatever the precision of the vectors.
    """
    losses = np.zeros(len(rows.starts))
    for row in prange(len(losses)):
        total = 0.0
        for entry in range(rows.starts[row], rows.stops[row]):
            column = rows.columns[entry]
            score = np.float64(_dot(own, row, vectors, column))
            miss = 1.0 - score
            weight = np.float64(rows.weights[entry])
            total += weight * miss * miss - missing_row[row] * missing_column[column] * score * score
        losses[row] = total
    return losses


@threaded
def entry_scores(
    chosen: NDArray[np.int64],
    first: NDArray[np.int64],
    rows: SparseRows,
    own: Matrix,
    vectors: Matrix,
    scores: Floats,
) -> None:
    """Writes own[i]·x_c to scores[first[i] + k], for the k-th entry c of row chosen[i]; x_c is vectors[c]."""
    for i in prange(len(chosen)):
        begin = rows.starts[chosen[i]]
        for k in range(rows.stops[chosen[i]] - begin):
            scores[first[i] + k] = _dot(own, i, vectors, rows.columns[begin + k])


@threaded
def entry_sums(
    chosen: NDArray[np.int64],
    first: NDArray[np.int64],
    rows: SparseRows,
    values: Floats,
    vectors: Matrix,
    sums: Matrix,
) -> None:
    """Writes Σ_k values[first[i] + k]·x_c to sums[i], over the entries of row chosen[i]: the transpose of scoring."""
    d = vectors.shape[1]
    for i in prange(len(chosen)):
        begin = rows.starts[chosen[i]]
        for j in range(d):
            sums[i, j] = 0
        for k in range(rows.stops[chosen[i]] - begin):
            column = rows.columns[begin + k]
            value = values[first[i] + k]
            for j in range(d):
                sums[i, j] += value * vectors[column, j]


@threaded
def add_residuals(
    schedule: Schedule,
    rows: SparseRows,
    own: Matrix,
    fixed: FixedFactors,
    missing_row: Floats,
    residuals: Matrix,
) -> None:
    """Adds half of minus the gradient of the entries' loss in own[r] to the residual at the place of row r."""
    d = own.shape[1]
    kind = own.dtype.type
    for worker in prange(schedule.n_workers):
        for turn in range(worker, len(schedule.rows), schedule.n_workers):
            row = schedule.rows[turn]
            vector, residual = own[row], residuals[schedule.places[turn]]
            for entry in range(rows.starts[row], rows.stops[row]):
                column = rows.columns[entry]
                x = fixed.vectors[column]
                score = kind(0)
                for j in range(d):
                    score += vector[j] * x[j]
                weight = kind(rows.weights[entry])
                slope = weight - (weight - missing_row[row] * fixed.missing[column]) * score
                for j in range(d):
                    residual[j] += slope * x[j]


@threaded
def cross_products(
    schedule: Schedule,
    rows: SparseRows,
    own: Matrix,
    fixed: FixedFactors,
    change: Matrix,
    missing_row: Floats,
    products: Matrix,
) -> None:
    """Adds half the change of the entries' gradient in own[r], as the fixed vectors move along `change`, at r's place.

    Σ_c excess_c (own_r·change_c) x_c + (excess_c (own_r·x_c) − w_c) change_c, with excess_c = w_c − m_r m_c
    """
    d = own.shape[1]
    kind = own.dtype.type
    for worker in prange(schedule.n_workers):
        for turn in range(worker, len(schedule.rows), schedule.n_workers):
            row = schedule.rows[turn]
            vector, product = own[row], products[schedule.places[turn]]
            for entry in range(rows.starts[row], rows.stops[row]):
                column = rows.columns[entry]
                x, dx = fixed.vectors[column], change[column]
                score, moved = kind(0), kind(0)
                for j in range(d):
                    score += vector[j] * x[j]
                    moved += vector[j] * dx[j]
                weight = kind(rows.weights[entry])
                excess = weight - missing_row[row] * fixed.missing[column]
                along, slope = excess * moved, excess * score - weight
                for j in range(d):
                    product[j] += along * x[j] + slope * dx[j]


def batch_gradients(
    chosen: NDArray[np.int64], rows: SparseRows, own: Matrix, fixed: FixedFactors, missing_row: Floats
) -> tuple[float, Matrix, Matrix]:
    """Sums over the entries of the chosen rows: their loss, its gradient in own[chosen], and that in all x_c."""
    own_gradient = np.zeros((len(chosen), own.shape[1]), own.dtype)
    fixed_gradients = np.zeros((n_threads(), *fixed.vectors.shape), own.dtype)
    losses = np.zeros(len(chosen))
    _batch_gradients(chosen, rows, own, fixed, missing_row, own_gradient, fixed_gradients, losses)
    return float(losses.sum()), own_gradient, fixed_gradients.sum(axis=0)


@threaded
def _batch_gradients(
    chosen: NDArray[np.int64],
    rows: SparseRows,
    own: Matrix,
    fixed: FixedFactors,
    missing_row: Floats,
    own_gradient: Matrix,
    fixed_gradients: Stack,
    losses: Doubles,
) -> None:
    workers, _, d = fixed_gradients.shape
    for worker in prange(workers):
        # A table per worker: two rows may point at the same column, and adding must not race.
        for i in range(worker, len(chosen), workers):
            row = chosen[i]
            missing = missing_row[row]
            total = 0.0
            for entry in range(rows.starts[row], rows.stops[row]):
                column = rows.columns[entry]
                weight = own.dtype.type(rows.weights[entry])
                score = _dot(own, row, fixed.vectors, column)
                excess = weight - missing * fixed.missing[column]
                slope = 2 * (excess * score - weight)
                total += np.float64(score * (excess * score - 2 * weight) + weight)
                for j in range(d):
                    own_gradient[i, j] += slope * fixed.vectors[column, j]
                    fixed_gradients[worker, column, j] += slope * own[row, j]
            losses[i] = total
