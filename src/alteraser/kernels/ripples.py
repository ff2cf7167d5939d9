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
from alteraser.kernels.tiles import TILE_COLUMNS, TILE_ROWS, add_tile, fetch_ahead, padded

CHUNK = 32  # entries gathered at a time
AHEAD = 6  # entries
Floats = NDArray[Any]


@compiled
def give_slots(
    rows: NDArray[np.signedinteger], slots: NDArray[np.int32], owners: NDArray[np.int64], n_slots: int
) -> int:
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
        n_slots = give_slots(columns[starts[row] : starts[row] + counts[row]], slots, owners, n_slots)
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
    Σ m_c·slope·y_c, padded to whole tiles; `totals` has Σ lift'·(y_c·change)², by how much the squared norms of the
    residuals grew, and Σ slope·(y_c·change). A worker has a range of columns to itself, so that adding does not race.
    """
    n_workers = sums.shape[0]
    d = other.shape[1]
    stride = padded(d)
    kind = other.dtype.type
    share = (len(other) + n_workers - 1) // n_workers
    for worker in prange(n_workers):
        low, high = worker * share, min((worker + 1) * share, len(other))
        gathered, factors = np.zeros(CHUNK * stride, other.dtype), np.zeros(CHUNK * stride, other.dtype)
        curvature, growth, along = 0.0, 0.0, 0.0
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
                    along += slope * moved
                    residual, grown = residuals[slots[column]], kind(0)
                    for j in range(np.uintp(0), np.uintp(d)):
                        gain = slope * change[k, j] - bend * seen[k, j]
                        grown += gain * (residual[j] + residual[j] + gain)
                        residual[j] += gain
                    growth += grown
                for j in range(0, d, TILE_COLUMNS):
                    add_tile(sums[worker, k], j, factors, 0, gathered, j, stride, n)
        totals[worker, 0], totals[worker, 1], totals[worker, 2] = curvature, growth, along


@threaded
def move_rows(
    rows: NDArray[np.int64],
    table: Floats,
    missing: Floats,
    l2: Floats,
    debt: Floats,
    slots: NDArray[np.int32],
    new: Floats,
    squares: Floats,
    h: Floats,
    vectors: Floats,
    missing_after: Floats,
    l2_after: Floats,
    spread: Floats,
    gram: Floats,
    drift: Floats,
    new_drift: Floats,
    sums: Floats,
    totals: NDArray[np.float64],
) -> None:
    """Rows whose change was spread to their neighbours become `vectors`, with other weights, and what they owe follows.

    `spread` is what `spread_changes` summed; `gram` is Ĝ, `drift` and `new_drift` what was added to it since debts and
    since what is new were written down. Of each worker, `sums` gains the changes of Σ m y yᵀ, Σ m² y yᵀ, Σ m y debtᵀ,
    Σ m y newᵀ, and of Σ m y newᵀ of the other side; `totals` has by how much the loss falls, debts and the entries'
    curvature apart, by how much the squared norms of debts and of what is new grow, and what missing entries and
    penalties add to the whole loss: their sum over the rows, and that of its absolute values.
    """
    d = table.shape[1]
    stride = padded(d)
    kind = table.dtype
    n_workers = sums.shape[0]
    for worker in prange(n_workers):
        # Of each row, what goes out with a minus and what comes in: one beneath the other.
        signed, y, weighed, owes, owes_new, seen, gains = (
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
            np.zeros(CHUNK * stride, kind),
        )
        change, by_gram, by_drift, by_new, own_by_new = (
            np.empty(d, kind),
            np.empty(d, kind),
            np.empty(d, kind),
            np.empty(d, kind),
            np.empty(d, kind),
        )
        own_by_gram, own_by_drift = np.zeros(d, kind), np.zeros(d, kind)
        fall, growth, growth_of_new, rest, rest_size = 0.0, 0.0, 0.0, 0.0, 0.0
        half = CHUNK // 2
        for begin in range(worker * half, len(rows), n_workers * half):
            n = min(half, len(rows) - begin)
            for i in range(n):
                k = begin + i
                row = rows[k]
                old, after = table[row], vectors[k]
                m0, m1, r0, r1 = missing[row], missing_after[k], l2[row], l2_after[k]
                for j in range(d):
                    change[j] = after[j] - old[j]
                _times_matrix(change, gram, by_gram)
                _times_matrix(change, drift, by_drift)
                _times_matrix(change, new_drift, by_new)
                _times_matrix(old, new_drift, own_by_new)
                if m1 != m0:
                    _times_matrix(old, gram, own_by_gram)
                    _times_matrix(old, drift, own_by_drift)
                held, held_new = debt[row], new[slots[row]]
                fallen, grown, grown_of_new, square = kind.type(0), kind.type(0), kind.type(0), kind.type(0)
                added = kind.type(0)
                first, second = 2 * i * stride, (2 * i + 1) * stride
                for j in range(d):
                    own, of_bend, of_slope = kind.type(0), kind.type(0), kind.type(0)
                    for part in range(len(spread)):
                        own += spread[part, k, j]
                        of_bend += spread[part, k, stride + j]
                        of_slope += spread[part, k, 2 * stride + j]
                    own *= h[j]
                    # With the weights as they were, the Hessian times the change, but for the entries' curvature.
                    apart = m1 * by_gram[j] + r1 * change[j]
                    less = own + apart
                    owed = held_new[j] - m0 * own_by_new[j]
                    fallen += (owed + owed - less + own) * change[j]
                    added += apart * (old[j] + after[j])
                    less += (m1 - m0) * own_by_gram[j] + (r1 - r0) * old[j]
                    e0, e1 = held[j], held[j] + m1 * by_drift[j] + (m1 - m0) * own_by_drift[j]
                    f0 = held_new[j]
                    f1 = f0 - less + m1 * by_new[j] + (m1 - m0) * own_by_new[j]
                    grown += (e1 - e0) * (e1 + e0)
                    grown_of_new += (f1 - f0) * (f1 + f0)
                    y[first + j], y[second + j] = old[j], after[j]
                    signed[first + j], signed[second + j] = -m0 * old[j], m1 * after[j]
                    weighed[first + j], weighed[second + j] = m0 * old[j], m1 * after[j]
                    owes[first + j], owes[second + j] = e0, e1
                    owes_new[first + j], owes_new[second + j] = f0, f1
                    seen[first + j], seen[second + j] = of_slope, -of_bend
                    gains[first + j], gains[second + j] = h[j] * change[j], h[j] * old[j]
                    square += (h[j] * after[j]) ** 2
                    held[j], held_new[j], old[j] = e1, f1, after[j]
                missing[row], l2[row], squares[row] = m1, r1, square
                fall += fallen
                growth += grown
                growth_of_new += grown_of_new
                rest += added
                rest_size += abs(added)
            for i in range(0, d, TILE_ROWS):
                for j in range(0, d, TILE_COLUMNS):
                    at = i * stride + j
                    add_tile(sums[worker, 0], at, signed, i, y, j, stride, 2 * n)
                    add_tile(sums[worker, 1], at, signed, i, weighed, j, stride, 2 * n)
                    add_tile(sums[worker, 2], at, signed, i, owes, j, stride, 2 * n)
                    add_tile(sums[worker, 3], at, signed, i, owes_new, j, stride, 2 * n)
                    add_tile(sums[worker, 4], at, seen, i, gains, j, stride, 2 * n)
        totals[worker, 0], totals[worker, 1], totals[worker, 2] = fall, growth, growth_of_new
        totals[worker, 3], totals[worker, 4] = rest, rest_size


@compiled
def _times_matrix(vector: Floats, matrix: Floats, product: Floats) -> None:
    d = len(product)
    product[:] = 0
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
    place. Its last row is zero: that of all others, whose place is -1.
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
            first, last = starts[row], starts[row] + counts[row]
            whole = first + counts[row] // 4 * 4
            # Four entries at a time: the product is read and written once for all.
            for entry in range(first, whole, 4):
                c0, c1, c2, c3 = columns[entry], columns[entry + 1], columns[entry + 2], columns[entry + 3]
                y0, y1, y2, y3 = other[c0], other[c1], other[c2], other[c3]
                dy0, dy1 = direction_of_other[place_of_other[c0]], direction_of_other[place_of_other[c1]]
                dy2, dy3 = direction_of_other[place_of_other[c2]], direction_of_other[place_of_other[c3]]
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
                along0, slope0 = _bent(kind(weights[entry]), m * missing_other[c0], moved0, score0)
                along1, slope1 = _bent(kind(weights[entry + 1]), m * missing_other[c1], moved1, score1)
                along2, slope2 = _bent(kind(weights[entry + 2]), m * missing_other[c2], moved2, score2)
                along3, slope3 = _bent(kind(weights[entry + 3]), m * missing_other[c3], moved3, score3)
                for j in range(d):
                    first_two = along0 * y0[j] + slope0 * dy0[j] + along1 * y1[j] + slope1 * dy1[j]
                    product[j] += (
                        first_two + along2 * y2[j] + slope2 * dy2[j] + along3 * y3[j] + slope3 * dy3[j]
                    )
            for entry in range(whole, last):
                column = columns[entry]
                y, dy = other[column], direction_of_other[place_of_other[column]]
                moved, score = kind(0), kind(0)
                for j in range(d):
                    moved += y[j] * dx[j] + dy[j] * x[j]
                    score += y[j] * x[j]
                along, slope = _bent(
                    kind(weights[entry]), missing_row[k] * missing_other[column], moved, score
                )
                for j in range(d):
                    product[j] += along * y[j] + slope * dy[j]


@compiled
def _bent(weight: Any, missing: Any, moved: Any, score: Any) -> tuple[Any, Any]:
    lift = weight - missing
    return lift * moved, lift * score - weight


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


@compiled
def estimate_decrements(
    owed: Floats, alpha: Floats, l2: Floats, spectrum: Floats, decrements: NDArray[np.float64]
) -> float:
    """Of each row about owedᵀ(alpha·G + l2·I)⁻¹owed; the squared norm of what all owe.

    G has this spectrum, and what is owed is taken to lie in its directions as much as they weigh there; where G is
    zero, the penalty is all there is.
    """
    total = 0.0
    kind = owed.dtype.type
    mass = spectrum.sum()
    for k in range(len(owed)):
        norm, share = kind(0), kind(0)
        for j in range(len(spectrum)):
            norm += owed[k, j] * owed[k, j]
            share += spectrum[j] / (alpha[k] * spectrum[j] + l2[k])
        total += norm
        decrements[k] = norm * share / mass if mass > 0 else norm / l2[k]
    return total


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
def count_absent(
    rows: NDArray[np.int64],
    wanted: NDArray[np.int32],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    columns: NDArray[np.int32],
) -> int:
    """How many of the entries (rows[i], wanted[i]) are not there."""
    absent = 0
    for i in range(len(rows)):
        first = starts[rows[i]]
        last = first + counts[rows[i]]
        place = first + np.searchsorted(columns[first:last], wanted[i])
        absent += place == last or columns[place] != wanted[i]
    return absent


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

    All of them must be there (`count_absent`). Its weight until then goes to old_weights[i].
    """
    for i in range(len(rows)):
        first = starts[rows[i]]
        last = first + counts[rows[i]]
        place = first + np.searchsorted(columns[first:last], dropped[i])
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
