"""How the rows of a scope move: joint Newton steps of both sides together, or passes over one side after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.live.decrement import PendingDecrement, all_rows, most_affected, touched_rows
from alteraser.live.newton_system import Chosen
from alteraser.live.scopes import AllRows, ForgettingRows, Passes, Scope
from alteraser.live.side import LossChange
from alteraser.live.state import SIDES
from alteraser.live.steps import FORCING, RowSolver
from alteraser.sweep.accelerate import History

if TYPE_CHECKING:
    from alteraser.live.refine import Refiner

# Where the chosen rows have more than this share of all entries, all rows cost little more. Tuned on kuairec-binary.
MANY = 0.15
# The share of the prior residual that may be admitted of rows beyond the request's own; with more they would be trained
# on. Set by hand.
ADMITTED = 0.25
# The share of the rows' own decrements that those which stay may have, however much may be left. Set by hand.
STAYING = 1 / 3


@dataclass(eq=False)
class Done:
    """What the loop has done so far."""

    changes: list[LossChange] = field(default_factory=list)
    steps: int = 0
    rows_visited: int = 0
    n_passes: int = 0
    # How much the passes that came last, one after another, have gained.
    falls_of_passes: list[float] = field(default_factory=list)

    def begin(self, change: LossChange, n_rows: int) -> None:
        """Books the move of the request's own rows, which comes before the first step."""
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


class Strategy(Protocol):
    """What a scope does first, in each step, and last."""

    def first(self, done: Done) -> None: ...

    def next(self, done: Done, found: PendingDecrement, allowed: float, *, spare: float, slow: bool) -> None:
        """One more step; about `allowed` may be left of the gap, and of the rows' own decrements `spare`."""
        ...

    def last(self, done: Done) -> None: ...


class JointSteps:
    """Newton steps of chosen rows of both sides together.

    The users of the request come first and alone, and once more after steps of many rows, which end early.
    """

    def __init__(
        self,
        refiner: Refiner[Any],
        users: NDArray[np.int64],
        scope: Scope,
        *,
        admitted: float = ADMITTED,
        exact: bool = False,
    ) -> None:
        """With `exact` the users are at their minimum when all is done, even after a single step."""
        self._state, self._steps, self._directions = refiner.state, refiner.steps, refiner.directions
        self._users, self.scope, self._admitted, self._exact = users, scope, admitted, exact

    def first(self, done: Done) -> None:
        change = self._steps.solve(Side.USERS, self._users)
        done.begin(change + self._directions.open_for(self._users), len(self._users))

    def next(self, done: Done, found: PendingDecrement, allowed: float, *, spare: float, slow: bool) -> None:
        every = isinstance(self.scope, AllRows)
        is_first = done.steps == 0 and len(self._users) > 0 and not every
        chosen = all_rows(self._state) if every else self._choose(found, spare, is_first, slow)
        if is_first:  # of the rows that the request is about: all of their prior residual may be admitted
            change = self._steps.step(chosen, beside=touched_rows(self._state))
        else:
            change = self._steps.step(chosen, forcing=2 * FORCING, enough=allowed / 4, most=self._admitted)
        n_rows = sum(len(rows) for rows in chosen.values())
        done.add(change, n_rows, is_pass=n_rows == sum(map(len, self._state.sides.values())))

    def last(self, done: Done) -> None:
        if done.steps > (0 if self._exact else 1):
            done.changes[-1] += self._steps.solve(Side.USERS, self._users, admit=False)

    def _choose(self, found: PendingDecrement, spare: float, is_first: bool, slow: bool) -> Chosen:
        """The rows of a step: the most affected, all that were touched, or all there are.

        In a first step the users who forget go where they would be if all their items moved; most of these are not
        worth a move. After a step that gained little of what was left, the gap is that of many rows together; where
        many are chosen, the others cost little more; and where rows have it that were not touched, all must move.
        """
        chosen = most_affected(self._state, found, spare=min(spare, STAYING * found.total))
        if is_first:
            chosen[Side.USERS] = np.union1d(chosen[Side.USERS], self._users)
            return chosen
        sides = self._state.sides
        n_entries = sum(int(sides[side].entries.counts(rows).sum()) for side, rows in chosen.items())
        if n_entries > MANY * 2 * self._state.n_entries or found.untouched > max(
            spare, STAYING * found.total
        ):
            return all_rows(self._state)
        return touched_rows(self._state) if slow else chosen


class AlternatingPasses:
    """Passes that solve rows while the other side is fixed: users, then items, then shared parameters if asked.

    Accelerated passes start from a guess for the items, by Anderson's method, unless what is pending would rise.
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

    def next(self, done: Done, found: PendingDecrement, allowed: float, *, spare: float, slow: bool) -> None:
        del found, allowed, spare, slow
        sides = self._refiner.state.sides
        rows = {side: np.flatnonzero(each.entries.all_counts()) for side, each in sides.items()}
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
        """Solves rows of a side; prior residual is admitted only of the request's own rows, else others train on."""
        how = RowSolver(self._scope.solver, self._scope.block_rows, self._scope.executor)
        return self._refiner.steps.solve(side, rows[side], how, admit=rows is self._rows)

    def _shared(self) -> LossChange:
        if not self._scope.solve_shared or self._remain is None:
            return LossChange()
        return self._refiner.solve_shared(self._remain)
