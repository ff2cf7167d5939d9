"""Ridge problems over compressed rows, brought nearer to their minimum from where they are, without any matrix.

The problems are those of `rows.py`, in the basis in which `gram` is diagonal: conjugate gradients then meet the gram as
d numbers, the `spectrum`, and the diagonal of A, which says nearly all of it, makes the preconditioner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.jit import compiled, n_threads, threaded
from alteraser.kernels.rows import longest_first

Floats = NDArray[Any]


def descend_rows(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    *,
    vectors: Floats,
    fixed: Floats,
    spectrum: Floats,
    missing_row: Floats,
    missing_column: Floats,
    ridge: Floats,
    tolerance: float,
    max_products: int,
) -> None:
    """Moves vectors[i], of rows[i], until its residual is `tolerance` of what it was (in the preconditioner's norm)."""
    _descend_rows(
        longest_first(rows, starts),
        rows,
        starts,
        columns,
        weights,
        vectors,
        fixed,
        spectrum,
        missing_row,
        missing_column,
        ridge,
        tolerance,
        max_products,
        n_threads(),
    )


@threaded
def _descend_rows(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    vectors: Floats,
    fixed: Floats,
    spectrum: Floats,
    missing_row: Floats,
    missing_column: Floats,
    ridge: Floats,
    tolerance: float,
    max_products: int,
    n_workers: int,
) -> None:
    d = fixed.shape[1]
    kind = fixed.dtype.type
    for worker in prange(n_workers):
        plain, diagonal = np.empty(d, fixed.dtype), np.empty(d, fixed.dtype)
        residual, search, curved = (
            np.empty(d, fixed.dtype),
            np.empty(d, fixed.dtype),
            np.empty(d, fixed.dtype),
        )
        for turn in range(worker, len(order), n_workers):
            place = order[turn]
            row = rows[place]
            vector, missing = vectors[place], missing_row[row]
            held, given = columns[starts[row] : starts[row + 1]], weights[starts[row] : starts[row + 1]]
            for j in range(d):
                plain[j] = missing * spectrum[j] + ridge[row]
                diagonal[j] = plain[j]
                residual[j] = -plain[j] * vector[j]
            _add_residual(held, given, fixed, missing, missing_column, vector, residual, diagonal)
            norm = kind(0)
            for j in range(d):
                search[j] = residual[j] / diagonal[j]
                norm += residual[j] * search[j]
            goal = norm * kind(tolerance) * kind(tolerance)
            for _ in range(max_products):
                if not norm > goal:
                    break
                for j in range(d):
                    curved[j] = plain[j] * search[j]
                _add_product(held, given, fixed, missing, missing_column, search, curved)
                curvature = kind(0)
                for j in range(d):
                    curvature += search[j] * curved[j]
                if not curvature > 0:
                    break
                length, before = norm / curvature, norm
                norm = kind(0)
                for j in range(d):
                    vector[j] += length * search[j]
                    residual[j] -= length * curved[j]
                    norm += residual[j] * residual[j] / diagonal[j]
                turned = norm / before
                for j in range(d):
                    search[j] = residual[j] / diagonal[j] + turned * search[j]


@compiled
def _add_residual(
    held: NDArray[np.int32],
    given: NDArray[np.float32],
    fixed: Floats,
    missing: Any,
    missing_column: Floats,
    vector: Floats,
    residual: Floats,
    diagonal: Floats,
) -> None:
    """Adds what the entries give to the residual at `vector` and to the diagonal of A, two at a time."""
    d = fixed.shape[1]
    kind = fixed.dtype.type
    even = len(held) - len(held) % 2
    for entry in range(0, even, 2):
        x0, x1 = fixed[held[entry]], fixed[held[entry + 1]]
        score0, score1 = kind(0), kind(0)
        for j in range(d):
            score0 += x0[j] * vector[j]
            score1 += x1[j] * vector[j]
        weight0, weight1 = kind(given[entry]), kind(given[entry + 1])
        lift0 = weight0 - missing * missing_column[held[entry]]
        lift1 = weight1 - missing * missing_column[held[entry + 1]]
        slope0, slope1 = weight0 - lift0 * score0, weight1 - lift1 * score1
        for j in range(d):
            residual[j] += slope0 * x0[j] + slope1 * x1[j]
            diagonal[j] += lift0 * x0[j] * x0[j] + lift1 * x1[j] * x1[j]
    for entry in range(even, len(held)):
        x = fixed[held[entry]]
        score = kind(0)
        for j in range(d):
            score += x[j] * vector[j]
        weight = kind(given[entry])
        lift = weight - missing * missing_column[held[entry]]
        slope = weight - lift * score
        for j in range(d):
            residual[j] += slope * x[j]
            diagonal[j] += lift * x[j] * x[j]


@compiled
def _add_product(
    held: NDArray[np.int32],
    given: NDArray[np.float32],
    fixed: Floats,
    missing: Any,
    missing_column: Floats,
    search: Floats,
    curved: Floats,
) -> None:
    """Adds Σ_c lift_c (x_c·search) x_c, four entries at a time: their sums do not wait for each other."""
    d = fixed.shape[1]
    kind = fixed.dtype.type
    fours = len(held) - len(held) % 4
    for entry in range(0, fours, 4):
        x0, x1, x2, x3 = (
            fixed[held[entry]],
            fixed[held[entry + 1]],
            fixed[held[entry + 2]],
            fixed[held[entry + 3]],
        )
        s0, s1, s2, s3 = kind(0), kind(0), kind(0), kind(0)
        for j in range(d):
            s0 += x0[j] * search[j]
            s1 += x1[j] * search[j]
            s2 += x2[j] * search[j]
            s3 += x3[j] * search[j]
        s0 *= kind(given[entry]) - missing * missing_column[held[entry]]
        s1 *= kind(given[entry + 1]) - missing * missing_column[held[entry + 1]]
        s2 *= kind(given[entry + 2]) - missing * missing_column[held[entry + 2]]
        s3 *= kind(given[entry + 3]) - missing * missing_column[held[entry + 3]]
        for j in range(d):
            curved[j] += s0 * x0[j] + s1 * x1[j] + s2 * x2[j] + s3 * x3[j]
    for entry in range(fours, len(held)):
        x = fixed[held[entry]]
        s = kind(0)
        for j in range(d):
            s += x[j] * search[j]
        s *= kind(given[entry]) - missing * missing_column[held[entry]]
        for j in range(d):
            curved[j] += s * x[j]
