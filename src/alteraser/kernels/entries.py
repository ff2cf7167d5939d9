"""Sums over the entries of compressed rows: scores, losses and gradients in one visit, nothing stored per entry.

Names as in `rows.py`. A score is y_r·x_c; the loss of the entries of row r, against having them missing, is
Σ_c w_c (1 − y_r·x_c)² − m_r m_c (y_r·x_c)².
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.jit import compiled, n_threads, threaded

Floats = NDArray[Any]


@compiled
def _dot(table: Floats, row: int, other: Floats, column: int) -> Any:
    # From zero, not from the first product: the loop then has no leftovers that do not fill a vector register.
    total = table.dtype.type(0)
    for j in range(table.shape[1]):
        total += table[row, j] * other[column, j]
    return total


@threaded
def row_losses(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: Floats,
    fixed: Floats,
    missing_row: Floats,
    missing_column: Floats,
) -> NDArray[np.float64]:
    """The loss of each row's entries, against having them missing; summed in double precision."""
    losses = np.zeros(len(starts) - 1)
    for row in prange(len(losses)):
        total = 0.0
        for entry in range(starts[row], starts[row + 1]):
            column = columns[entry]
            score = np.float64(_dot(own, row, fixed, column))
            miss = 1.0 - score
            weight = np.float64(weights[entry])
            total += weight * miss * miss - missing_row[row] * missing_column[column] * score * score
        losses[row] = total
    return losses


@threaded
def entry_scores(
    rows: NDArray[np.int64],
    first: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    own: Floats,
    fixed: Floats,
    scores: Floats,
) -> None:
    """scores[first[i] + k] becomes own[i] · fixed[c] for the k-th entry c of rows[i]."""
    for i in prange(len(rows)):
        begin = starts[rows[i]]
        for k in range(starts[rows[i] + 1] - begin):
            scores[first[i] + k] = _dot(own, i, fixed, columns[begin + k])


@threaded
def entry_sums(
    rows: NDArray[np.int64],
    first: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: Floats,
    fixed: Floats,
    sums: Floats,
) -> None:
    """sums[i] becomes Σ_k values[first[i] + k] · fixed[c] over the entries c of rows[i]: the transpose of scoring."""
    d = fixed.shape[1]
    for i in prange(len(rows)):
        begin = starts[rows[i]]
        for j in range(d):
            sums[i, j] = 0
        for k in range(starts[rows[i] + 1] - begin):
            column = columns[begin + k]
            value = values[first[i] + k]
            for j in range(d):
                sums[i, j] += value * fixed[column, j]


@threaded
def add_residuals(
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: Floats,
    fixed: Floats,
    missing_row: Floats,
    missing_column: Floats,
    residuals: Floats,
    n_workers: int,
) -> None:
    """Adds to residuals[r] half of minus the gradient of the entries' loss in own[r]."""
    d = own.shape[1]
    for worker in prange(n_workers):
        for turn in range(worker, len(order), n_workers):
            row = order[turn]
            vector, residual = own[row], residuals[row]
            for entry in range(starts[row], starts[row + 1]):
                column = columns[entry]
                x = fixed[column]
                score = fixed.dtype.type(0)
                for j in range(d):
                    score += vector[j] * x[j]
                weight = fixed.dtype.type(weights[entry])
                slope = weight - (weight - missing_row[row] * missing_column[column]) * score
                for j in range(d):
                    residual[j] += slope * x[j]


@threaded
def cross_products(
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: Floats,
    fixed: Floats,
    change: Floats,
    missing_row: Floats,
    missing_column: Floats,
    products: Floats,
    n_workers: int,
) -> None:
    """Adds to products[r] half the change of the entries' gradient in own[r] as the fixed table moves along `change`.

    Σ_c (w_c − m_r m_c)(own_r·change_c) x_c + ((w_c − m_r m_c)(own_r·x_c) − w_c) change_c
    """
    d = own.shape[1]
    for worker in prange(n_workers):
        for turn in range(worker, len(order), n_workers):
            row = order[turn]
            vector, product = own[row], products[row]
            for entry in range(starts[row], starts[row + 1]):
                column = columns[entry]
                x, dx = fixed[column], change[column]
                score = fixed.dtype.type(0)
                moved = fixed.dtype.type(0)
                for j in range(d):
                    score += vector[j] * x[j]
                    moved += vector[j] * dx[j]
                weight = fixed.dtype.type(weights[entry])
                lift = weight - missing_row[row] * missing_column[column]
                along, slope = lift * moved, lift * score - weight
                for j in range(d):
                    product[j] += along * x[j] + slope * dx[j]


def batch_gradients(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: Floats,
    fixed: Floats,
    missing_row: Floats,
    missing_column: Floats,
) -> tuple[float, Floats, Floats]:
    """Of the entries of `rows`: their loss, its gradient in own[rows] and its gradient in the whole fixed table."""
    workers = n_threads()
    own_gradient = np.zeros((len(rows), own.shape[1]), own.dtype)
    fixed_gradients = np.zeros((workers, *fixed.shape), fixed.dtype)
    losses = np.zeros(len(rows))
    _batch_gradients(
        rows,
        starts,
        columns,
        weights,
        own,
        fixed,
        missing_row,
        missing_column,
        own_gradient,
        fixed_gradients,
        losses,
    )
    return float(losses.sum()), own_gradient, fixed_gradients.sum(axis=0)


@threaded
def _batch_gradients(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: Floats,
    fixed: Floats,
    missing_row: Floats,
    missing_column: Floats,
    own_gradient: Floats,
    fixed_gradients: Floats,
    losses: NDArray[np.float64],
) -> None:
    workers, _, d = fixed_gradients.shape
    for worker in prange(workers):
        # A table per worker: two rows may point at the same column, and adding must not race.
        for i in range(worker, len(rows), workers):
            row = rows[i]
            missing = missing_row[row]
            total = 0.0
            for entry in range(starts[row], starts[row + 1]):
                column = columns[entry]
                weight = fixed.dtype.type(weights[entry])
                score = _dot(own, row, fixed, column)
                lift = weight - missing * missing_column[column]
                slope = 2 * (lift * score - weight)
                total += np.float64(score * (lift * score - 2 * weight) + weight)
                for j in range(d):
                    own_gradient[i, j] += slope * fixed[column, j]
                    fixed_gradients[worker, column, j] += slope * own[row, j]
            losses[i] = total
