"""Ridge problems over compressed rows, solved without storing more than one matrix per thread.

Row r, whose entries point at rows x_c of a fixed table, minimises over its vector y

    Σ_c w_c (1 − y·x_c)²  +  m_r Σ_{c not in r} m_c (y·x_c)²  +  ridge_r ‖y‖²

where m_r and m_c are the weights of a missing entry and `gram` = Σ_c m_c x_c x_cᵀ over all c.
The minimum is A⁻¹ Σ_c w_c x_c with A = m_r·gram + Σ_c (w_c − m_r m_c) x_c x_cᵀ + ridge_r·I, and A − ridge_r·I is
positive semi-definite whatever the sign of w_c − m_r m_c, because the gram holds what is taken away.

Matrices are flat, upper triangle by rows. Indices into them are unsigned: a signed index would be checked for
wrap-around, and the loop would not vectorise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.jit import compiled, n_threads, threaded

CHUNK = 64  # entries gathered at a time; with d = 64 in float32 they and the matrix fit the first-level cache
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
        matrix = np.empty(d * d, fixed.dtype)
        side = np.empty(d, fixed.dtype)
        gathered = np.empty(CHUNK * d, fixed.dtype)
        scale = np.empty(CHUNK, fixed.dtype)
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
                scale,
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
        gathered = np.empty(CHUNK * d, fixed.dtype)
        scale = np.empty(CHUNK, fixed.dtype)
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
                scale,
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
    scale: Floats,
    matrix: Floats,
    side: Floats,
) -> None:
    """`matrix` becomes A of a row with these entries, `side` its Σ_c w_c x_c."""
    d = fixed.shape[1]
    for i in range(d):
        side[i] = 0
        upper = np.uintp(i * d)
        for j in range(np.uintp(i), np.uintp(d)):
            matrix[upper + j] = missing * gram[i, j]
        matrix[upper + np.uintp(i)] += ridge
    for begin in range(0, len(columns), CHUNK):
        n = min(CHUNK, len(columns) - begin)
        for k in range(n):
            column = columns[begin + k]
            weight = fixed.dtype.type(weights[begin + k])
            scale[k] = weight - missing * missing_column[column]
            start = np.uintp(k * d)
            for j in range(np.uintp(0), np.uintp(d)):
                x = fixed[column, j]
                gathered[start + j] = x
                side[j] += weight * x
        _add_outer_products(matrix, gathered, scale, n, d)


@compiled
def _add_outer_products(matrix: Floats, gathered: Floats, scale: Floats, n: int, d: int) -> None:
    """matrix += Σ_k scale_k x_k x_kᵀ, four vectors and two rows at a time (so that loads do not bound it)."""
    full = n - n % 4
    for k in range(0, full, 4):
        s0, s1, s2, s3 = scale[k], scale[k + 1], scale[k + 2], scale[k + 3]
        p0 = np.uintp(k * d)
        p1, p2, p3 = np.uintp(k * d + d), np.uintp(k * d + 2 * d), np.uintp(k * d + 3 * d)
        for i in range(0, d - 1, 2):
            u, v = np.uintp(i), np.uintp(i + 1)
            a0, a1, a2, a3 = (
                s0 * gathered[p0 + u],
                s1 * gathered[p1 + u],
                s2 * gathered[p2 + u],
                s3 * gathered[p3 + u],
            )
            b0, b1, b2, b3 = (
                s0 * gathered[p0 + v],
                s1 * gathered[p1 + v],
                s2 * gathered[p2 + v],
                s3 * gathered[p3 + v],
            )
            upper, lower = np.uintp(i * d), np.uintp(i * d + d)
            # Starting at a multiple of eight keeps the vector loop free of leftovers; the extra cells are not read.
            for j in range(np.uintp(i - i % 8), np.uintp(d)):
                x0, x1, x2, x3 = gathered[p0 + j], gathered[p1 + j], gathered[p2 + j], gathered[p3 + j]
                matrix[upper + j] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                matrix[lower + j] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        if d % 2 == 1:
            last = d - 1
            for t in range(k, k + 4):
                matrix[last * d + last] += scale[t] * gathered[t * d + last] * gathered[t * d + last]
    for k in range(full, n):
        start = np.uintp(k * d)
        for i in range(d):
            a = scale[k] * gathered[start + np.uintp(i)]
            upper = np.uintp(i * d)
            for j in range(np.uintp(i), np.uintp(d)):
                matrix[upper + j] += a * gathered[start + j]


@compiled
def _factorise(matrix: Floats, d: int) -> bool:
    """The upper triangle becomes U with UᵀU = matrix, four pivots at a time; false if a pivot is not positive."""
    for k in range(0, d, 4):
        end = min(k + 4, d)
        for p in range(k, end):
            row = np.uintp(p * d)
            for t in range(k, p):
                above = np.uintp(t * d)
                factor = matrix[above + np.uintp(p)]
                for j in range(np.uintp(p), np.uintp(d)):
                    matrix[row + j] -= factor * matrix[above + j]
            pivot = matrix[p * d + p]
            if not pivot > 0:
                return False
            scale = 1 / np.sqrt(pivot)
            for j in range(np.uintp(p), np.uintp(d)):
                matrix[row + j] *= scale
        p0 = np.uintp(k * d)
        p1, p2, p3 = np.uintp(k * d + d), np.uintp(k * d + 2 * d), np.uintp(k * d + 3 * d)
        for i in range(end, d - 1, 2):
            u, v = np.uintp(i), np.uintp(i + 1)
            a0, a1, a2, a3 = matrix[p0 + u], matrix[p1 + u], matrix[p2 + u], matrix[p3 + u]
            b0, b1, b2, b3 = matrix[p0 + v], matrix[p1 + v], matrix[p2 + v], matrix[p3 + v]
            upper, lower = np.uintp(i * d), np.uintp(i * d + d)
            for j in range(np.uintp(i), np.uintp(d)):
                x0, x1, x2, x3 = matrix[p0 + j], matrix[p1 + j], matrix[p2 + j], matrix[p3 + j]
                matrix[upper + j] -= a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                matrix[lower + j] -= b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        if end < d and (d - end) % 2 == 1:
            last = d - 1
            for t in range(k, end):
                matrix[last * d + last] -= matrix[t * d + last] * matrix[t * d + last]
    return True


@compiled
def _substitute(matrix: Floats, side: Floats, d: int) -> None:
    """`side` becomes the solution of UᵀU y = side."""
    for i in range(d):
        row = np.uintp(i * d)
        value = side[i] / matrix[row + np.uintp(i)]
        side[i] = value
        for j in range(np.uintp(i + 1), np.uintp(d)):
            side[j] -= value * matrix[row + j]
    for i in range(d - 1, -1, -1):
        row = np.uintp(i * d)
        value = side[i]
        for j in range(np.uintp(i + 1), np.uintp(d)):
            value -= matrix[row + j] * side[j]
        side[i] = value / matrix[row + np.uintp(i)]
