"""The one loop that every request runs through: rows are refined until what the request caused is worth little.

What a request changes gives rows residuals. Steps of chosen rows remove them; which rows may move is the scope's to
say. They end when what is left to gain is within the tolerance of the gap that the request opened in the loss. What an
original was short of its optimum is kept, and what earlier requests have left elsewhere is no reason to go on.
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
from alteraser.live.disturbance import NOBODY
from alteraser.live.erasure import Drift
from alteraser.live.gains import decrement_of_kept, look_at_all
from alteraser.live.openings import EmptyDirections
from alteraser.live.scopes import AffectedRows, AllRows, AutoRows, ForgettingRows, Passes, Scope
from alteraser.live.side import LossChange
from alteraser.live.state import LiveState, QuadraticModel
from alteraser.live.steps import Steps
from alteraser.live.strategies import COUPLED, AlternatingPasses, Done, JointSteps, Strategy
from alteraser.sweep.sweep import OutOfTime, never

Watch = Callable[[int, float], None]
"""Called after each step with how many are done, and how much lower the loss is than before the first."""
# The part that what rows keep may have in a change of the loss before it is asked whether a step follows it. Set by
# hand; at an optimum it has none.
KEPT_PART = 0.1
# An original is far from its optimum if rows could lower the loss by more than this share of what all interactions
# weigh. On ml-1m, amazon-14core and kuairec-binary it is 4e-7 at most of what `train` leaves, and 4e-4 at least of what
# a few passes or AdamW do.
FAR = 1e-5
# Steps lead away once the estimate of what is left exceeds its lowest so far by this factor. Set by hand, with a look
# at originals of three passes on ml-1m, where a pair then trained all rows for seconds.
RISEN = 2.0
# Far from an optimum steps end where two of them leave more than this share of what was left before. Set by hand, with
# a look at originals of three passes on ml-1m and amazon-14core, whose alternating steps go on and on in training.
STALLED = 0.7
# The estimate of what is left is right on average. For single requests on ml-100k and amazon-14core the truth was up to
# 5.7 times the estimate.
UNSURE = 6.0
# The reported drift is this many times the estimate, so that it is hardly ever too low. In nineteen of twenty requests
# of all kinds on ml-1m, amazon-14core and kuairec-binary the truth was no more (docs/kinds.md).
SAFE = 3.5
# The share of the gap beyond emptied rows that may be left, however much these have closed: most of the work is done.
REST = 0.4


class Goal(NamedTuple):
    """How much may be left of the gap that a request opened, some of which was closed by emptying rows.

    However large the gap was, no more than `most`.
    """

    tolerance: float
    emptied: float = 0.0
    most: float = math.inf

    def left_of(self, rest: float) -> float:
        """How much may be estimated to be left, where so much of the rest was gained or is estimated to be left."""
        rest = max(rest, 0.0)  # rounding errors
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

    def __init__(self, state: LiveState[QuadraticModel], *, at_rest: bool = True) -> None:
        """`at_rest` says that rows have nothing to be removed yet; else it is looked at."""
        self.state = state
        self.steps, self.directions = Steps(state), EmptyDirections(state)
        # About how much lower the loss could be by what requests have left.
        self._deferred = 0.0
        self._decrement_of_kept: float | None = None
        if not at_rest:
            self.look()

    @property
    def decrement_of_kept(self) -> float:
        """The decrement of what rows keep of the original's residual, row by row; computed once."""
        if self._decrement_of_kept is None:
            self._decrement_of_kept = decrement_of_kept(self.state)
        return self._decrement_of_kept

    @property
    def is_far(self) -> bool:
        """Whether the original was far from an optimum, where the loss of both sides together is not convex."""
        return self.decrement_of_kept > FAR * self.state.total_weight

    @property
    def estimated_gap(self) -> float:
        """About how much lower the loss could be by what requests have left, on the safe side; costs nothing."""
        return SAFE * self._deferred

    def look(self) -> Drift:
        """Looks at all rows, and takes what they could gain now for what requests have left."""
        decrement, squared_norm = look_at_all(self.state)
        self._deferred = COUPLED * decrement
        return Drift(2 * math.sqrt(squared_norm), self.estimated_gap)

    def drift(self) -> Drift:
        """How far the model is from where it should be: all rows are looked at, and nothing changes.

        The gradient is exact. The gap is the larger of what rows could gain by what requests were estimated to have
        left and by what they have now.
        """
        decrement, squared_norm = look_at_all(self.state)
        return Drift(2 * math.sqrt(squared_norm), SAFE * max(COUPLED * decrement, self._deferred))

    def grow(self, n_users: int, n_items: int) -> None:
        """Appends empty rows until there are so many users and items."""
        self.state.grow(n_users, n_items)

    def apply(self, change: Change) -> float:
        """Applies a change; returns by how much the loss falls as emptied rows become zero."""
        self.directions.note(change.users)
        try:
            return self.state.apply(change)
        except BaseException:
            self._let_go()
            raise

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
        with self._request():
            return self._loop(strategy, goal, scope.max_steps, out_of_time, watch)

    def refine_all(self, *, tolerance: float, out_of_time: OutOfTime = never) -> Refined:
        """Refines what earlier requests have left in all rows, until no more than `tolerance` of it is left."""
        self.state.renew()
        self._deferred = 0.0
        scope = AllRows(tolerance)
        strategy = JointSteps(self, NOBODY, scope, given_up=1.0)
        with self._request():
            return self._loop(strategy, Goal(tolerance), scope.max_steps, out_of_time, None)

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Lets go of what is known of the request afterwards, also where it is broken off."""
        try:
            yield
        except BaseException:
            self.look()
            raise
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Nothing of a request is kept when it is over."""
        self.directions.clear_notes()
        self.state.disturbance.clear()

    def solve_shared(self, remain: Interactions) -> LossChange:
        """Puts the shared parameters at their best, if the model finds better ones; rows keep what they kept.

        The state is built anew: this serves one batch, not a live model.
        """
        before = self.state.model
        after = before.solve_shared(remain)
        if after is before:
            return LossChange()
        kept = {side: each.kept for side, each in self.state.sides.items()}
        self.state = LiveState(after, remain, training_gap=0.0)
        for side, each in self.state.sides.items():
            each.kept = kept[side]
        self.steps, self.directions = Steps(self.state), EmptyDirections(self.state)
        fall = before.loss(remain) - after.loss(remain)
        return LossChange(-fall, -fall)

    def _stalls(self, left: float, lefts: list[float]) -> bool:
        """Whether two steps, one for each side, have brought little far from an optimum: none that follows will."""
        return self.is_far and len(lefts) > 1 and left > STALLED * lefts[-2]

    def _continues_training(self, change: LossChange, left: float, *, risen: bool) -> bool:
        """Whether a step followed something other than the request: to go on would be training.

        It gained far more than was estimated to be left, met a direction in which the loss is not convex, or left more
        to be done than there was; and what rows keep had its part in that.
        """
        gained = -change.pending
        beyond = gained > UNSURE * left or change.indefinite or risen
        if not beyond or change.of_kept <= KEPT_PART * gained:
            return False
        return self.decrement_of_kept > KEPT_PART * gained

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
        lefts: list[float] = []  # before each step
        while True:
            left = strategy.left(done)
            allowed = goal.left_of(left + done.gained)
            let_go = 0.0 if strategy.sees_all else done.let_go
            # At least one step is made, if any is allowed: where the forgetting users belong depends on their items.
            enough = left <= allowed and left + let_go <= goal.most and (done.steps > 0 or left == 0)
            met = enough and not strategy.is_cheap(done, left, allowed)
            stuck = done.steps > 0 and not done.changes[-1].pending < 0
            would_train = self._stalls(left, lefts) or (
                done.steps > 0
                and self._continues_training(done.changes[-1], lefts[-1], risen=left > RISEN * min(lefts))
            )
            if met or stuck or would_train or done.steps >= max_steps or out_of_time():
                self._deferred = left if strategy.sees_all else self._deferred + left + done.let_go
                strategy.last(done)
                converged = left <= allowed and not would_train
                return Refined(done.changes, left, done.rows_visited, done.n_passes, converged, would_train)
            n_steps = done.steps
            strategy.next(done, left, allowed, may_let_go=let_go <= goal.most / 2, enough=enough)
            lefts.append(left)
            if watch is not None and done.steps > n_steps:
                watch(done.steps, goal.emptied - sum(change.whole for change in done.changes))
