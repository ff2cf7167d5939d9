"""How the rows of a scope move: half steps and joint Newton steps, or passes over one side after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.live.gains import (
    FEW_ROWS,
    PossibleGain,
    all_rows,
    decrement_of_all,
    occupied_rows,
    possible_gain,
    worth_moving,
)
from alteraser.live.newton_system import Chosen, still_to_come
from alteraser.live.scopes import AffectedRows, AllRows, ForgettingRows, Passes, Scope
from alteraser.live.side import LossChange
from alteraser.live.state import SIDES
from alteraser.live.steps import RowSolver
from alteraser.sweep.accelerate import History

if TYPE_CHECKING:
    from alteraser.live.refine import Refiner

# How many times what rows could gain one by one they gain together: about 2 was left after requests of single users on
# ml-1m (1 to 3) and amazon-14core (2 to 5).
COUPLED = 2.5
# The share of what rows beyond the request's own keep that they may give up; with more they would be trained on. Set
# by hand.
GIVEN_UP = 0.25
# The share of all entries that a user's row problems may take to be solved one by one: a factor takes as long as twenty
# looks at its entries.
SOLVED_FIRST = 0.05
# The share that a half step usually leaves of what there was, and the most that it is believed to leave lately. Seen
# on ml-1m and amazon-14core.
LEFT_BY_A_HALF_STEP, SLOWEST = 0.4, 0.9
# Half steps follow residuals to first order only: they do not lead to less than so small a share of the gap. By hand.
ROUGH = 0.01
# A half step takes as long as so many looks at the entries of its rows, which have to be found first; a step of all
# rows together as so many at all entries: two for each product, and more to end it. Seen on ml-1m, amazon-14core and
# amazon-book-kgat.
LOOKS_OF_A_HALF_STEP, LOOKS_OF_A_STEP = 4, 20
# The share of what a half step gains that its rows could still gain where that is not followed. Seen on ml-1m and
# kuairec-binary: 3 to 6 %.
INEXACT = 0.05
# A half step that looks at so few entries is cheap beside what every request costs. Such steps go on until so small a
# share of what may be left is left, or they leave too much of what there was. Set by hand.
CHEAP, SPARE, POOR = 75_000, 0.25, 0.6
# A step of all rows ends when a product adds less than this share of what it promises, and little of what is wanted.
FORCING = 0.3


@dataclass(eq=False)
class Done:
    """What the loop has done so far."""

    changes: list[LossChange] = field(default_factory=list)
    steps: int = 0
    rows_visited: int = 0
    n_passes: int = 0
    # About how much lower the loss could be by what half steps have let go: no reason to go on, but part of the drift.
    let_go: float = 0.0

    def begin(self, change: LossChange, n_rows: int) -> None:
        """Books the move of the request's own rows, which comes before the first step."""
        self.changes.append(change)
        self.rows_visited += n_rows

    def add(self, change: LossChange, n_rows: int, *, is_pass: bool) -> None:
        self.changes.append(change)
        self.steps += 1
        self.rows_visited += n_rows
        self.n_passes += is_pass

    @property
    def gained(self) -> float:
        return -sum(change.pending for change in self.changes)

    @property
    def still_to_come(self) -> float:
        """What passes will still gain if each gains the share of the one before that the last did."""
        falls = [-change.pending for change in self.changes[-2:]]
        return still_to_come(falls)


class Strategy(Protocol):
    """What a scope does first, in each step, and last."""

    def first(self, done: Done) -> None: ...

    def left(self, done: Done) -> float:
        """About how much lower the loss could still be."""
        ...

    @property
    def sees_all(self) -> bool:
        """Whether what is left includes what earlier requests have left."""
        ...

    def is_cheap(self, done: Done, left: float, allowed: float) -> bool:
        """Whether one more step costs so little that it is made, though no more is left than is allowed."""
        ...

    def next(self, done: Done, left: float, wanted: float, *, may_let_go: bool, enough: bool) -> None:
        """One more step, where so much is left, towards leaving no more than is wanted.

        `may_let_go` says whether there is still room for what half steps let go. Only where `enough` has been done
        already may there be no step: a cheap one that was hoped for cannot be had.
        """
        ...

    def last(self, done: Done) -> None: ...


class JointSteps:
    """Half steps of one side after the other while these look at fewer entries, then Newton's steps of both sides.

    The users of the request come first and alone, and once more at the end. Where next to nothing may be left, there
    are no half steps.
    """

    def __init__(
        self,
        refiner: Refiner[Any],
        users: NDArray[np.int64],
        scope: Scope,
        *,
        given_up: float = GIVEN_UP,
        exact: bool = False,
    ) -> None:
        """With `exact` the users are at their minimum when all is done."""
        self._refiner = refiner
        self._state, self._steps, self._directions = refiner.state, refiner.steps, refiner.directions
        self._users, self.scope, self._given_up, self._exact = users, scope, given_up, exact
        self._together = isinstance(scope, AllRows)
        self._moved: Chosen = {Side.USERS: users, Side.ITEMS: users[:0]}
        self._gains: dict[Side, PossibleGain] = {}
        self._left_of_step = 0.0
        self._lefts: list[float] = []  # before each step and after the last
        self._entries_of_half_step = 0  # those of the rows that the last one has moved
        self._refused = False  # whether a half step would have raised the loss

    def first(self, done: Done) -> None:
        change = LossChange()
        if self._solves_users:
            change = self._steps.solve(Side.USERS, self._users) + self._directions.open_for(self._users)
            self._state.disturbance.drop_noted(Side.USERS)
        done.begin(change, len(self._users))

    def left(self, done: Done) -> float:
        if not self._together:
            self._gains = {side: possible_gain(self._state, side) for side in SIDES}
            left = self._left_of_step + COUPLED * sum(each.gain for each in self._gains.values())
        elif done.steps == 0:
            left = COUPLED * decrement_of_all(self._state)
        else:
            left = self._left_of_step
        self._lefts.append(left)
        return left

    @property
    def sees_all(self) -> bool:
        return self._together

    def is_cheap(self, done: Done, left: float, allowed: float) -> bool:
        if self._together or self._refused or self._refiner.is_far or isinstance(self.scope, AffectedRows):
            return False
        if left <= SPARE * allowed or self._share_left > POOR or not self._is_rough(done, left, allowed):
            return False
        entries = self._entries_of_next()
        return (self._state.n_entries if entries is None else entries) <= CHEAP

    def _entries_of_next(self) -> int | None:
        """The entries of the rows that the next half step moves, where these are known."""
        side = self._next_side()
        rows = self._gains[side].rows
        return None if rows is None else int(self._state.sides[side].entries.counts(rows).sum())

    def _is_rough(self, done: Done, left: float, wanted: float) -> bool:
        """Whether so much may be left that half steps lead there."""
        return wanted > 0 and wanted >= ROUGH * (left + done.gained)

    @property
    def _share_left(self) -> float:
        """The share of what there was that a half step has left lately, or usually leaves."""
        if len(self._lefts) < 3:
            return LEFT_BY_A_HALF_STEP
        return math.sqrt(self._lefts[-1] / self._lefts[-3])

    def _half_steps_pay(self, left: float, wanted: float) -> bool:
        """Whether half steps to what is wanted look at fewer entries than a step of all rows together."""
        share = min(self._share_left, SLOWEST)
        to_come = math.log(max(left / wanted, 1)) / -math.log(share)
        entries = self._entries_of_next()
        looks = LOOKS_OF_A_HALF_STEP * to_come * (self._entries_of_half_step if entries is None else entries)
        return looks <= LOOKS_OF_A_STEP * self._state.n_entries

    def next(self, done: Done, left: float, wanted: float, *, may_let_go: bool, enough: bool) -> None:
        if not self._together:
            half_steps_pay = self._refiner.is_far or (
                may_let_go and self._is_rough(done, left, wanted) and self._half_steps_pay(left, wanted)
            )
            if half_steps_pay and self._half_step(done):
                return
            self._refused = True
            if enough:
                return
            self._together = True
        chosen = self._affected() if isinstance(self.scope, AffectedRows) else all_rows(self._state)
        step = self._steps.step(chosen, forcing=FORCING, enough=wanted / 4, most=self._given_up)
        # What conjugate gradients have left is that of a quadratic; what rows have now tells how far the loss is one.
        self._left_of_step = max(step.left, COUPLED * decrement_of_all(self._state))
        n_rows = sum(map(len, chosen.values()))
        is_pass = n_rows == sum(map(len, self._state.sides.values()))
        done.add(step.change, n_rows, is_pass=is_pass)

    def last(self, done: Done) -> None:
        if done.steps and self._solves_users:
            done.changes[-1] += self._steps.solve(Side.USERS, self._users, give_up=False)

    @property
    def _solves_users(self) -> bool:
        """Whether the users of the request are so few that each is worth being solved by itself, or have to be."""
        n_entries = int(self._state.sides[Side.USERS].entries.counts(self._users).sum())
        few = n_entries <= max(SOLVED_FIRST * self._state.n_entries, 1000)
        return n_entries > 0 and (few or self._exact)

    def _next_side(self) -> Side:
        return max(SIDES, key=lambda side: self._gains[side].gain)

    def _half_step(self, done: Done) -> bool:
        side = self._next_side()
        seen, beyond = self._gains[side], 0.0
        if seen.rows is None or seen.brought is None or isinstance(self.scope, AffectedRows):
            estimate, seen = seen, worth_moving(self._state, side, self._within_reach(side))
            beyond = max(estimate.gain - seen.gain, 0.0)  # of rows that no entry leads to
        if seen.rows is None or seen.brought is None or len(seen.rows) == 0:
            return False
        change = self._steps.half_step(side, seen.rows, seen.brought, most=self._given_up)
        if change is None:
            return False
        self._left_of_step += seen.unmoved
        done.let_go += (COUPLED - 1) * seen.unmoved + COUPLED * beyond
        if len(self._state.disturbance.noted(side)[0]) == 0:
            done.let_go -= COUPLED * INEXACT * change.pending
        self._moved[side] = np.union1d(self._moved[side], seen.rows)
        self._entries_of_half_step = int(self._state.sides[side].entries.counts(seen.rows).sum())
        done.add(change, len(seen.rows), is_pass=False)
        return True

    def _affected(self) -> Chosen:
        """The rows that have moved, and those that their entries lead to."""
        for side in SIDES:
            self._moved[side] = np.union1d(self._moved[side], self._within_reach(side))
        return dict(self._moved)

    def _within_reach(self, side: Side) -> NDArray[np.int64]:
        """The rows of a side that something was brought to: all of them, or those that entries lead to."""
        own = self._state.sides[side]
        if len(own) <= FEW_ROWS and not isinstance(self.scope, AffectedRows):
            return own.occupied()
        disturbance = self._state.disturbance
        rows = np.union1d(disturbance.neighbours(side)[0], disturbance.noted(side)[0])
        return rows[own.entries.counts(rows) > 0]


class AlternatingPasses:
    """Passes that solve rows while the other side is fixed: users, then items, then shared parameters if asked.

    Accelerated passes start from a guess for the items, by Anderson's method, unless the loss would rise.
    """

    def __init__(
        self, refiner: Refiner[Any], rows: Chosen, scope: ForgettingRows | Passes, remain: Interactions | None
    ) -> None:
        self._refiner, self._rows, self._scope, self._remain = refiner, rows, scope, remain
        anderson = scope.acceleration if isinstance(scope, Passes) else None
        self._history = None if anderson is None else History(anderson.window)

    def first(self, done: Done) -> None:
        change = self._solve(Side.USERS, self._rows)
        # The step for shared parameters would give to the others what h has in an empty dimension.
        if not self._scope.solve_shared:
            change += self._refiner.directions.open_for(self._rows[Side.USERS])
        change += self._solve(Side.ITEMS, self._rows) + self._shared()
        done.begin(change, sum(map(len, self._rows.values())))

    def left(self, done: Done) -> float:
        """What rows could gain one by one, or what passes will gain as they did; the more the more trustworthy."""
        to_come = done.still_to_come if done.n_passes > 1 else 0.0
        return max(COUPLED * decrement_of_all(self._refiner.state), to_come)

    @property
    def sees_all(self) -> bool:
        return True

    def is_cheap(self, done: Done, left: float, allowed: float) -> bool:
        del done, left, allowed
        return False

    def next(self, done: Done, left: float, wanted: float, *, may_let_go: bool, enough: bool) -> None:
        del left, wanted, may_let_go, enough
        rows = occupied_rows(self._refiner.state)
        change = self._users_from_a_guess(rows)
        before = self._items(rows)
        change += self._solve(Side.ITEMS, rows)
        if self._history is not None:
            self._history.add(before, self._items(rows))
        done.add(change + self._shared(), sum(map(len, rows.values())), is_pass=True)

    def last(self, done: Done) -> None:
        del done

    def _users_from_a_guess(self, rows: Chosen) -> LossChange:
        """Solves users with the items where passes seem to be heading, or where they are if that is no better."""
        guess = None if self._history is None else self._history.guess()
        if guess is None or self._history is None:
            return self._solve(Side.USERS, rows)
        state = self._refiner.state
        before = {side: state.sides[side].factors.vectors[rows[side]] for side in SIDES}
        change = state.move(Side.ITEMS, rows[Side.ITEMS], guess.numpy()) + self._solve(Side.USERS, rows)
        if change.pending <= 0 and change.whole <= change.rounding:
            return change
        for side in SIDES:
            state.move(side, rows[side], before[side])
        self._history.restart()
        return self._solve(Side.USERS, rows)

    def _items(self, rows: Chosen) -> torch.Tensor:
        return torch.from_numpy(self._refiner.state.sides[Side.ITEMS].factors.vectors[rows[Side.ITEMS]])

    def _solve(self, side: Side, rows: Chosen) -> LossChange:
        """Solves rows of a side; only the request's own rows give up what they keep, else others train on."""
        how = RowSolver(self._scope.solver, self._scope.block_rows, self._scope.executor)
        return self._refiner.steps.solve(side, rows[side], how, give_up=rows is self._rows)

    def _shared(self) -> LossChange:
        if not self._scope.solve_shared or self._remain is None:
            return LossChange()
        return self._refiner.solve_shared(self._remain)
