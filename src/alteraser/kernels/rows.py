"""Ridge problems over compressed rows, solved without storing more than one matrix per thread.

Row r, whose entries point at rows x_c of a fixed table, minimises over its vector y

    Σ_c w_c (1 − y·x_c)²  +  m_r Σ_{c not in r} m_c (y·x_c)²  +  ridge_r ‖y‖²

where m_r and m_c are the weights of a missing entry and `gram` = Σ_c m_c x_c x_cᵀ over all c.
The minimum is A⁻¹ Σ_c w_c x_c with A = m_r·gram + Σ_c (w_c − m_r m_c) x_c x_cᵀ + ridge_r·I, and A − ridge_r·I is
positive semi-definite whatever the sign of w_c − m_r m_c, because the gram holds what is taken away.

Matrices are flat, upper triangle by rows, each row padded to whole tiles with zeros; what lies below the diagonal is
not read. Indices into them are unsigned: a signed index would be checked for wrap-around, and the loop would not
vectorise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.jit import compiled, n_threads, threaded
from alteraser.kernels.tiles import TILE_COLUMNS, TILE_ROWS, add_tile, padded, subtract_tile

CHUNK = 32  # entries gathered at a time; with d = 64 in float32 they and the matrix fit the first-level cache
PIVOTS = 8  # rows factorised before the rest of the matrix is brought up to date, a tile at a time
Floats = NDArray[Any]


def solve_rows(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    *,
    fixed: Floats,
    gram: Floats,
    missing_row: Floats,
    missing_column: Floats,
    ridge: Floats,
) -> tuple[Floats, NDArray[np.bool_]]:
    """The minimum of each of `rows` in their order, and whether its matrix could be factorised."""
    vectors = np.empty((len(rows), fixed.shape[1]), dtype=fixed.dtype)
    solved = np.empty(len(rows), dtype=np.bool_)
    _solve_rows(
        longest_first(rows, starts),
        rows,
        starts,
        columns,
        weights,
        fixed,
        gram,
        missing_row,
        missing_column,
        ridge,
        vectors,
        solved,
        n_threads(),
    )
    return vectors, solved


def longest_first(rows: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places in `rows`, longest first: dealt out in turn, the threads end together."""
    return np.argsort(starts[rows] - starts[rows + 1], kind="stable")


@threaded
def _solve_rows(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    fixed: Floats,
    gram: Floats,
    missing_row: Floats,
    missing_column: Floats,
    ridge: Floats,
    vectors: Floats,
    solved: NDArray[np.bool_],
    n_workers: int,
) -> None:
    d = fixed.shape[1]
    for worker in prange(n_workers):
        matrix = np.zeros(padded(d) ** 2, fixed.dtype)
        side = np.empty(d, fixed.dtype)
        gathered, scaled = np.zeros(CHUNK * padded(d), fixed.dtype), np.zeros(CHUNK * padded(d), fixed.dtype)
        for turn in range(worker, len(order), n_workers):
            place = order[turn]
            row = rows[place]
            first, last = starts[row], starts[row + 1]
            _assemble(
                columns[first:last],
                weights[first:last],
                fixed,
                gram,
                missing_row[row],
                missing_column,
                ridge[row],
                gathered,
                scaled,
                matrix,
                side,
            )
            solved[place] = _factorise(matrix, d)
            _substitute(matrix, side, d)
            for j in range(d):
                vectors[place, j] = side[j]


@threaded
def factorise_rows(
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    fixed: Floats,
    gram: Floats,
    missing_row: Floats,
    missing_column: Floats,
    ridge: Floats,
    factors: Floats,
    solved: NDArray[np.bool_],
    n_workers: int,
) -> None:
    """The factor of A of every row, and whether there is one."""
    d = fixed.shape[1]
    for worker in prange(n_workers):
        side = np.empty(d, fixed.dtype)
        gathered, scaled = np.zeros(CHUNK * padded(d), fixed.dtype), np.zeros(CHUNK * padded(d), fixed.dtype)
        for turn in range(worker, len(order), n_workers):
            row = order[turn]
            first, last = starts[row], starts[row + 1]
            _assemble(
                columns[first:last],
                weights[first:last],
                fixed,
                gram,
                missing_row[row],
                missing_column,
                ridge[row],
                gathered,
                scaled,
                factors[row],
                side,
            )
            solved[row] = _factorise(factors[row], d)


@threaded
def substitute_rows(factors: Floats, sides: Floats) -> None:
    """sides[r] becomes A⁻¹ sides[r] for every row, from the factors of `factorise_rows`."""
    for row in prange(len(sides)):
        _substitute(factors[row], sides[row], sides.shape[1])


@compiled
def _assemble(
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    fixed: Floats,
    gram: Floats,
    missing: Any,
    missing_column: Floats,
    ridge: Any,
    gathered: Floats,
    scaled: Floats,
    matrix: Floats,
    side: Floats,
) -> None:
    """`matrix` becomes A of a row with these entries, `side` its Σ_c w_c x_c."""
    d = fixed.shape[1]
    stride = padded(d)
    for i in range(d):
        side[i] = 0
        upper = np.uintp(i * stride)
        for j in range(np.uintp(i - i % TILE_COLUMNS), np.uintp(d)):
            matrix[upper + j] = missing * gram[i, j]
        for j in range(np.uintp(d), np.uintp(stride)):
            matrix[upper + j] = 0
        matrix[upper + np.uintp(i)] += ridge
    for begin in range(0, len(columns), CHUNK):
        n = min(CHUNK, len(columns) - begin)
        for k in range(n):
            column = columns[begin + k]
            weight = fixed.dtype.type(weights[begin + k])
            lift = weight - missing * missing_column[column]
            start = np.uintp(k * stride)
            for j in range(np.uintp(0), np.uintp(d)):
                x = fixed[column, j]
                gathered[start + j] = x
                scaled[start + j] = lift * x
                side[j] += weight * x
        for i in range(0, d, TILE_ROWS):
            for j in range(i - i % TILE_COLUMNS, d, TILE_COLUMNS):
                add_tile(matrix, i * stride + j, scaled, i, gathered, j, stride, n)


@compiled
def _factorise(matrix: Floats, d: int) -> bool:
    """The upper triangle becomes U with UᵀU = matrix, some pivots at a time; false if a pivot is not positive."""
    stride = padded(d)
    for k in range(0, d, PIVOTS):
        end = min(k + PIVOTS, d)
        for p in range(k, end):
            row = np.uintp(p * stride)
            for t in range(k, p):
                above = np.uintp(t * stride)
                factor = matrix[above + np.uintp(p)]
                for j in range(np.uintp(k), np.uintp(stride)):
                    matrix[row + j] -= factor * matrix[above + j]
            pivot = matrix[p * stride + p]
            if not pivot > 0:
                return False
            scale = 1 / np.sqrt(pivot)
            for j in range(np.uintp(k), np.uintp(stride)):
                matrix[row + j] *= scale
        for i in range(end, d, TILE_ROWS):
            for j in range(i - i % TILE_COLUMNS, d, TILE_COLUMNS):
                subtract_tile(
                    matrix, i * stride + j, matrix, k * stride + i, matrix, k * stride + j, stride, end - k
                )
    return True


@compiled
def _substitute(matrix: Floats, side: Floats, d: int) -> None:
    """`side` becomes the solution of UᵀU y = side."""
    stride = padded(d)
    for i in range(d):
        row = np.uintp(i * stride)
        value = side[i] / matrix[row + np.uintp(i)]
        side[i] = value
        for j in range(np.uintp(i + 1), np.uintp(d)):
            side[j] -= value * matrix[row + j]
    for i in range(d - 1, -1, -1):
        row = np.uintp(i * stride)
        value = side[i]
        for j in range(np.uintp(i + 1), np.uintp(d)):
            value -= matrix[row + j] * side[j]
        side[i] = value / matrix[row + np.uintp(i)]
