"""Exact solutions of the ridge problems of sparse rows, with one matrix per thread in memory.

The problem of row r (its terms are explained in `sparse.py`) has its minimum at A⁻¹ Σ_c w_c x_c, with

    A = m_r·gram + Σ_c (w_c − m_r m_c) x_c x_cᵀ + λ_r·I,    gram = Σ_c m_c x_c x_cᵀ over all columns.

The sum in A runs over the row's entries; w_c − m_r m_c is the excess weight of an entry over a missing one. It may be
negative: A − λ_r·I is positive semi-definite all the same, since the Gram matrix holds whatever is taken away.

A matrix is a flat array of its upper triangle by rows, each row padded with zeros to whole tiles; what lies below the
diagonal is not read. Indices into it are unsigned: a signed index would be checked for wrap-around, and the loop would
not vectorise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.arrays import Floats, Matrix
from alteraser.kernels.jit import inner, threaded
from alteraser.kernels.sparse import FixedFactors, RowWeights, Schedule, SparseRows, longest_first
from alteraser.kernels.tiles import TILE_COLUMNS, TILE_ROWS, add_tile, padded, subtract_tile

# Entries gathered at a time. With d = 64 in float32 they take 16 KiB and the matrix as much: a first-level cache.
CHUNK = 32
# Rows factorised before the rest of the matrix is brought up to date. Of 4, 8, 16 and 32 the fastest for d from 32 to
# 128 in both precisions, measured on an AMD EPYC; 4 and 16 are within a tenth of it at d = 64.
PIVOTS = 8


class Gathered(NamedTuple):
    """Room for CHUNK entries of a row, their vectors one after another and padded to whole tiles."""

    vectors: Floats  # x_c
    weighted: Floats  # x_c times its excess weight


def solve_rows(
    chosen: NDArray[np.int64], rows: SparseRows, *, fixed: FixedFactors, gram: Matrix, weights: RowWeights
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Solves the chosen rows: the minimum of each, in their order, and whether its matrix could be factorised."""
    vectors = np.empty((len(chosen), fixed.vectors.shape[1]), dtype=fixed.vectors.dtype)
    solved = np.empty(len(chosen), dtype=np.bool_)
    _solve_rows(longest_first(chosen, rows), rows, fixed, gram, weights, vectors, solved)
    return vectors, solved


@threaded
def _solve_rows(
    schedule: Schedule,
    rows: SparseRows,
    fixed: FixedFactors,
    gram: Matrix,
    weights: RowWeights,
    vectors: Matrix,
    solved: NDArray[np.bool_],
) -> None:
    d = fixed.vectors.shape[1]
    kind = fixed.vectors.dtype
    for worker in prange(schedule.n_workers):
        matrix = np.zeros(padded(d) ** 2, kind)
        rhs = np.empty(d, kind)
        gathered = Gathered(np.zeros(CHUNK * padded(d), kind), np.zeros(CHUNK * padded(d), kind))
        for turn in range(worker, len(schedule.rows), schedule.n_workers):
            place = schedule.places[turn]
            _assemble(schedule.rows[turn], rows, fixed, gram, weights, gathered, matrix, rhs)
            solved[place] = _factorise(matrix, d)
            _substitute(matrix, rhs, d)
            for j in range(d):
                vectors[place, j] = rhs[j]


@threaded
def factorise_rows(
    schedule: Schedule,
    rows: SparseRows,
    fixed: FixedFactors,
    gram: Matrix,
    weights: RowWeights,
    factors: Matrix,
    solved: NDArray[np.bool_],
) -> None:
    """Writes the Cholesky factor of A of each scheduled row to its place, and whether there is one."""
    d = fixed.vectors.shape[1]
    kind = fixed.vectors.dtype
    for worker in prange(schedule.n_workers):
        rhs = np.empty(d, kind)
        gathered = Gathered(np.zeros(CHUNK * padded(d), kind), np.zeros(CHUNK * padded(d), kind))
        for turn in range(worker, len(schedule.rows), schedule.n_workers):
            place = schedule.places[turn]
            _assemble(schedule.rows[turn], rows, fixed, gram, weights, gathered, factors[place], rhs)
            solved[place] = _factorise(factors[place], d)


@threaded
def substitute_rows(factors: Matrix, rhs: Matrix) -> None:
    """Replaces each right-hand side rhs[i] by A⁻¹ rhs[i], with the factors of `factorise_rows`."""
    for i in prange(len(rhs)):
        _substitute(factors[i], rhs[i], rhs.shape[1])


@inner
def _assemble(
    row: int,
    rows: SparseRows,
    fixed: FixedFactors,
    gram: Matrix,
    weights: RowWeights,
    gathered: Gathered,
    matrix: Floats,
    rhs: Floats,
) -> None:
    """Writes A of a row to `matrix` and its Σ_c w_c x_c to `rhs`."""
    d = fixed.vectors.shape[1]
    stride = padded(d)
    missing = weights.missing[row]
    for i in range(d):
        rhs[i] = 0
        upper = np.uintp(i * stride)
        for j in range(np.uintp(i - i % TILE_COLUMNS), np.uintp(d)):
            matrix[upper + j] = missing * gram[i, j]
        for j in range(np.uintp(d), np.uintp(stride)):
            matrix[upper + j] = 0
        matrix[upper + np.uintp(i)] += weights.ridge[row]
    for begin in range(rows.starts[row], rows.stops[row], CHUNK):
        n = min(CHUNK, rows.stops[row] - begin)
        for k in range(n):
            column = rows.columns[begin + k]
            weight = fixed.vectors.dtype.type(rows.weights[begin + k])
            excess = weight - missing * fixed.missing[column]
            start = np.uintp(k * stride)
            for j in range(np.uintp(0), np.uintp(d)):
                x = fixed.vectors[column, j]
                gathered.vectors[start + j] = x
                gathered.weighted[start + j] = excess * x
                rhs[j] += weight * x
        for i in range(0, d, TILE_ROWS):
            for j in range(i - i % TILE_COLUMNS, d, TILE_COLUMNS):
                add_tile(matrix, i * stride + j, gathered.weighted, i, gathered.vectors, j, stride, n)


@inner
def _factorise(matrix: Floats, d: int) -> bool:
    """Overwrites the upper triangle with U, where UᵀU is the matrix; false if a pivot is not positive.

    Pivots are taken a few at a time: first their own rows, then the rest of the matrix, tile by tile.
    """
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


@inner
def _substitute(factor: Floats, rhs: Floats, d: int) -> None:
    """Replaces `rhs` by the solution y of UᵀU y = rhs."""
    stride = padded(d)
    for i in range(d):
        row = np.uintp(i * stride)
        value = rhs[i] / factor[row + np.uintp(i)]
        rhs[i] = value
        for j in range(np.uintp(i + 1), np.uintp(d)):
            rhs[j] -= value * factor[row + j]
    for i in range(d - 1, -1, -1):
        row = np.uintp(i * stride)
        value = rhs[i]
        for j in range(np.uintp(i + 1), np.uintp(d)):
            value -= factor[row + j] * rhs[j]
        rhs[i] = value / factor[row + np.uintp(i)]
