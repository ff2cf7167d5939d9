"""What the pending residual is worth: how much lower the loss could be, and which rows could bring it there.

The decrement of a row with residual r is rᵀA⁻¹r, A being half its Hessian: by how much Newton's step A⁻¹r of that row
alone lowers the loss.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Side
from alteraser.live.newton_system import Chosen
from alteraser.live.state import SIDES, LiveState

# Rows whose decrements are computed, at least, to tell that of all touched rows: their mean is then right to a tenth or
# so.
SAMPLE = 128
# Where touched rows have less than this share of the squared norm, some of the others are looked at, too. Set by hand.
REPRESENTATIVE = 0.1
# Entries that could be visited in the time that a row takes besides its own; measured with 64 dimensions.
ROW_COST = 50
# Rows whose entries are gathered together where all rows are looked at; it bounds the memory.
ROWS_AT_ONCE = 65_536
TINY = float(np.finfo(np.float64).tiny)


class PendingDecrement(NamedTuple):
    """The decrements of pending residuals, each row taken by itself.

    `total` is their sum over all rows, `untouched` the part of rows that nothing was written to, `squared_norm` that of
    the residuals themselves; `seen` has the decrements of the rows that were looked at.
    """

    total: float
    squared_norm: float
    untouched: float
    seen: dict[Side, NDArray[np.float64]]


def pending_decrement(state: LiveState[Any]) -> PendingDecrement:
    """The decrement of the pending residuals of all rows, without a look at most of them.

    The norm is exact. What it is worth is told by the rows that were touched, or by some of them where they are many;
    where these have little of it, by some of the others, which it reaches through Ĝ.
    """
    squared = {side: each.pending_squared_norm(state.sides[side.other]) for side, each in state.sides.items()}
    total, all_squared, untouched, seen = 0.0, sum(squared.values()), 0.0, {}
    for side, each in state.sides.items():
        touched, own = each.residuals.touched, squared[side]
        some = touched[:: max(len(touched) // SAMPLE, 1)]
        seen[side], squared_norm_seen = state.decrements(side, some, state.pending_residual(side, some))
        rate = float(seen[side].sum()) / max(squared_norm_seen, TINY)
        known = min(squared_norm_seen * len(touched) / max(len(some), 1), own)
        if known >= REPRESENTATIVE * own or own <= REPRESENTATIVE * all_squared:
            total += own * rate
            continue
        others = each.residuals.untouched
        others = others[:: max(len(others) // SAMPLE, 1)]
        decrements, squared_norm_of_others = state.decrements(
            side, others, state.pending_residual(side, others)
        )
        beyond = (own - known) * float(decrements.sum()) / max(squared_norm_of_others, TINY)
        total, untouched = total + known * rate + beyond, untouched + beyond
    return PendingDecrement(total, all_squared, untouched, seen)


def decrement_of_all(state: LiveState[Any]) -> tuple[float, float]:
    """The decrement of pending and deferred residuals of all rows, one by one, and their squared norm."""
    total, squared_norm = 0.0, 0.0
    for side, each in state.sides.items():
        rows = np.arange(len(each))
        decrements, part = state.decrements(side, rows, state.residual(side, rows))
        total, squared_norm = total + float(decrements.sum()), squared_norm + part
    return total, squared_norm


def decrement_of_original(state: LiveState[Any]) -> float:
    """The decrement of what the original was short of its optimum, in all rows, one by one."""
    total = 0.0
    for side, each in state.sides.items():
        for begin in range(0, len(each), ROWS_AT_ONCE):
            rows = np.arange(begin, min(begin + ROWS_AT_ONCE, len(each)))
            own = state.whole_residual(side, rows) - state.residual(side, rows)
            total += float(state.decrements(side, rows, own)[0].sum())
    return total


def touched_rows(state: LiveState[Any]) -> Chosen:
    return {side: np.sort(each.residuals.touched) for side, each in state.sides.items()}


def all_rows(state: LiveState[Any]) -> Chosen:
    return {side: np.arange(len(each)) for side, each in state.sides.items()}


def visiting_cost_of_all(state: LiveState[Any]) -> int:
    """What it costs to visit all rows, in entries; no row is looked at for it."""
    return 2 * state.n_entries + ROW_COST * sum(map(len, state.sides.values()))


def visiting_cost(state: LiveState[Any], chosen: Chosen) -> int:
    """What it costs to visit some rows, in entries."""
    return sum(
        int(state.sides[side].entries.counts(rows).sum()) + ROW_COST * len(rows)
        for side, rows in chosen.items()
    )


def most_affected(
    state: LiveState[Any], found: PendingDecrement, *, spare: float, most: float = math.inf
) -> Chosen:
    """Those touched rows that have the largest decrements for what they cost; the others together have `spare` at most.

    They are fewer where they would cost more than `most`. Decrements are looked up, unless all are among those that
    were seen.
    """
    touched = {side: each.residuals.touched for side, each in state.sides.items()}
    decrements = np.concatenate(
        [
            found.seen[side]
            if len(found.seen[side]) == len(rows)
            else state.decrements(side, rows, state.pending_residual(side, rows))[0]
            for side, rows in touched.items()
        ]
    )
    cost = np.concatenate([state.sides[side].entries.counts(touched[side]) for side in SIDES]) + ROW_COST
    order = np.argsort(-decrements / cost)
    of_those_before = np.concatenate([[0.0], np.cumsum(decrements[order])])
    n_wanted = int(np.searchsorted(of_those_before, of_those_before[-1] - spare))
    n_affordable = int(np.searchsorted(np.cumsum(cost[order]), most, side="right"))
    n = min(n_wanted, n_affordable)
    keep = np.zeros(len(decrements), dtype=np.bool_)
    keep[order[:n]] = True
    n_users = len(touched[Side.USERS])
    kept = {Side.USERS: keep[:n_users], Side.ITEMS: keep[n_users:]}
    return {side: np.sort(touched[side][kept[side]]) for side in SIDES}
