"""The one loop that every request runs through: rows are refined until what the request caused is worth little.

What a request disturbs is a pending residual. Steps of chosen rows remove it; which rows may move is the scope's to say.
They end when the decrement that is left is within the tolerance of the gap that the request opened in the loss. The prior
residual, that of an original short of its optimum and of earlier requests, is no reason to go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from alteraser.data.changes import Change
from alteraser.data.interactions import Interactions, Side
from alteraser.live.decrement import (
    TINY,
    PendingDecrement,
    all_rows,
    decrement_of_all,
    most_affected,
    pending_decrement,
    touched_rows,
)
from alteraser.live.erasure import Drift
from alteraser.live.newton_system import Chosen
from alteraser.live.openings import EmptyDirections
from alteraser.live.scopes import AffectedRows, AllRows, ForgettingRows, Passes, Scope
from alteraser.live.side import LossChange
from alteraser.live.state import SIDES, LiveState, QuadraticModel
from alteraser.live.steps import FORCING, Steps
from alteraser.sweep.sweep import OutOfTime, never

Watch = Callable[[int, float], None]
"""Called after each step with how many are done, and how much lower the loss is than before the first."""
MOST_COUPLED = 20.0  # times the rows' own decrements: a step that tells more is taken for an outlier
SLOW = 0.25  # of what was left: after a step that gained less, touched rows move together
MANY = 0.15  # of all entries: where the chosen rows have more, all rows cost little more; tuned on kuairec-binary
ADMITTED = 0.25  # of the prior residual: with more, rows beyond the request's own would be trained on
# The estimate of what is left is right on average; of single requests on ml-100k and amazon-14core 5.7 times was left.
UNSURE = 6.0
REST = 0.5  # of the gap that emptying rows leaves: what may be left of it at most, however much they closed


class Goal(NamedTuple):
    """How much may be left of the gap that a request opened, some of which was closed by emptying rows."""

    tolerance: float
    emptied: float = 0.0

    def left_of(self, rest: float) -> float:
        """How much may be estimated to be left, where so much of the rest was gained or is estimated to be left."""
        return min(self.tolerance / UNSURE * (self.emptied + rest), REST * rest)


@dataclass(frozen=True, eq=False)
class Refined:
    """How each step changed the loss, about how much is left to gain, and whether the goal was met."""

    changes: list[LossChange]
    left: float
    rows_visited: int
    n_passes: int
    converged: bool


@dataclass(eq=False)
class _Progress:
    """What the loop has done so far."""

    changes: list[LossChange] = field(default_factory=list)
    steps: int = 0
    rows_visited: int = 0
    n_passes: int = 0
    falls_of_passes: list[float] = field(
        default_factory=list
    )  # of the passes that came last, one after another

    def begin(self, change: LossChange, n_rows: int) -> None:
        """The rows of the request itself come before the first step."""
        self.changes.append(change)
        self.rows_visited += n_rows

    def add(self, change: LossChange, n_rows: int, *, is_pass: bool) -> None:
        self.changes.append(change)
        self.steps += 1
        self.rows_visited += n_rows
        self.n_passes += is_pass
        self.falls_of_passes = [*self.falls_of_passes, -change.pending] if is_pass else []

    @property
    def gained(self) -> float:
        return -sum(change.pending for change in self.changes)

    @property
    def still_to_come(self) -> float:
        """What passes will still gain if each gains the share of the one before that the last did."""
        falls = self.falls_of_passes
        if len(falls) < 2 or not 0 < falls[-1] < falls[-2]:
            return 0.0
        return falls[-1] ** 2 / (falls[-2] - falls[-1])


class Refiner(Generic[QuadraticModel]):
    """A state, and what its refinement has learned from request to request."""

    def __init__(self, state: LiveState[QuadraticModel]) -> None:
        self.state = state
        self.steps, self.directions = Steps(state), EmptyDirections(state)
        # How many times their own decrements, summed, rows gain together.
        self._coupling = 1.0
        # Of deferred residuals: about how much lower the loss could be, and the squared norm that this was said of.
        self._deferred_gap, self._deferred_norm = 0.0, 0.0
        if state.gradient_norm() > 0:
            self._deferred_gap, self._deferred_norm = decrement_of_all(state)

    def drift(self) -> Drift:
        """How far the model is from where it should be, the gap by what requests last left for theirs."""
        norm = self.state.gradient_norm()
        return Drift(norm, self._deferred_gap * norm**2 / 4 / max(self._deferred_norm, TINY))

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
        remain: Interactions | None = None,
        out_of_time: OutOfTime = never,
        watch: Watch | None = None,
    ) -> Refined:
        """Refines rows until no more than the scope's tolerance is left of the gap that the change opened.

        `emptied` is what rows that became zero have lowered the loss by: part of that gap, though nothing is left to do
        for it. Of the rest no more than half is left, so that it is worked on however large that part is. The estimate
        of what is left has to be a sixth of that, as it may be too low by some times. `remain`, the data after the
        change, serves the step for shared parameters.
        """
        rows = {side: self._occupied(side, np.unique(change.rows(side))) for side in self.state.sides}
        goal = Goal(scope.tolerance, emptied)
        moves: _Moves = _Joint(self, rows[Side.USERS], scope)
        if isinstance(scope, ForgettingRows | Passes):
            moves = _Alternating(self, rows, scope, remain)
        refined = self._loop(moves, goal, scope.max_steps, out_of_time, watch)
        self.directions.clear_notes()
        self.state.defer()
        return refined

    def refine_all(self, *, tolerance: float, out_of_time: OutOfTime = never) -> Refined:
        """Refines what earlier requests have left in all rows, until no more than `tolerance` of it is left."""
        self.make_all_pending()
        nobody = np.empty(0, np.int64)
        moves = _Joint(self, nobody, AffectedRows(tolerance), admitted=1.0)
        refined = self._loop(moves, Goal(tolerance), moves.scope.max_steps, out_of_time, None)
        self.state.defer()
        return refined

    def make_all_pending(self) -> None:
        """Turns what earlier requests have left into pending residuals."""
        self.state.make_all_pending()
        self._deferred_gap, self._deferred_norm = 0.0, 0.0

    def solve_shared(self, remain: Interactions) -> LossChange:
        """Puts the shared parameters at their best, if the loss falls; what is pending of the rows stays pending."""
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
        fall = before.loss(remain) - after.loss(remain)
        return LossChange(-fall, -fall)

    def _occupied(self, side: Side, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[self.state.sides[side].entries.counts(rows) > 0]

    def _loop(
        self, moves: _Moves, goal: Goal, max_steps: int, out_of_time: OutOfTime, watch: Watch | None
    ) -> Refined:
        done = _Progress()
        moves.first(done)
        decrement_before, left_before = -math.inf, math.inf
        while True:
            found = pending_decrement(self.state)
            if decrement_before > found.total:
                # What rows could gain one by one falls short of what they gain together; the last step tells how far.
                told = -done.changes[-1].pending / (decrement_before - found.total)
                self._coupling = min(max(told, 1.0), MOST_COUPLED)
            left = max(self._coupling * found.total, done.still_to_come)
            allowed = goal.left_of(left + done.gained)
            # One step there is in any case: where those who forget stand depends on their items.
            met = left <= allowed and done.steps > 0
            stuck = done.steps > 0 and not done.changes[-1].pending < 0
            if met or stuck or done.steps >= max_steps or out_of_time():
                self._deferred_gap += left
                self._deferred_norm += found.squared_norm
                moves.last(done)
                return Refined(done.changes, left, done.rows_visited, done.n_passes, left <= allowed)
            slow = left_before < math.inf and -done.changes[-1].pending < SLOW * left_before
            moves.next(done, found, allowed, spare=allowed / self._coupling / 4, slow=slow)
            decrement_before, left_before = found.total, left
            if watch is not None:
                watch(done.steps, goal.emptied - sum(change.whole for change in done.changes))


class _Moves(Protocol):
    """What a scope does first, in each step, and last."""

    def first(self, done: _Progress) -> None: ...

    def next(
        self, done: _Progress, found: PendingDecrement, allowed: float, *, spare: float, slow: bool
    ) -> None:
        """One more step; about `allowed` may be left of the gap, and of the rows' own decrements `spare`."""
        ...

    def last(self, done: _Progress) -> None: ...


class _Joint:
    """Newton steps of chosen rows of both sides together.

    The users of the request come first and alone, and once more after steps of many rows, which end early.
    """

    def __init__(
        self, refiner: Refiner[Any], users: NDArray[np.int64], scope: Scope, *, admitted: float = ADMITTED
    ) -> None:
        self._state, self._steps, self._directions = refiner.state, refiner.steps, refiner.directions
        self._users, self.scope, self._admitted = users, scope, admitted

    def first(self, done: _Progress) -> None:
        change = self._steps.solve(Side.USERS, self._users)
        done.begin(change + self._directions.open_for(self._users), len(self._users))

    def next(
        self, done: _Progress, found: PendingDecrement, allowed: float, *, spare: float, slow: bool
    ) -> None:
        every = isinstance(self.scope, AllRows)
        is_first = done.steps == 0 and len(self._users) > 0 and not every
        chosen = all_rows(self._state) if every else self._choose(found, spare, is_first, slow)
        if is_first:  # of the rows that the request is about: all of their prior residual may be admitted
            change = self._steps.step(chosen, beside=touched_rows(self._state))
        else:
            change = self._steps.step(chosen, forcing=2 * FORCING, enough=allowed / 4, most=self._admitted)
        n_rows = sum(len(rows) for rows in chosen.values())
        done.add(change, n_rows, is_pass=n_rows == sum(map(len, self._state.sides.values())))

    def last(self, done: _Progress) -> None:
        if done.steps > 1:
            done.changes[-1] += self._steps.solve(Side.USERS, self._users, admit=False)

    def _choose(self, found: PendingDecrement, spare: float, is_first: bool, slow: bool) -> Chosen:
        """The rows of a step: the most affected, all that were touched, or all there are.

        In a first step the users who forget go where they would be if all their items moved; most of these are not
        worth a move. After a step that gained little of what was left, the gap is that of many rows together; where
        many are chosen, the others cost little more; and where rows have it that were not touched, all must move.
        """
        chosen = most_affected(self._state, found, spare=min(spare, found.total / 3))
        if is_first:
            chosen[Side.USERS] = np.union1d(chosen[Side.USERS], self._users)
            return chosen
        sides = self._state.sides
        n_entries = sum(int(sides[side].entries.counts(rows).sum()) for side, rows in chosen.items())
        if n_entries > MANY * 2 * self._state.n_entries or found.untouched > max(spare, found.total / 3):
            return all_rows(self._state)
        return touched_rows(self._state) if slow else chosen


class _Alternating:
    """Passes: rows are solved while the other side is fixed, users first, then items; then shared parameters if asked."""

    def __init__(
        self, refiner: Refiner[Any], rows: Chosen, scope: ForgettingRows | Passes, remain: Interactions | None
    ) -> None:
        self._refiner, self._rows, self._scope, self._remain = refiner, rows, scope, remain

    def first(self, done: _Progress) -> None:
        change = self._pass(self._rows)
        if (
            not self._scope.solve_shared
        ):  # which would share out among the others what h has in an empty dimension
            change += self._refiner.directions.open_for(self._rows[Side.USERS])
        done.begin(change, sum(map(len, self._rows.values())))

    def next(
        self, done: _Progress, found: PendingDecrement, allowed: float, *, spare: float, slow: bool
    ) -> None:
        del found, allowed, spare, slow
        state = self._refiner.state
        rows = {side: np.flatnonzero(each.entries.all_counts()) for side, each in state.sides.items()}
        done.add(self._pass(rows), sum(map(len, rows.values())), is_pass=True)

    def last(self, done: _Progress) -> None:
        del done

    def _pass(self, rows: Chosen) -> LossChange:
        change = LossChange()
        for side in SIDES:
            change += self._refiner.steps.solve(
                side, rows[side], solver=self._scope.solver, block_rows=self._scope.block_rows
            )
        return change + self._refiner.solve_shared(self._remain) if self._scope.solve_shared else change
