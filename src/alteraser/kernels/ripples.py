"""How a change of a few rows reaches their neighbours, and what a step of a few rows meets: sums over their entries.

Rows may lose entries: row r holds columns[starts[r] : starts[r] + counts[r]], ascending. A score is y_r·(h ⊙ y_c); the
rest is named as in `rows.py`. An entry adds (w − lift·score)·(h ⊙ y_r) to half of minus the gradient in y_c, with
lift = w − m_r m_c.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from alteraser.kernels.jit import compiled, threaded
from alteraser.kernels.tiles import TILE_COLUMNS, add_tile, fetch_ahead, padded

CHUNK = 32  # entries gathered at a time
AHEAD = 6  # entries
Floats = NDArray[Any]


@compiled
def give_slots(rows: NDArray[np.int64], slots: NDArray[np.int32], owners: NDArray[np.int64], n_slots: int) -> int:
    """Every row that has no slot gets the next one; how many slots there are then."""
    for row in rows:
        if slots[row] < 0:
            slots[row], owners[n_slots] = n_slots, row
            n_slots += 1
    return n_slots


@compiled
def add_rows(rows: NDArray[np.int64], change: Floats, slots: NDArray[np.int32], new: Floats) -> float:
    """The slot of rows[k] gains change[k]; by how much the squared norms of all slots grew."""
    growth = 0.0
    for k in range(len(rows)):
        slot = new[slots[rows[k]]]
        for j in range(new.shape[1]):
            gain = change[k, j]
            growth += gain * (slot[j] + slot[j] + gain)
            slot[j] += gain
    return growth


@compiled
def find_neighbours(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int32],
    slots: NDArray[np.int32],
    owners: NDArray[np.int64],
    n_slots: int,
) -> int:
    """Every neighbour of the rows that has no slot gets the next one; how many slots there are then."""
    for row in rows:
        for entry in range(starts[row], starts[row] + counts[row]):
            column = columns[entry]
            if slots[column] < 0:
                slots[column], owners[n_slots] = n_slots, column
                n_slots += 1
    return n_slots


@threaded
def spread_changes(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    seen: Floats,
    change: Floats,
    missing_before: Floats,
    missing_after: Floats,
    other: Floats,
    missing_other: Floats,
    slots: NDArray[np.int32],
    residuals: Floats,
    sums: Floats,
    totals: NDArray[np.float64],
) -> None:
    """Adds to the residuals of the neighbours what rows bring that are seen as `seen` and become `seen + change`.

    A neighbour gains slope·change − bend·seen. Of each worker and row, `sums` has Σ bend·y_c, Σ m_c·bend·y_c and
    Σ m_c·slope·y_c, padded to whole tiles; `totals` has Σ lift'·(y_c·change)², and by how much the squared norms of the
    residuals grew. A worker has a range of columns to itself, so that adding does not race.
    """
    n_workers = sums.shape[0]
    d = other.shape[1]
    stride = padded(d)
    kind = other.dtype.type
    share = (len(other) + n_workers - 1) // n_workers
    for worker in prange(n_workers):
        low, high = worker * share, min((worker + 1) * share, len(other))
        gathered, factors = np.zeros(CHUNK * stride, other.dtype), np.zeros(CHUNK * stride, other.dtype)
        curvature, growth = 0.0, 0.0
        for k in range(len(rows)):
            first = starts[rows[k]]
            held = columns[first : first + counts[rows[k]]]
            last = first + np.searchsorted(held, high)
            for begin in range(first + np.searchsorted(held, low), last, CHUNK):
                n = min(CHUNK, last - begin)
                for i in range(n):
                    soon = columns[min(begin + i + AHEAD, last - 1)]
                    fetch_ahead(other, soon)
                    fetch_ahead(residuals, slots[soon])
                    column = columns[begin + i]
                    start = np.uintp(i * stride)
                    score, moved = kind(0), kind(0)
                    for j in range(np.uintp(0), np.uintp(d)):
                        y = other[column, j]
                        gathered[start + j] = y
                        score += y * seen[k, j]
                        moved += y * change[k, j]
                    weight, missing = kind(weights[begin + i]), missing_other[column]
                    before, after = weight - missing_before[k] * missing, weight - missing_after[k] * missing
                    bend = after * moved + (after - before) * score
                    slope = weight - after * (score + moved)
                    factors[start], factors[start + np.uintp(1)] = bend, missing * bend
                    factors[start + np.uintp(2)] = missing * slope
                    curvature += after * moved * moved
                    residual, grown = residuals[slots[column]], kind(0)
                    for j in range(np.uintp(0), np.uintp(d)):
                        gain = slope * change[k, j] - bend * seen[k, j]
                        grown += gain * (residual[j] + residual[j] + gain)
                        residual[j] += gain
                    growth += grown
                for j in range(0, d, TILE_COLUMNS):
                    add_tile(sums[worker, k], j, factors, 0, gathered, j, stride, n)
        totals[worker, 0], totals[worker, 1] = curvature, growth


@threaded
def curve_rows(
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    seen: Floats,
    direction: Floats,
    missing_row: Floats,
    other: Floats,
    missing_other: Floats,
    place_of_other: NDArray[np.int32],
    direction_of_other: Floats,
    products: Floats,
    n_workers: int,
) -> None:
    """products[k] becomes what the entries of rows[k] give to half the Hessian times a direction of some rows of both
    sides, up to a factor h: `direction` as it is seen of these rows, `direction_of_other` as it is of those that have a
    place.
    """
    d = other.shape[1]
    kind = other.dtype.type
    for worker in prange(n_workers):
        for turn in range(worker, len(order), n_workers):
            k = order[turn]
            row = rows[k]
            x, dx, product = seen[k], direction[k], products[k]
            for j in range(d):
                product[j] = 0
            for entry in range(starts[row], starts[row] + counts[row]):
                column = columns[entry]
                y = other[column]
                weight = kind(weights[entry])
                lift = weight - missing_row[k] * missing_other[column]
                moved = kind(0)
                place = place_of_other[column]
                if place < 0:
                    for j in range(d):
                        moved += y[j] * dx[j]
                    along = lift * moved
                    for j in range(d):
                        product[j] += along * y[j]
                else:
                    dy = direction_of_other[place]
                    score = kind(0)
                    for j in range(d):
                        moved += y[j] * dx[j] + dy[j] * x[j]
                        score += y[j] * x[j]
                    along, slope = lift * moved, lift * score - weight
                    for j in range(d):
                        product[j] += along * y[j] + slope * dy[j]


@compiled
def curve_pairs(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    h: Floats,
    own: Floats,
    direction: Floats,
    missing_row: Floats,
    other: Floats,
    missing_other: Floats,
    place_of_other: NDArray[np.int32],
    direction_of_other: Floats,
    products: Floats,
    products_of_other: Floats,
) -> None:
    """As `curve_rows` for these rows; and to those of the other side that have a place, only what these rows give them.

    The entries of the other side's rows are not looked at, so that few rows with popular neighbours stay cheap.
    """
    d = other.shape[1]
    kind = other.dtype.type
    products_of_other[:] = 0
    for k in range(len(rows)):
        row = rows[k]
        vector, change, product = own[k], direction[k], products[k]
        x, dx = h * vector, h * change
        product[:] = 0
        for entry in range(starts[row], starts[row] + counts[row]):
            column = columns[entry]
            y = other[column]
            weight = kind(weights[entry])
            lift = weight - missing_row[k] * missing_other[column]
            moved = kind(0)
            for j in range(d):
                moved += y[j] * dx[j]
            along = lift * moved
            for j in range(d):
                product[j] += along * y[j]
            place = place_of_other[column]
            if place >= 0:
                dy, back = direction_of_other[place], products_of_other[place]
                score, of_other = kind(0), kind(0)
                for j in range(d):
                    score += y[j] * x[j]
                    of_other += dy[j] * x[j]
                slope = lift * score - weight
                for j in range(d):
                    product[j] += lift * of_other * y[j] + slope * dy[j]
                    back[j] += along * vector[j] + slope * change[j]


@threaded
def entry_masses(
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    missing_row: Floats,
    missing_other: Floats,
    squares: Floats,
) -> Floats:
    """Σ_c lift·squares[c] over the entries of each row."""
    masses = np.zeros(len(counts), squares.dtype)
    for row in prange(len(counts)):
        total = squares.dtype.type(0)
        for entry in range(starts[row], starts[row] + counts[row]):
            column = columns[entry]
            total += (weights[entry] - missing_row[row] * missing_other[column]) * squares[column]
        masses[row] = total
    return masses


@threaded
def estimate_decrements(
    owed: Floats,
    alpha: Floats,
    l2: Floats,
    spectrum: Floats,
    decrements: NDArray[np.float64],
    norms: NDArray[np.float64],
) -> None:
    """Of each row the squared norm of what it owes, and about owedᵀ(alpha·G + l2·I)⁻¹owed.

    G has this spectrum, and what is owed is taken to lie in its directions as much as they weigh there.
    """
    mass = spectrum.sum()
    for k in prange(len(owed)):
        vector = owed[k]
        norm, share = 0.0, 0.0
        for j in range(len(spectrum)):
            norm += np.float64(vector[j]) * np.float64(vector[j])
            share += spectrum[j] / (alpha[k] * spectrum[j] + l2[k])
        norms[k] = norm
        decrements[k] = norm * share / mass


@threaded
def fold_rows(rows: NDArray[np.int64], new: Floats, debt: Floats, slots: NDArray[np.int32]) -> float:
    """debt[rows[k]] gains new[k], which becomes zero, and the row loses its slot.

    By how much the sum of the squared norms grew.
    """
    growth = 0.0
    kind = debt.dtype.type
    last = len(rows) - 1
    for k in prange(len(rows)):
        row = rows[k]
        fetch_ahead(debt, rows[min(k + AHEAD, last)])
        old, grown = debt[row], kind(0)
        for j in range(debt.shape[1]):
            grown += new[k, j] * (old[j] + old[j] + new[k, j])
            old[j] += new[k, j]
            new[k, j] = 0
        slots[row] = -1
        growth += grown
    return growth


@compiled
def drop_entries(
    rows: NDArray[np.int64],
    dropped: NDArray[np.int32],
    new_weights: NDArray[np.float32],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32],
    old_weights: NDArray[np.float32],
) -> None:
    """Entry (rows[i], dropped[i]) gets its new weight, or, where that is negative, leaves its row and no trace there.

    Its weight until then goes to old_weights[i]; negative if there is no such entry.
    """
    for i in range(len(rows)):
        first = starts[rows[i]]
        last = first + counts[rows[i]]
        place = first + np.searchsorted(columns[first:last], dropped[i])
        if place == last or columns[place] != dropped[i]:
            old_weights[i] = -1
            continue
        old_weights[i] = weights[place]
        if new_weights[i] >= 0:
            weights[place] = new_weights[i]
            continue
        for entry in range(place, last - 1):
            columns[entry] = columns[entry + 1]
            weights[entry] = weights[entry + 1]
        columns[last - 1] = 0
        weights[last - 1] = 0
        counts[rows[i]] -= 1
