"""How the rows of a scope move: joint Newton steps of both sides together, or passes over one side after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.live.decrement import (
    TINY,
    PendingDecrement,
    all_rows,
    most_affected,
    touched_rows,
    visiting_cost,
    visiting_cost_of_all,
)
from alteraser.live.newton_system import Chosen
from alteraser.live.scopes import AllRows, AutoRows, ForgettingRows, Passes, Scope
from alteraser.live.side import LossChange
from alteraser.live.state import SIDES
from alteraser.live.steps import RowSolver
from alteraser.sweep.accelerate import History

if TYPE_CHECKING:
    from alteraser.live.refine import Refiner

# The share of the prior residual that may be admitted of rows beyond the request's own; with more they would be trained
# on. Set by hand.
ADMITTED = 0.25
# The share of the rows' own decrements that those which stay have: the last of them cost the most, and come again in a
# later step. In the first step these are few, and go along. Set by hand.
STAYING, STAYING_AT_FIRST = 0.3, 0.1
# A step of chosen rows ends when a product adds less than this share of what it promises. To move rows takes about as
# long as five products, so that less would be gained by a next step in the same time.
FORCING = 0.1
# The share of a step's gain that the next one is believed to gain at most, where what is to come is told by it.
MOST_KEPT = 0.9
# What a step costs besides its rows, in entries: choosing them, and telling what is left. Measured with 64 dimensions.
STEP_COST = 5_000


@dataclass(eq=False)
class Done:
    """What the loop has done so far."""

    changes: list[LossChange] = field(default_factory=list)
    steps: int = 0
    rows_visited: int = 0
    n_passes: int = 0
    # What visiting the rows of each step has cost, in entries.
    costs: list[int] = field(default_factory=list)

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
        """What steps will still gain if each gains the share of the one before that the last did.

        That is told by the last two, if they came after the first and cost about the same. Where rows keep coming back,
        their decrements tell too little.
        """
        falls = [-change.pending for change in self.changes[-2:]]
        alike = len(self.costs) < 2 or self.costs[-1] < 2 * self.costs[-2]
        if self.steps < 2 or not alike or not all(fall > 0 for fall in falls):
            return 0.0
        share = min(falls[1] / falls[0], MOST_KEPT)
        return falls[1] * share / (1 - share)


class Plan(NamedTuple):
    """What a step is to do: about `left` is left of the gap, and `wanted` may be; it may cost `most`.

    Rows gain together `coupling` times what their own decrements tell.
    """

    left: float
    wanted: float
    most: float
    coupling: float

    @property
    def staying(self) -> float:
        """The share of the rows' decrements that may stay: the less, the more has to go."""
        return min(STAYING, math.sqrt(self.wanted / max(self.left, TINY)))


class Strategy(Protocol):
    """What a scope does first, in each step, and last."""

    def first(self, done: Done) -> None: ...

    def next(self, done: Done, found: PendingDecrement, plan: Plan) -> None:
        """One more step."""
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
        self._n_rows = sum(map(len, refiner.state.sides.values()))

    def first(self, done: Done) -> None:
        change = self._steps.solve(Side.USERS, self._users)
        done.begin(change + self._directions.open_for(self._users), len(self._users))

    def next(self, done: Done, found: PendingDecrement, plan: Plan) -> None:
        every = isinstance(self.scope, AllRows)
        is_first = done.steps == 0 and len(self._users) > 0 and not every
        chosen = all_rows(self._state) if every else self._choose(done, found, plan)
        if is_first and len(chosen[Side.ITEMS]) == 0 and plan.left <= plan.wanted:
            change, chosen = LossChange(), {}  # the users are where they belong
        elif is_first:  # of the rows that the request is about: all of their prior residual may be admitted
            beside = touched_rows(self._state) if len(chosen[Side.ITEMS]) else None
            change = self._steps.step(chosen, beside=beside)
        else:
            change = self._later_step(chosen, plan)
            if not change.pending < 0 and self._counts(chosen) == self._n_rows and not every:
                # All rows cannot move together without training on; the most affected may.
                done.rows_visited += self._n_rows
                done.costs.append(visiting_cost_of_all(self._state))
                chosen = most_affected(self._state, found, spare=plan.staying * found.total)
                change += self._later_step(chosen, plan)
        n_rows = self._counts(chosen)
        done.costs.append(visiting_cost(self._state, chosen))
        done.add(change, n_rows, is_pass=n_rows == self._n_rows)

    def last(self, done: Done) -> None:
        if done.steps > (0 if self._exact else 1):
            done.changes[-1] += self._steps.solve(Side.USERS, self._users, admit=False)

    def _later_step(self, chosen: Chosen, plan: Plan) -> LossChange:
        # A step of all rows is to be the last, and where much has to go, the next would find the same rows again.
        to_the_end = self._counts(chosen) == self._n_rows or plan.staying < STAYING
        enough = plan.wanted / 4 if to_the_end else math.inf
        return self._steps.step(chosen, forcing=FORCING, enough=enough, most=self._admitted)

    @staticmethod
    def _counts(chosen: Chosen) -> int:
        return sum(map(len, chosen.values()))

    def _choose(self, done: Done, found: PendingDecrement, plan: Plan) -> Chosen:
        """The rows of a step: the most affected, or all there are.

        Rows stay whose decrements together are about what may be left. In a first step the users who forget go where
        they would be if all their items moved; most of these are not worth a move. All rows move where others than the
        touched ones have the residual, or where that is cheaper than as many steps of the most affected as it would
        take if each gained what the last did; where the scope is that of affected rows, all touched rows then do.
        """
        is_first = done.steps == 0 and len(self._users) > 0
        staying = min(plan.staying, STAYING_AT_FIRST) if is_first else plan.staying
        spare = plan.wanted / plan.coupling / 2
        if plan.most == math.inf:
            spare = max(spare, staying * found.total)
        chosen = most_affected(self._state, found, spare=spare, most=plan.most)
        if is_first:
            chosen[Side.USERS] = np.union1d(chosen[Side.USERS], self._users)
            return chosen
        if plan.most < math.inf:
            return chosen
        if found.untouched > spare:
            return all_rows(self._state)
        may_be_all = isinstance(self.scope, AutoRows)
        at_once = visiting_cost_of_all(self._state)
        if not may_be_all:
            at_once = visiting_cost(self._state, touched_rows(self._state))
        in_parts = steps_to_come(done, plan) * (visiting_cost(self._state, chosen) + STEP_COST)
        # Where no row is worth a move by itself, what is left is that of all together.
        nobody = self._counts(chosen) == 0 and plan.left > plan.wanted
        if in_parts <= at_once and not nobody:
            return chosen
        return all_rows(self._state) if may_be_all else touched_rows(self._state)


def steps_to_come(done: Done, plan: Plan) -> float:
    """How many steps it takes to what is wanted, if each gains the share of what is left that the last did."""
    if plan.left <= plan.wanted or done.steps == 0:
        return 1.0
    gained = -done.changes[-1].pending
    share = min(max(gained / (gained + plan.left), 0.01), 0.99)
    return max(math.log(max(plan.wanted / plan.left, TINY)) / math.log(1 - share), 1.0)


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

    def next(self, done: Done, found: PendingDecrement, plan: Plan) -> None:
        del found, plan
        sides = self._refiner.state.sides
        rows = {side: np.flatnonzero(each.entries.all_counts()) for side, each in sides.items()}
        change = self._users_from_a_guess(rows)
        before = self._items(rows)
        change += self._solve(Side.ITEMS, rows)
        if self._history is not None:
            self._history.add(before, self._items(rows))
        done.costs.append(visiting_cost(self._refiner.state, rows))
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
