"""Ridge problems of sparse rows brought nearer to their minimum by conjugate gradients, without forming A.

The problems are those of `rows.py`, in the basis of eigenvectors of the Gram matrix. There it is diagonal, d numbers
called the `spectrum`, and the diagonal of A is nearly all of A: it makes the preconditioner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.arrays import Floats, Matrix
from alteraser.kernels.jit import inner, threaded
from alteraser.kernels.live import Factors
from alteraser.kernels.sparse import FixedFactors, RowWeights, Schedule, SparseRows, longest_first


def descend_rows(
    chosen: NDArray[np.int64],
    rows: SparseRows,
    *,
    vectors: Matrix,
    fixed: FixedFactors,
    spectrum: Floats,
    weights: RowWeights,
    tolerance: float,
    max_products: int,
) -> None:
    """Moves vectors[i], that of chosen[i], until its residual is `tolerance` times what it was at the start.

    Residuals are measured in the norm of the preconditioner. A row takes at most `max_products` Hessian products.
    """
    schedule = longest_first(chosen, rows)
    _descend_rows(schedule, rows, fixed, spectrum, weights, vectors, tolerance, max_products)


@threaded
def _descend_rows(
    schedule: Schedule,
    rows: SparseRows,
    fixed: FixedFactors,
    spectrum: Floats,
    weights: RowWeights,
    vectors: Matrix,
    tolerance: float,
    max_products: int,
) -> None:
    d = fixed.vectors.shape[1]
    kind = fixed.vectors.dtype.type
    for worker in prange(schedule.n_workers):
        plain, diagonal = np.empty(d, fixed.vectors.dtype), np.empty(d, fixed.vectors.dtype)
        residual, search, product = (
            np.empty(d, fixed.vectors.dtype),
            np.empty(d, fixed.vectors.dtype),
            np.empty(d, fixed.vectors.dtype),
        )
        for turn in range(worker, len(schedule.rows), schedule.n_workers):
            row = schedule.rows[turn]
            vector, missing = vectors[schedule.places[turn]], weights.missing[row]
            columns = rows.columns[rows.starts[row] : rows.stops[row]]
            given = rows.weights[rows.starts[row] : rows.stops[row]]
            for j in range(d):
                plain[j] = missing * spectrum[j] + weights.ridge[row]  # A without the row's entries
                diagonal[j] = plain[j]
                residual[j] = -plain[j] * vector[j]
            _add_residual(columns, given, fixed, missing, vector, residual, diagonal)
            norm = kind(0)
            for j in range(d):
                search[j] = residual[j] / diagonal[j]
                norm += residual[j] * search[j]
            goal = norm * kind(tolerance) * kind(tolerance)
            for _ in range(max_products):
                if not norm > goal:
                    break
                for j in range(d):
                    product[j] = plain[j] * search[j]
                add_product(columns, given, fixed, missing, search, product)
                curvature = kind(0)
                for j in range(d):
                    curvature += search[j] * product[j]
                if not curvature > 0:
                    break
                length, before = norm / curvature, norm
                norm = kind(0)
                for j in range(d):
                    vector[j] += length * search[j]
                    residual[j] -= length * product[j]
                    norm += residual[j] * residual[j] / diagonal[j]
                turned = norm / before
                for j in range(d):
                    search[j] = residual[j] / diagonal[j] + turned * search[j]


@inner
def _add_residual(
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    fixed: FixedFactors,
    missing: Any,
    vector: Floats,
    residual: Floats,
    diagonal: Floats,
) -> None:
    """Adds a row's entries to its residual at `vector` and to the diagonal of A, two at a time.

    An entry adds slope·x_c to the residual, with slope = w_c − excess_c (x_c·vector).
    """
    d = fixed.vectors.shape[1]
    kind = fixed.vectors.dtype.type
    even = len(columns) - len(columns) % 2
    for entry in range(0, even, 2):
        x0, x1 = fixed.vectors[columns[entry]], fixed.vectors[columns[entry + 1]]
        score0, score1 = kind(0), kind(0)
        for j in range(d):
            score0 += x0[j] * vector[j]
            score1 += x1[j] * vector[j]
        weight0, weight1 = kind(weights[entry]), kind(weights[entry + 1])
        excess0 = weight0 - missing * fixed.missing[columns[entry]]
        excess1 = weight1 - missing * fixed.missing[columns[entry + 1]]
        slope0, slope1 = weight0 - excess0 * score0, weight1 - excess1 * score1
        for j in range(d):
            residual[j] += slope0 * x0[j] + slope1 * x1[j]
            diagonal[j] += excess0 * x0[j] * x0[j] + excess1 * x1[j] * x1[j]
    for entry in range(even, len(columns)):
        x = fixed.vectors[columns[entry]]
        score = kind(0)
        for j in range(d):
            score += x[j] * vector[j]
        weight = kind(weights[entry])
        excess = weight - missing * fixed.missing[columns[entry]]
        slope = weight - excess * score
        for j in range(d):
            residual[j] += slope * x[j]
            diagonal[j] += excess * x[j] * x[j]


@inner
def add_product(
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    fixed: FixedFactors | Factors,
    missing: Any,
    search: Floats,
    product: Floats,
) -> None:
    """Adds a row's entries to the Hessian product: Σ_c excess_c (x_c·search) x_c.

    Four entries are taken at a time, since their sums need not wait for each other.
    """
    d = fixed.vectors.shape[1]
    kind = fixed.vectors.dtype.type
    fours = len(columns) - len(columns) % 4
    for entry in range(0, fours, 4):
        c0, c1, c2, c3 = columns[entry], columns[entry + 1], columns[entry + 2], columns[entry + 3]
        x0, x1, x2, x3 = fixed.vectors[c0], fixed.vectors[c1], fixed.vectors[c2], fixed.vectors[c3]
        s0, s1, s2, s3 = kind(0), kind(0), kind(0), kind(0)
        for j in range(d):
            s0 += x0[j] * search[j]
            s1 += x1[j] * search[j]
            s2 += x2[j] * search[j]
            s3 += x3[j] * search[j]
        s0 *= kind(weights[entry]) - missing * fixed.missing[c0]
        s1 *= kind(weights[entry + 1]) - missing * fixed.missing[c1]
        s2 *= kind(weights[entry + 2]) - missing * fixed.missing[c2]
        s3 *= kind(weights[entry + 3]) - missing * fixed.missing[c3]
        for j in range(d):
            product[j] += s0 * x0[j] + s1 * x1[j] + s2 * x2[j] + s3 * x3[j]
    for entry in range(fours, len(columns)):
        x = fixed.vectors[columns[entry]]
        s = kind(0)
        for j in range(d):
            s += x[j] * search[j]
        s *= kind(weights[entry]) - missing * fixed.missing[columns[entry]]
        for j in range(d):
            product[j] += s * x[j]
