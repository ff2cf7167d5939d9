"""Products of half the Hessian with a search direction of some rows of both sides: the part that entries give.

With x the scaled factors of a row and dx their direction, y the vector of the other row of a pair and dy its
direction, the pair gives e·(y·dx + dy·x)·y + (e·score − w)·dy to the product of its row, up to a factor h (letters as
in `live.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.arrays import Floats, Matrix
from alteraser.kernels.descent import add_product
from alteraser.kernels.jit import compiled, inner, threaded
from alteraser.kernels.live import ChosenRows, Factors, SearchDirections
from alteraser.kernels.sparse import SparseRows


@threaded
def hessian_products(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    entries: SparseRows,
    chosen: ChosenRows,
    other: Factors,
    beside: SearchDirections,
    products: Matrix,
    n_workers: int,
) -> None:
    """Sets products[k] to what the entries of rows[k] give to A·direction, up to a factor h.

    `chosen` has the rows' scaled factors and the direction of these; `beside` is the direction of the other side's
    rows, whose last value is zero: that of rows at position -1, which stay.
    """
    scaled, direction, missing_row = chosen
    vectors, missing_other = other
    positions, directions = beside
    columns, weights = entries.columns, entries.weights
    d = vectors.shape[1]
    kind = vectors.dtype.type
    for worker in prange(n_workers):
        for turn in range(worker, len(order), n_workers):
            k = order[turn]
            row = rows[k]
            x, dx, product = scaled[k], direction[k], products[k]
            for j in range(d):
                product[j] = 0
            first, last = entries.starts[row], entries.stops[row]
            whole = first + (last - first) // 4 * 4
            # Four entries at a time: the product is read and written once for all.
            for entry in range(first, whole, 4):
                c0, c1, c2, c3 = columns[entry], columns[entry + 1], columns[entry + 2], columns[entry + 3]
                y0, y1, y2, y3 = vectors[c0], vectors[c1], vectors[c2], vectors[c3]
                dy0, dy1 = directions[positions[c0]], directions[positions[c1]]
                dy2, dy3 = directions[positions[c2]], directions[positions[c3]]
                moved0, moved1, moved2, moved3 = kind(0), kind(0), kind(0), kind(0)
                score0, score1, score2, score3 = kind(0), kind(0), kind(0), kind(0)
                for j in range(d):
                    moved0 += y0[j] * dx[j] + dy0[j] * x[j]
                    moved1 += y1[j] * dx[j] + dy1[j] * x[j]
                    moved2 += y2[j] * dx[j] + dy2[j] * x[j]
                    moved3 += y3[j] * dx[j] + dy3[j] * x[j]
                    score0 += y0[j] * x[j]
                    score1 += y1[j] * x[j]
                    score2 += y2[j] * x[j]
                    score3 += y3[j] * x[j]
                m = missing_row[k]
                along0, slope0 = _along_and_slope(kind(weights[entry]), m * missing_other[c0], moved0, score0)
                along1, slope1 = _along_and_slope(
                    kind(weights[entry + 1]), m * missing_other[c1], moved1, score1
                )
                along2, slope2 = _along_and_slope(
                    kind(weights[entry + 2]), m * missing_other[c2], moved2, score2
                )
                along3, slope3 = _along_and_slope(
                    kind(weights[entry + 3]), m * missing_other[c3], moved3, score3
                )
                for j in range(d):
                    first_two = along0 * y0[j] + slope0 * dy0[j] + along1 * y1[j] + slope1 * dy1[j]
                    product[j] += (
                        first_two + along2 * y2[j] + slope2 * dy2[j] + along3 * y3[j] + slope3 * dy3[j]
                    )
            for entry in range(whole, last):
                column = columns[entry]
                y, dy = vectors[column], directions[positions[column]]
                moved, score = kind(0), kind(0)
                for j in range(d):
                    moved += y[j] * dx[j] + dy[j] * x[j]
                    score += y[j] * x[j]
                along, slope = _along_and_slope(
                    kind(weights[entry]), missing_row[k] * missing_other[column], moved, score
                )
                for j in range(d):
                    product[j] += along * y[j] + slope * dy[j]


@inner
def _along_and_slope(weight: Any, missing: Any, moved: Any, score: Any) -> tuple[Any, Any]:
    """What an entry's product has of the other row's vector, and of that row's direction."""
    excess = weight - missing
    return excess * moved, excess * score - weight


@compiled
def hessian_products_of_pairs(
    rows: NDArray[np.int64],
    entries: SparseRows,
    h: Floats,
    chosen: ChosenRows,
    other: Factors,
    beside: SearchDirections,
    products: Matrix,
    products_of_other: Matrix,
) -> None:
    """As `hessian_products`; the other side's rows that have a position get only what `rows` give them.

    `chosen` has the rows' own vectors and their direction. The entries of the other side's rows are not looked at, so
    that few rows with popular neighbours stay cheap.
    """
    own, direction, missing_row = chosen
    vectors, missing_other = other
    positions, directions = beside
    d = vectors.shape[1]
    kind = vectors.dtype.type
    products_of_other[:] = 0
    for k in range(len(rows)):
        row = rows[k]
        vector, change, product = own[k], direction[k], products[k]
        x, dx = h * vector, h * change
        product[:] = 0
        for entry in range(entries.starts[row], entries.stops[row]):
            column = entries.columns[entry]
            y = vectors[column]
            weight = kind(entries.weights[entry])
            excess = weight - missing_row[k] * missing_other[column]
            moved = kind(0)
            for j in range(d):
                moved += y[j] * dx[j]
            along = excess * moved
            for j in range(d):
                product[j] += along * y[j]
            position = positions[column]
            if position >= 0:
                dy, back = directions[position], products_of_other[position]
                score, of_other = kind(0), kind(0)
                for j in range(d):
                    score += y[j] * x[j]
                    of_other += dy[j] * x[j]
                slope = excess * score - weight
                for j in range(d):
                    product[j] += excess * of_other * y[j] + slope * dy[j]
                    back[j] += along * vector[j] + slope * change[j]


@threaded
def gather_movement(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    entries: SparseRows,
    scaled: Factors,
    other: Factors,
    moved: SearchDirections,
    products: Matrix,
    n_workers: int,
) -> None:
    """As `hessian_products` where `rows` themselves stay: only entries that lead to rows that have moved are looked at.

    `scaled` has the rows' scaled factors; rows of the other side that have not moved have position -1.
    """
    vectors, missing_other = other
    positions, movement = moved
    columns, weights = entries.columns, entries.weights
    d = vectors.shape[1]
    kind = vectors.dtype.type
    for worker in prange(n_workers):
        for turn in range(worker, len(order), n_workers):
            k = order[turn]
            x, product, m = scaled.vectors[k], products[k], scaled.missing[k]
            for j in range(d):
                product[j] = 0
            for entry in range(entries.starts[rows[k]], entries.stops[rows[k]]):
                column = columns[entry]
                position = positions[column]
                if position >= 0:
                    y, dy = vectors[column], movement[position]
                    score, along = kind(0), kind(0)
                    for j in range(d):
                        score += y[j] * x[j]
                        along += dy[j] * x[j]
                    along, slope = _along_and_slope(
                        kind(weights[entry]), m * missing_other[column], along, score
                    )
                    for j in range(d):
                        product[j] += along * y[j] + slope * dy[j]


@threaded
def push_movement(
    rows: NDArray[np.int64],
    entries: SparseRows,
    h: Floats,
    moved: ChosenRows,
    other: Factors,
    positions: NDArray[np.int32],
    products: Matrix,
    n_workers: int,
) -> None:
    """Adds what `gather_movement` finds, from the side of the `rows` that have moved, by `moved.direction`.

    Row c of the other side has its product at positions[c]; those at -1 get none. Each worker adds to products of its
    own.
    """
    vectors, missing_other = other
    columns, weights = entries.columns, entries.weights
    d = vectors.shape[1]
    kind = vectors.dtype.type
    for worker in prange(n_workers):
        x, dx = np.empty(d, vectors.dtype), np.empty(d, vectors.dtype)
        for k in range(len(rows)):
            y, dy, m = moved.vectors[k], moved.direction[k], moved.missing[k]
            for j in range(d):
                x[j], dx[j] = h[j] * y[j], h[j] * dy[j]
            for entry in range(entries.starts[rows[k]], entries.stops[rows[k]]):
                column = columns[entry]
                position = positions[column]
                if position >= 0 and position % n_workers == worker:
                    vector, product = vectors[column], products[position]
                    score, along = kind(0), kind(0)
                    for j in range(d):
                        score += vector[j] * x[j]
                        along += vector[j] * dx[j]
                    along, slope = _along_and_slope(
                        kind(weights[entry]), m * missing_other[column], along, score
                    )
                    for j in range(d):
                        product[j] += along * y[j] + slope * dy[j]


@threaded
def row_products(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    entries: SparseRows,
    scaled: Factors,
    other: Factors,
    products: Matrix,
    n_workers: int,
) -> None:
    """As `hessian_products` where the other side stays; `scaled` has the scaled directions of the rows."""
    columns, weights = entries.columns, entries.weights
    for worker in prange(n_workers):
        for turn in range(worker, len(order), n_workers):
            k = order[turn]
            some = slice(entries.starts[rows[k]], entries.stops[rows[k]])
            product = products[k]
            for j in range(len(product)):
                product[j] = 0
            add_product(columns[some], weights[some], other, scaled.missing[k], scaled.vectors[k], product)
