"""The one loop that every request runs through: rows are refined until what the request caused is worth little.

What a request disturbs is a pending residual. Steps of chosen rows remove it; which rows may move is the scope's to
say. They end when the decrement that is left is within the tolerance of the gap that the request opened in the loss.
The prior residual, that of an original short of its optimum and of earlier requests, is no reason to go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alteraser.data.changes import Change
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.live.decrement import (
    TINY,
    all_rows,
    decrement_of_all,
    decrement_of_original,
    pending_decrement,
    visiting_cost_of_all,
)
from alteraser.live.erasure import Drift
from alteraser.live.openings import EmptyDirections
from alteraser.live.scopes import AffectedRows, AllRows, AutoRows, ForgettingRows, Passes, Scope
from alteraser.live.side import LossChange
from alteraser.live.state import LiveState, QuadraticModel
from alteraser.live.steps import Steps
from alteraser.live.strategies import AlternatingPasses, Done, JointSteps, Plan, Strategy
from alteraser.sweep.sweep import OutOfTime, never

Watch = Callable[[int, float], None]
"""Called after each step with how many are done, and how much lower the loss is than before the first."""
# How many times the rows' own decrements a step of theirs together is believed to gain at most. Set by hand: more was
# seen only where a step followed something else than the request.
MOST_COUPLED = 20.0
# The part that the prior residual may have in a change of the loss before it is asked whether a step follows it. Set by
# hand; at an optimum it has none.
PRIOR_PART = 0.1
# Steps lead away once the estimate of what is left exceeds its lowest so far by this factor. Set by hand, with a look
# at originals of three passes on ml-1m, where a pair then trained all rows for seconds.
RISEN = 2.0
# The estimate of what is left is right on average. For single requests on ml-100k and amazon-14core the truth was up to
# 5.7 times the estimate.
UNSURE = 6.0
# The reported drift is this many times the estimate, so that it is hardly ever too low. In nineteen of twenty requests
# of all kinds on ml-1m, amazon-14core and kuairec-binary the truth was no more (docs/kinds.md).
SAFE = 5.0
# The share of the gap beyond emptied rows that may be left, however much these have closed: most of the work is done.
REST = 0.4
# While it is cheap, steps go on to this share of what may be left; cheap is what costs no more than so many entries, a
# few milliseconds, and this share of all rows together. Once no more is left than may be, a single step takes what the
# budget still has, if that is at least SPARE_BUDGET of it: several small ones would take longer than they are worth.
# Set by hand, with a look at ml-1m, amazon-14core and kuairec-binary.
CHEAP_GOAL, CHEAP_ENTRIES, CHEAP_SHARE, SPARE_BUDGET = 0.3, 60_000, 0.15, 0.3


class Goal(NamedTuple):
    """How much may be left of the gap that a request opened, some of which was closed by emptying rows.

    However large the gap was, no more than `most`.
    """

    tolerance: float
    emptied: float = 0.0
    most: float = math.inf

    def left_of(self, rest: float) -> float:
        """How much may be estimated to be left, where so much of the rest was gained or is estimated to be left."""
        return min(self.tolerance / UNSURE * (self.emptied + rest), REST * rest, self.most)


@dataclass(frozen=True, eq=False)
class Refined:
    """How each step changed the loss, about how much is left to gain, and whether the goal was met.

    `would_train` says that steps ended because going on would have been training.
    """

    changes: list[LossChange]
    left: float
    rows_visited: int
    n_passes: int
    converged: bool
    would_train: bool = False


class Refiner(Generic[QuadraticModel]):
    """A state, and what its refinement has learned from request to request."""

    def __init__(self, state: LiveState[QuadraticModel]) -> None:
        self.state = state
        self.steps, self.directions = Steps(state), EmptyDirections(state)
        # How many times their own decrements, summed, rows gain together.
        self._coupling = 1.0
        # Of deferred residuals: about how much lower the loss could be, and the squared norm that this was said of.
        self._deferred_gap, self._deferred_squared_norm = 0.0, 0.0
        self._own_decrement: float | None = None
        if state.gradient_norm() > 0:
            self._deferred_gap, self._deferred_squared_norm = decrement_of_all(state)

    @property
    def own_decrement(self) -> float:
        """The decrement of the original's own residual, row by row; computed once."""
        if self._own_decrement is None:
            self._own_decrement = decrement_of_original(self.state)
        return self._own_decrement

    def drift(self) -> Drift:
        """How far the model is from where it should be.

        The gap is the squared norm of the residuals times what a unit of it was worth in what requests have left
        since the last clean-up, on the safe side; the gradient is twice the residual.
        """
        norm = self.state.gradient_norm()
        estimate = self._deferred_gap * norm**2 / 4 / max(self._deferred_squared_norm, TINY)
        return Drift(norm, SAFE * estimate)

    def grow(self, n_users: int, n_items: int) -> None:
        """Appends empty rows until there are so many users and items."""
        self.state.grow(n_users, n_items)

    def apply(self, change: Change) -> float:
        """Applies a change; returns by how much the loss falls as emptied rows become zero."""
        self.directions.note(change.users)
        return self.state.apply(change)

    def refine(
        self,
        change: Change,
        scope: Scope,
        *,
        emptied: float = 0.0,
        most_left: float = math.inf,
        remain: Interactions | None = None,
        out_of_time: OutOfTime = never,
        watch: Watch | None = None,
    ) -> Refined:
        """Refines rows until no more than the scope's tolerance is left of the gap that the change opened.

        `emptied` is what rows that became zero have lowered the loss by: part of that gap, though nothing is left to
        do for it. Of the rest at most a share of REST may be left, so that it is worked on however large that part is.
        As the estimate of what is left may be several times too low, it has to be within a sixth of the tolerance, and
        within `most_left`, however large the gap was. `remain`, the data after the change, serves the step for shared
        parameters.
        """
        rows = {side: self.occupied(side, np.unique(change.rows(side))) for side in self.state.sides}
        goal = Goal(scope.tolerance, emptied, most_left)
        strategy: Strategy
        match scope:
            case ForgettingRows() | Passes():
                strategy = AlternatingPasses(self, rows, scope, remain)
            case AutoRows() | AffectedRows() | AllRows():
                strategy = JointSteps(self, rows[Side.USERS], scope, exact=self._has_new_users(change))
            case _:
                raise SettingError(
                    f"A scope {type(scope).__name__} came; AutoRows, AffectedRows, AllRows, ForgettingRows or Passes "
                    f"is wanted."
                )
        with self._deferring():
            return self._loop(strategy, goal, scope.max_steps, out_of_time, watch)

    def refine_all(self, *, tolerance: float, out_of_time: OutOfTime = never) -> Refined:
        """Refines what earlier requests have left in all rows, until no more than `tolerance` of it is left."""
        self.make_all_pending()
        nobody = np.empty(0, np.int64)
        strategy = JointSteps(self, nobody, AutoRows(tolerance), admitted=1.0)
        limit = strategy.scope.max_steps
        with self._deferring():
            return self._loop(strategy, Goal(tolerance), limit, out_of_time, None)

    @contextmanager
    def _deferring(self) -> Iterator[None]:
        """Defers what is pending afterwards, also where it is broken off: it must not be the next request's."""
        try:
            yield
        except BaseException:
            self.state.defer()
            self._deferred_gap, self._deferred_squared_norm = decrement_of_all(self.state)
            raise
        finally:
            self.directions.clear_notes()
            self.state.defer()

    def make_all_pending(self) -> None:
        """Turns what earlier requests have left into pending residuals."""
        self.state.make_all_pending()
        self._deferred_gap, self._deferred_squared_norm = 0.0, 0.0

    def solve_shared(self, remain: Interactions) -> LossChange:
        """Puts the shared parameters at their best, if the model finds better ones; what is pending stays pending.

        The state is built anew, and with it what was deferred becomes part of the original's own residual: this
        serves one batch, not a live model.
        """
        before = self.state.model
        after = before.solve_shared(remain)
        if after is before:
            return LossChange()
        every = all_rows(self.state)
        prior = {side: self.state.prior_residual(side, rows) for side, rows in every.items()}
        self.state = LiveState(after, remain)
        for side, rows in every.items():
            pending = self.state.whole_residual(side, rows) - prior[side]
            self.state.sides[side].add_pending(rows, pending)
        self.steps, self.directions = Steps(self.state), EmptyDirections(self.state)
        self._own_decrement = None
        fall = before.loss(remain) - after.loss(remain)
        return LossChange(-fall, -fall)

    def _continues_training(self, change: LossChange, left: float, *, risen: bool) -> bool:
        """Whether a step followed something other than the request: to go on would be training.

        It gained far more than was estimated to be left, met a direction in which the loss is not convex, or left more
        to be done than there was; the prior residual had its part in that; and it is not what earlier requests have
        left, but what the original was short of its optimum.
        """
        gained = -change.pending
        beyond = gained > UNSURE * left or change.indefinite or risen
        if not beyond or change.of_prior <= PRIOR_PART * gained:
            return False
        return self.own_decrement > PRIOR_PART * gained

    def _has_new_users(self, change: Change) -> bool:
        """Whether all that a user has came with the change."""
        if change.before.present.all():
            return False
        users, n_new = np.unique(change.users[~change.before.present], return_counts=True)
        return bool((self.state.sides[Side.USERS].entries.counts(users) == n_new).any())

    def occupied(self, side: Side, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows that have entries."""
        return rows[self.state.sides[side].entries.counts(rows) > 0]

    def _loop(
        self,
        strategy: Strategy,
        goal: Goal,
        max_steps: int,
        out_of_time: OutOfTime,
        watch: Watch | None,
    ) -> Refined:
        done = Done()
        strategy.first(done)
        cheap = min(CHEAP_ENTRIES, CHEAP_SHARE * visiting_cost_of_all(self.state))
        decrement_before, left_before, least_left, extra = -math.inf, math.inf, math.inf, False
        while True:
            found = pending_decrement(self.state)
            if decrement_before > found.total:
                # What rows could gain one by one falls short of what they gain together; the last step tells how far,
                # unless few rows have moved: most of what they had has then gone to their neighbours.
                told = -done.changes[-1].pending / (decrement_before - found.total)
                self._coupling = min(max(told, 1.0), MOST_COUPLED)
            left = max(self._coupling * found.total, done.still_to_come)
            allowed = goal.left_of(left + done.gained)
            # What a step may cost once the goal is met: what is left of the budget for cheap ones.
            most = cheap - sum(done.costs) if left <= allowed and done.steps > 0 else math.inf
            in_budget = sum(done.costs) < (cheap if most == math.inf else (1 - SPARE_BUDGET) * cheap)
            wanted = CHEAP_GOAL * allowed if in_budget and not extra else allowed
            # At least one step is made, if any is allowed: where the forgetting users belong depends on their items.
            met = left <= wanted and done.steps > 0
            stuck = done.steps > 0 and not done.changes[-1].pending < 0
            risen, least_left = left > RISEN * least_left, min(left, least_left)
            would_train = done.steps > 0 and self._continues_training(
                done.changes[-1], left_before, risen=risen
            )
            if met or stuck or would_train or done.steps >= max_steps or out_of_time():
                self._deferred_gap += left
                self._deferred_squared_norm += found.squared_norm
                strategy.last(done)
                converged = left <= allowed and not would_train
                return Refined(done.changes, left, done.rows_visited, done.n_passes, converged, would_train)
            extra = most < math.inf
            strategy.next(done, found, Plan(left, wanted, most, self._coupling))
            decrement_before, left_before = found.total if most == math.inf else -math.inf, left
            if watch is not None:
                watch(done.steps, goal.emptied - sum(change.whole for change in done.changes))
