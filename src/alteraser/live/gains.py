"""What rows could gain: how much lower the loss could be if they moved.

The decrement of a row with residual r is rᵀA⁻¹r, A being half its Hessian: by how much Newton's step A⁻¹r of that row
alone lowers the loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Side
from alteraser.live.newton_system import Chosen
from alteraser.live.state import LiveState

Rows = NDArray[np.int64]
Floats = NDArray[Any]
# Of a side with more than so many rows, so many are drawn. The sum is then right to a tenth or two; seen on ml-1m.
LOOKED_AT, DRAWN = 512, 96
# Entries of rows that have moved that are followed at most, to tell who is reached: a fraction of a millisecond.
FOLLOWED = 20_000
# Of a side with more rows than this only neighbours of rows that have moved take half steps. To look at so many takes
# some milliseconds.
FEW_ROWS = 16_384
# The share of what all rows of a side could gain that those which move have; a tenth of the rows have most of it.
NEARLY_ALL = 0.98
# Rows whose entries are gathered together where all rows are looked at; it bounds the memory.
ROWS_AT_ONCE = 65_536
TINY = float(np.finfo(np.float64).tiny)


class PossibleGain(NamedTuple):
    """What a request has brought to the rows of a side, as far as it is worth a move, and what they could gain by it.

    `gain` is that of all rows of the side, each by itself, `unmoved` that of those that are not worth a move. Where it
    was too dear to look at all, `rows` is None.
    """

    gain: float
    rows: Rows | None = None
    brought: Floats | None = None
    unmoved: float = 0.0


NOTHING = PossibleGain(0.0)


def possible_gain(state: LiveState[Any], side: Side) -> PossibleGain:
    """What a request has brought to the rows of a side: of all, where that is cheap to know, or estimated."""
    disturbance = state.disturbance
    if not disturbance.reaches(side):
        return NOTHING
    few = len(state.sides[side]) <= FEW_ROWS
    if few and disturbance.n_entries_of_moved(side.other) <= FOLLOWED:
        return worth_moving(state, side, state.sides[side].occupied())
    return PossibleGain(sampled_gain(state, side))


def worth_moving(state: LiveState[Any], side: Side, rows: Rows) -> PossibleGain:
    """Those of some rows that could gain nearly all of what all of them could."""
    brought = state.disturbance.brought_to(side, rows)
    gains = state.decrements(side, rows, brought)
    order = np.argsort(-gains, kind="stable")
    gained = np.cumsum(gains[order])
    total = float(gained[-1]) if len(rows) else 0.0
    n_moved = int(np.searchsorted(gained, NEARLY_ALL * total)) + 1 if total > 0 else 0
    some = np.sort(order[:n_moved])
    return PossibleGain(total, rows[some], brought[some], total - float(gained[:n_moved].max(initial=0)))


def sampled_gain(state: LiveState[Any], side: Side) -> float:
    """About how much lower the loss could be if each row of a side took what a request has brought to it.

    Where rows are many, some are drawn: of those to which something was given directly by how much, of neighbours of
    rows that have moved by how far these did, of the others at equal distances.
    """
    own, disturbance = state.sides[side], state.disturbance
    if len(own) <= LOOKED_AT:
        return float(_gains(state, side, own.occupied()).sum())
    curvature = state.preconditioner(side).mean_curvature
    noted, squares = disturbance.noted(side)
    squares = np.where(own.entries.counts(noted) > 0, squares, 0)
    reached, lengths = disturbance.neighbours(side, most=FOLLOWED)
    beside = np.isin(reached, noted, assume_unique=True, invert=True)
    reached, lengths = reached[beside], lengths[beside]
    rows = np.arange(0, len(own), max(2 * len(own) // DRAWN, 1))
    others = np.setdiff1d(
        rows[own.entries.counts(rows) > 0], np.concatenate([reached, noted]), assume_unique=True
    )
    of_noted, weights_of_noted = _drawn(squares / curvature(own, noted))
    of_reached, weights_of_reached = _drawn(np.square(lengths) / curvature(own, reached))
    weights = (weights_of_noted, weights_of_reached, np.full(len(others), len(own) / len(rows)))
    looked_at = np.concatenate([noted[of_noted], reached[of_reached], others])
    return float(_gains(state, side, looked_at) @ np.concatenate(weights))


def _gains(state: LiveState[Any], side: Side, rows: Rows) -> Floats:
    return state.decrements(side, rows, state.disturbance.brought_to(side, rows))


def _drawn(expected: Floats) -> tuple[Rows, Floats]:
    """Places drawn in proportion to what is expected there, and for how many times its own each one's value stands."""
    if len(expected) <= DRAWN:
        return np.arange(len(expected)), (expected > 0).astype(np.float64)
    bounds = np.cumsum(expected, dtype=np.float64)
    if not bounds[-1] > 0:
        return np.empty(0, np.int64), np.empty(0)
    places = np.searchsorted(bounds, (np.arange(DRAWN) + 0.5) / DRAWN * bounds[-1])
    each, n_times = np.unique(np.minimum(places, len(expected) - 1), return_counts=True)
    return each, n_times * (bounds[-1] / DRAWN) / expected[each]


def decrement_of_all(state: LiveState[Any]) -> float:
    """The decrement of what is still to be removed from all rows, one by one."""
    return look_at_all(state)[0]


def look_at_all(state: LiveState[Any]) -> tuple[float, float]:
    """The decrement of what is still to be removed from all rows, one by one, and its squared norm."""
    decrement, squared_norm = 0.0, 0.0
    for side, each in state.sides.items():
        for rows in _blocks(len(each)):
            residual = state.residual(side, rows)
            decrement += float(state.decrements(side, rows, residual).sum())
            squared_norm += float(np.square(residual, dtype=np.float64).sum())
    return decrement, squared_norm


def decrement_of_kept(state: LiveState[Any]) -> float:
    """The decrement of what rows keep of their residuals, one by one."""
    return sum(
        float(state.decrements(side, rows, each.kept[rows]).sum())
        for side, each in state.sides.items()
        for rows in _blocks(len(each))
    )


def _blocks(n_rows: int) -> list[Rows]:
    return [np.arange(begin, min(begin + ROWS_AT_ONCE, n_rows)) for begin in range(0, n_rows, ROWS_AT_ONCE)]


def all_rows(state: LiveState[Any]) -> Chosen:
    return {side: np.arange(len(each)) for side, each in state.sides.items()}


def occupied_rows(state: LiveState[Any]) -> Chosen:
    """The rows that have entries."""
    return {side: each.occupied() for side, each in state.sides.items()}
