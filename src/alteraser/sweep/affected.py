"""The rows that a deletion has moved away from their minimum, found and solved without visiting the others.

The gradient of every row is kept (`half.py`) and follows every change exactly. A step solves Newton's equations for the
most affected rows of both sides together (`newton_system.py`). A request pays for itself alone, however many came
before it: what they left stands apart, as debts; `settle_all` pays those. What the original itself was short of its
optimum stands apart too, and is nobody's to pay.

A step lowers the loss without what stands apart. With it the loss could rise all the same, the more so the farther the
original was from its optimum. Every move therefore tells what the whole loss does; where it would rise, the step is
taken back, and the rows are charged with as much of what stands apart as it takes to lower it. Where that would be
training rather than forgetting, steps end, and the result says that the tolerance was not met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.kernels.entries import add_residuals
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.ripples import count_absent, drop_entries, estimate_decrements, spread_changes
from alteraser.kernels.rows import factorise_rows, substitute_rows
from alteraser.kernels.sparse import FixedFactors, RowWeights, SparseRows, longest_first
from alteraser.kernels.tiles import TILE_ROWS, padded
from alteraser.models.bilinear import Bilinear
from alteraser.models.dimensions import Opening, Pairs, empty_directions
from alteraser.sweep.half import Half, times
from alteraser.sweep.newton_system import Chosen, NewtonSystem, Preconditioner
from alteraser.sweep.sweep import OutOfTime, never

Quadratic = TypeVar("Quadratic", bound=Bilinear)
Floats = NDArray[Any]
SIDES = (Side.USERS, Side.ITEMS)
Watch = Callable[[int, float], None]
"""Called after each step with how many are done, and how much lower the loss is than before the first."""
FORCING = 0.05
MOST_TOGETHER = 20.0
SLOW, MANY = 0.25, 0.15
ROW_COST = 50  # entries that could be visited in the time that a row takes besides its own
SAMPLE = 128  # rows looked at, at least, to tell what those owe that were touched
REPRESENTATIVE = 0.1  # of what all owe: where touched rows owe less, the others are looked at too
TINY = float(np.finfo(np.float64).tiny)
BLOCK = 1024  # rows moved at once: what is computed on the way stays in the cache
MAX_PRODUCTS = 50
DAMPING, LEAST_DAMPING, MAX_REFUSALS = 0.01, 1e-4, 8
ROUNDING = 8  # machine epsilons of the terms that cancel in a change of the loss
CHARGE = 0.25  # of what stands apart: with more, rows beyond the request's own would be trained on
# The estimate of what is left is right on average; of single requests on ml-100k and amazon-14core 5.7 times was left.
UNSURE = 6.0
REST = 0.5  # of the gap that emptying rows leaves: what may be left of it at most, however much they closed
NOISE = 0.01  # of a usual interaction's residual: rounding errors of the heaviest one must stay below


@dataclass(frozen=True)
class Rise:
    """By how much a move raises the loss: apart from debts and from the original's own gap, and as a whole.

    `rounding` is what the second may be off by.
    """

    new: float = 0.0
    whole: float = 0.0
    rounding: float = 0.0

    def __add__(self, other: Rise) -> Rise:
        return Rise(self.new + other.new, self.whole + other.whole, self.rounding + other.rounding)


@dataclass(frozen=True, eq=False)
class Settled:
    """How steps changed the loss, what is about left to gain, rows visited, and whether the goal was met."""

    rises: list[Rise]
    left: float
    rows_visited: int
    converged: bool


class _Owed(NamedTuple):
    """What is new of all rows: what it is worth and its squared norm, what it is worth in rows that were not touched,
    and in those that were looked at.
    """

    worth: float
    norm: float
    untouched: float
    seen: dict[Side, NDArray[np.float64]]


class _Goal(NamedTuple):
    """How much may be left of the gap that a deletion opened, some of which was closed by emptying rows.

    `charge` is the share of what stands apart that rows may be charged with.
    """

    tolerance: float
    emptied: float = 0.0
    charge: float = CHARGE

    def left_of(self, rest: float) -> float:
        """How much may be estimated to be left, after so much of the rest was gained or is estimated to be left."""
        return min(self.tolerance / UNSURE * (self.emptied + rest), REST * rest)


class _Entries(NamedTuple):
    """The entries of some rows, and the rows of the other side that their columns are."""

    rows: SparseRows
    fixed: FixedFactors


class AffectedRows(Generic[Quadratic]):
    """A model, its data and the gradient of all its rows, kept together while interactions are deleted."""

    def __init__(self, model: Quadratic, data: Interactions, *, training_gap: float = 1.0) -> None:
        """With a training gap of 1 rows aim at the gradient that the original has in them on `data`, with 0 at none.

        The difference is a debt from the beginning.
        """
        model.check_belongs(data)
        check_weights(model, data)
        self._h = model.h.numpy().copy()
        self._halves = {side: Half.of(model, side, data, training_gap=training_gap) for side in SIDES}
        self._views: dict[Side, Preconditioner] = {}
        self._owed_together, self._damping = 1.0, DAMPING
        self._n_entries = len(self._halves[Side.USERS].columns)
        self._spare = empty_directions((half.squares_of_rows() for half in self._halves.values()), self._h)
        # Of a request, the users who were not worth an empty direction before it.
        self._worth_none: set[int] = set()
        # From here on the model stands on the tables that change: the original's rows must not outlive a request.
        tables = {side.value: torch.from_numpy(half.table) for side, half in self._halves.items()}
        self._model = model.with_parameters({**model.parameters(), **tables})
        for side, half in self._halves.items():
            half.sum_up(self._halves[side.other])
            self._view(side)
        # Of debts: about how much lower the loss could be, and the squared norm that this was said of.
        self._left, self._left_of = self._worth_of_debts() if training_gap != 1 else (0.0, 0.0)

    # What can be asked -----------------------------------------------------------------------------------------

    @property
    def model(self) -> Quadratic:
        """The model as it is now, on tables of its own."""
        tables = {side.value: self._model.table(side).clone() for side in SIDES}
        return self._model.with_parameters({**self._model.parameters(), **tables})

    def residual(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """Half of minus the gradient that is still to be removed from some rows."""
        half, other = self._halves[side], self._halves[side.other]
        through: Floats = half.missing[rows, None] * times(half.table[rows], other.drift)
        residual: Floats = half.debt[rows] - through + self._owed(side, rows)
        return residual

    def gradient_norm(self) -> float:
        """The norm of the gradient that is still to be removed, of all rows."""
        total = sum(half.squared_norm(self._halves[side.other]) for side, half in self._halves.items())
        return 2 * math.sqrt(total)

    def drift(self) -> tuple[float, float]:
        """`gradient_norm`, and about how much the loss could still fall, by what requests last left for theirs."""
        norm = self.gradient_norm()
        return norm, self._left * norm**2 / 4 / max(self._left_of, TINY)

    def _owed(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """What is new of the residual of some rows."""
        half = self._halves[side]
        through = times(half.table[rows], self._halves[side.other].new_drift)
        through *= half.missing[rows, None]
        owed: Floats = np.subtract(half.new_of(rows), through, out=through)
        return owed

    def close(self) -> None:
        """What is new becomes a debt like the others."""
        for half in self._halves.values():
            half.close()
            half.gram_start = half.gram.copy()

    # Deleting --------------------------------------------------------------------------------------------------

    def delete(
        self, users: NDArray[np.int64], items: NDArray[np.int64], weights_left: NDArray[np.float32]
    ) -> float:
        """Pairs lose their interactions, or keep some of their weight; a weight left below 0 says that none is left.

        By how much the loss falls as rows without interactions become zero.
        """
        rows = {Side.USERS: users, Side.ITEMS: items}
        columns = {side: each.astype(np.int32) for side, each in rows.items()}
        entries = self._halves[Side.USERS]
        absent = count_absent(users, columns[Side.ITEMS], entries.starts, entries.counts, entries.columns)
        if absent:
            raise ValueError(f"{absent} of {len(users)} pairs to delete are not in the data.")
        # Who is worth a direction of its own already is not so because of this.
        if self._spare:
            self._worth_none |= {user for user in np.unique(users).tolist() if self._opening(user) is None}
        before = np.empty(len(users), np.float32)
        for side in SIDES:
            half = self._halves[side]
            pairs = (rows[side], columns[side.other], weights_left)
            drop_entries(*pairs, half.starts, half.counts, half.columns, half.weights, before)
        self._take_entries(rows, before, weights_left)
        fall = sum(self._weigh_again(side, np.unique(rows[side])) for side in SIDES)
        self._n_entries -= int((weights_left < 0).sum())
        return fall

    def _take_entries(self, rows: Chosen, before: NDArray[np.float32], after: NDArray[np.float32]) -> None:
        halves = self._halves
        p, q = (halves[side].table[rows[side]] for side in SIDES)
        missing = halves[Side.USERS].missing[rows[Side.USERS]] * halves[Side.ITEMS].missing[rows[Side.ITEMS]]
        scores = (p * (self._h * q)).sum(1)
        left = np.where(after >= 0, after - (after - missing) * scores, 0)
        gain = (left - (before - (before - missing) * scores)).astype(p.dtype)[:, None] * self._h
        lighter = np.where(after >= 0, before - after, before - missing).astype(p.dtype)
        for side, seen in ((Side.USERS, q), (Side.ITEMS, p)):
            halves[side].add(rows[side], gain * seen)
            others = halves[side.other].squares[rows[side.other]]
            np.subtract.at(halves[side].masses, rows[side], lighter * others)

    def _weigh_again(self, side: Side, rows: NDArray[np.int64]) -> float:
        """Some rows get the weights of their new counts; those without interactions become zero.

        By how much the loss falls as they do.
        """
        half = self._halves[side]
        missing, l2 = self._model.row_weights(side, half.counts[rows])
        empty = half.counts[rows] == 0
        moved = empty | (missing.astype(half.missing.dtype) != half.missing[rows])
        lighter = ~moved & (l2.astype(half.l2.dtype) != half.l2[rows])
        if lighter.any():
            some, less = rows[lighter], (half.l2[rows] - l2)[lighter, None].astype(half.l2.dtype)
            half.add(some, less * half.table[some])
            half.l2[some] = l2[lighter]
        if not moved.any():
            return 0.0
        table = np.where(empty[:, None], 0, half.table[rows])
        rise = self.move(side, rows[moved], table[moved], missing=missing[moved], l2=l2[moved])
        half.clear(rows[empty])
        return -rise.whole

    # Moving rows -----------------------------------------------------------------------------------------------

    def move(
        self,
        side: Side,
        rows: NDArray[np.int64],
        table: Floats,
        *,
        missing: Floats | None = None,
        l2: Floats | None = None,
    ) -> Rise:
        """Some rows of a side become `table`, and every gradient follows."""
        rise = Rise()
        for begin in range(0, len(rows), BLOCK):
            some = slice(begin, begin + BLOCK)
            m1 = self._halves[side].missing[rows[some]] if missing is None else missing[some]
            r1 = self._halves[side].l2[rows[some]] if l2 is None else l2[some]
            rise += self._move(side, rows[some], table[some], m1, r1)
        return rise

    def _move(self, side: Side, rows: NDArray[np.int64], table: Floats, missing: Floats, l2: Floats) -> Rise:
        half, other = self._halves[side], self._halves[side.other]
        kind = half.table.dtype
        table, missing, l2 = (values.astype(kind, copy=False) for values in (table, missing, l2))
        seen = self._h * half.table[rows]
        other.reach(rows, half)
        with threads_for(8 * int(half.counts[rows].sum()) * len(self._h)):
            spread = np.zeros((n_threads(), len(rows), TILE_ROWS * padded(len(self._h))), kind)
            totals = np.zeros((n_threads(), 3))
            spread_changes(
                rows,
                half.starts,
                half.counts,
                half.columns,
                half.weights,
                seen,
                self._h * table - seen,
                half.missing[rows],
                missing,
                other.table,
                other.missing,
                other.slots,
                other.new,
                spread,
                totals,
            )
            moved = half.move(rows, table, missing, l2, h=self._h, spread=spread, other=other)
        curvature, growth, along = totals.sum(0).tolist()
        other.new_norm += growth
        whole = moved.rest - 2 * along - curvature
        return Rise(curvature - moved.fall, whole, ROUNDING * float(np.finfo(kind).eps) * moved.rest_size)

    # Steps -----------------------------------------------------------------------------------------------------

    def _view(self, side: Side) -> Preconditioner:
        """The preconditioner of the rows of a side."""
        if side not in self._views:
            self._views[side] = Preconditioner.of(self._halves[side.other])
        return self._views[side]

    def _decrements(
        self, side: Side, rows: NDArray[np.int64], residual: Floats
    ) -> tuple[NDArray[np.float64], float]:
        """How much each row could about lower the loss by itself, and the squared norm of the residual of all."""
        half, view = self._halves[side], self._view(side)
        decrements = np.empty(len(rows))
        norm = estimate_decrements(residual, view.alpha(half, rows), half.l2[rows], view.spectrum, decrements)
        return decrements, float(norm)

    def _worth_of_debts(self) -> tuple[float, float]:
        """How much all rows could about lower the loss if debts were called in, one by one; their squared norm."""
        worth, norm = 0.0, 0.0
        for side, half in self._halves.items():
            rows = np.arange(len(half.table))
            decrements, part = self._decrements(side, rows, self.residual(side, rows))
            worth, norm = worth + float(decrements.sum()), norm + part
        return worth, norm

    def _owed_in_all(self) -> _Owed:
        """What is new of all rows, and how much they could about lower the loss by it, one by one.

        The norm is exact; what it is worth, those of the rows tell that were touched, or of many some, and where these
        have little of it, some of the others, whom it reaches through Ĝ.
        """
        norms = {side: half.new_squared_norm(self._halves[side.other]) for side, half in self._halves.items()}
        worth, norm, untouched, seen = 0.0, sum(norms.values()), 0.0, {}
        for side, half in self._halves.items():
            every = max(half.n_new // SAMPLE, 1)
            some, owed = half.touched[::every], norms[side]
            seen[side], part = self._decrements(side, some, self._owed(side, some))
            known = min(part * half.n_new / max(len(some), 1), owed)
            if known < REPRESENTATIVE * owed and owed > REPRESENTATIVE * norm:
                others = np.flatnonzero(half.slots < 0)
                others = others[:: max(len(others) // SAMPLE, 1)]
                decrements, its = self._decrements(side, others, self._owed(side, others))
                beyond = (owed - known) * float(decrements.sum()) / max(its, TINY)
                worth += known * float(seen[side].sum()) / max(part, TINY) + beyond
                untouched += beyond
            else:
                worth += owed * float(seen[side].sum()) / max(part, TINY)
        return _Owed(worth, norm, untouched, seen)

    def settle(
        self,
        forgetting: NDArray[np.int64],
        *,
        tolerance: float,
        emptied: float = 0.0,
        out_of_time: OutOfTime = never,
        max_steps: int = 16,
        watch: Watch | None = None,
    ) -> Settled:
        """Steps of the most affected rows until no more than `tolerance` of the gap is left that a deletion opened.

        `emptied` is what rows that became zero have lowered the loss by: part of that gap, though nothing is left to do
        for it. Of the rest no more than half is left, so that it is worked on however large that part is.
        The estimate of what is left has to be a sixth of that, as it may be too low by some times.
        `forgetting` users come first and alone. The gap that is left is estimated from the rows' own decrements and
        from how quickly steps have lowered the loss.
        """
        forgetting = forgetting[self._halves[Side.USERS].counts[forgetting] > 0]
        rises = [self.solve(Side.USERS, forgetting)]
        rises[0] += self._open_directions(forgetting)
        self._worth_none.clear()
        settled = self._settle(forgetting, rises, _Goal(tolerance, emptied), out_of_time, max_steps, watch)
        # After a step of many rows, which ends early, those matter most whose request it was.
        if len(rises) > 2:
            rises[-1] += self.solve(Side.USERS, forgetting, charge=False)
        self.close()
        return settled

    def settle_all(self, *, tolerance: float, out_of_time: OutOfTime = never, max_steps: int = 16) -> Settled:
        """Steps of all rows, most affected first, until no more than `tolerance` is left of what there was to gain."""
        self.call_in_debts()
        goal = _Goal(tolerance, charge=1.0)
        settled = self._settle(np.empty(0, np.int64), [], goal, out_of_time, max_steps, None)
        self.close()
        return settled

    def call_in_debts(self) -> None:
        """What earlier deletions left counts as new; Ĝ₀ becomes Ĝ."""
        owed = {side: self.residual(side, np.arange(len(half.table))) for side, half in self._halves.items()}
        self.close()
        for side, half in self._halves.items():
            half.call_in_all(owed[side])
            half.sum_up(self._halves[side.other])
        self._views, self._left, self._left_of = {}, 0.0, 0.0

    def _settle(
        self,
        forgetting: NDArray[np.int64],
        rises: list[Rise],
        goal: _Goal,
        out_of_time: OutOfTime,
        max_steps: int,
        watch: Watch | None,
    ) -> Settled:
        worth_before, left_before, visited, steps = -math.inf, math.inf, len(forgetting), 0
        n_rows, of_all = sum(len(half.table) for half in self._halves.values()), list[float]()
        while True:
            owed = self._owed_in_all()
            if worth_before > owed.worth:
                # What the rows owe one by one falls short of what they owe together; by how much, the last step tells.
                told = -rises[-1].new / (worth_before - owed.worth)
                self._owed_together = min(max(told, 1.0), MOST_TOGETHER)
            left = max(self._owed_together * owed.worth, _to_come(of_all))
            wanted = goal.left_of(left - sum(rise.new for rise in rises))
            # One step together there is in any case: where the users who forget stand depends on their items.
            met = left <= wanted and steps > 0
            stuck = steps > 0 and not rises[-1].new < 0
            if met or stuck or steps >= max_steps or out_of_time():
                self._left, self._left_of = self._left + left, self._left_of + owed.norm
                return Settled(rises, left, visited, left <= wanted)
            first = steps == 0 and len(forgetting) > 0
            slow = left_before < math.inf and -rises[-1].new < SLOW * left_before
            chosen = self._choose(
                owed, wanted / self._owed_together / 4, forgetting if first else None, slow=slow
            )
            if first:  # of the rows that the request is about: they may be charged with all that stands apart
                rises.append(self.step(chosen, beside=self._touched()))
            else:
                rises.append(self.step(chosen, forcing=2 * FORCING, enough=wanted / 4, charge=goal.charge))
            moved = sum(len(part) for part in chosen.values())
            visited += moved
            of_all = [*of_all, -rises[-1].new] if moved == n_rows else []
            worth_before, left_before, steps = owed.worth, left, steps + 1
            if watch is not None:
                watch(steps, goal.emptied - sum(rise.whole for rise in rises))

    def _choose(
        self, owed: _Owed, spare: float, forgetting: NDArray[np.int64] | None, *, slow: bool
    ) -> Chosen:
        """The rows of a step: the most affected, all that were touched, or all there are.

        In a first step the users who forget go where they would be if all their items moved; most of these are not
        worth a move. After a step that gained little of what was left, what is owed is owed by many rows together;
        where many are chosen, the others cost little more; and where rows owe it that were not touched, all must move.
        """
        chosen = self._most_affected(owed.seen, spare=min(spare, owed.worth / 3))
        if forgetting is not None:
            chosen[Side.USERS] = np.union1d(chosen[Side.USERS], forgetting)
            return chosen
        n_entries = sum(int(self._halves[side].counts[rows].sum()) for side, rows in chosen.items())
        if n_entries > MANY * 2 * self._n_entries or owed.untouched > max(spare, owed.worth / 3):
            return {side: np.arange(len(half.table)) for side, half in self._halves.items()}
        return self._touched() if slow else chosen

    def _touched(self) -> Chosen:
        return {side: np.sort(half.touched) for side, half in self._halves.items()}

    def _most_affected(self, seen: dict[Side, NDArray[np.float64]], *, spare: float) -> Chosen:
        """Those touched rows that owe most for what they cost; the others together owe no more than `spare`.

        What they owe one by one is looked up, unless `seen` has it of all.
        """
        touched = {side: half.touched for side, half in self._halves.items()}
        owed = {
            side: seen[side]
            if len(seen[side]) == len(rows)
            else self._decrements(side, rows, self._owed(side, rows))[0]
            for side, rows in touched.items()
        }
        every = np.concatenate([owed[side] for side in SIDES])
        cost = np.concatenate([self._halves[side].counts[touched[side]] for side in SIDES])
        order = np.argsort(every / (cost + ROW_COST))
        keep = np.ones(len(every), dtype=np.bool_)
        keep[order[: np.searchsorted(np.cumsum(every[order]), spare, side="right")]] = False
        cut = len(owed[Side.USERS])
        kept = {Side.USERS: keep[:cut], Side.ITEMS: keep[cut:]}
        return {side: np.sort(touched[side][kept[side]]) for side in SIDES}

    def solve(self, side: Side, rows: NDArray[np.int64], *, charge: bool = True) -> Rise:
        """Some rows of a side become their minimum while the other side stays.

        Where that would raise the whole loss, they are charged with all that stands apart, or stay where they are.
        """
        rise = Rise()
        for begin in range(0, len(rows), BLOCK):
            rise += self._solve_some(side, rows[begin : begin + BLOCK], charge)
        return rise

    def _solve_some(self, side: Side, rows: NDArray[np.int64], charge: bool) -> Rise:
        before = self._halves[side].table[rows]
        for charged in (False, True):
            step = self._owed(side, rows)
            step[~self._solve(side, rows, step)] = 0
            rise = self.move(side, rows, before + step)
            if rise.whole <= rise.rounding:
                return rise
            self.move(side, rows, before)
            if charged or not charge:
                break
            self._charge({side: rows}, math.inf, most=1.0)
        return Rise()

    def _open_directions(self, users: NDArray[np.int64]) -> Rise:
        """An empty direction is opened for each of the users who is now worth one, as long as there are some."""
        rise = Rise()
        for user in users.tolist():
            found = self._opening(user) if user in self._worth_none else None
            if found is not None:
                rise += self._open(user, *found)
        return rise

    def _opening(self, user: int) -> Opening | None:
        """What a user and the items would be in an empty direction."""
        if not self._spare:
            return None
        own, items = self._halves[Side.USERS], self._halves[Side.ITEMS]
        seen, missing, user_l2 = self._h * own.table[user], float(own.missing[user]), float(own.l2[user])
        mine = slice(own.starts[user], own.starts[user] + own.counts[user])
        columns, weights = own.columns[mine], own.weights[mine]
        # Σ g² over all items, without a look at those that are not the user's; λ is no less than its least.
        scores = items.table[columns] @ seen
        as_missing = np.square(missing * items.missing[columns] * scores).sum()
        total = np.square(weights * (1 - scores)).sum() + missing**2 * (seen @ items.mass @ seen) - as_missing
        if self._spare[0].weight ** 2 * float(total) <= user_l2 * float(items.l2.min()):
            return None
        pairs = Pairs.of(items.table @ seen, missing * items.missing, columns, weights)
        return pairs.opening(self._spare[0], user_l2=user_l2, item_l2=items.l2)

    def _open(self, user: int, of_user: float, of_items: Floats) -> Rise:
        """A user and the items that matter to it gain these values in an empty direction, if the loss then falls."""
        direction = self._spare[0]
        rows = {Side.USERS: np.array([user]), Side.ITEMS: np.flatnonzero(of_items)}
        gains = {Side.USERS: np.array([of_user]), Side.ITEMS: of_items[rows[Side.ITEMS]]}
        before = {side: self._halves[side].table[rows[side]] for side in SIDES}
        rise = Rise()
        for side in SIDES:
            rise += self.move(side, rows[side], before[side] + gains[side][:, None] * direction.vector)
        if rise.whole < 0:
            del self._spare[0]
            return rise
        for side in reversed(SIDES):
            self.move(side, rows[side], before[side])
        return Rise()

    def _entries_of(self, side: Side, rows: NDArray[np.int64]) -> _Entries:
        """The entries of some rows one after another, and the other side's rows that they lead to."""
        half, other = self._halves[side], self._halves[side.other]
        counts = half.counts[rows]
        starts = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(half.starts[rows] - starts[:-1], counts) + np.arange(starts[-1])
        columns = half.columns[entries]
        seen, missing = other.table, other.missing
        if len(columns) < len(seen):  # a few rows do not wait for a look at everybody's neighbours
            seen, missing = seen[columns], missing[columns]
            columns = np.arange(len(columns), dtype=np.int32)
        given = SparseRows.from_csr(starts, columns, half.weights[entries])
        return _Entries(given, FixedFactors(self._h * seen, missing))

    def _solve(self, side: Side, rows: NDArray[np.int64], sides: Floats) -> NDArray[np.bool_]:
        """Each of `sides` becomes the inverse of half the row's Hessian times it; false where that fails."""
        half, other, d = self._halves[side], self._halves[side.other], len(self._h)
        entries = self._entries_of(side, rows)
        factors, solved = np.empty((len(rows), padded(d) ** 2), sides.dtype), np.empty(len(rows), np.bool_)
        with threads_for(2 * len(entries.rows.columns) * d * d + len(rows) * d**3 / 3):
            factorise_rows(
                longest_first(np.arange(len(rows)), entries.rows),
                entries.rows,
                entries.fixed,
                other.gram.astype(sides.dtype),
                RowWeights(half.missing[rows], half.l2[rows]),
                factors,
                solved,
            )
            substitute_rows(factors, sides)
        return solved

    def _whole_residual(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """Half of minus the gradient of the loss itself in some rows, from their entries."""
        half, other = self._halves[side], self._halves[side.other]
        entries, own, missing = self._entries_of(side, rows), half.table[rows], half.missing[rows]
        residual: Floats = -missing[:, None] * times(own, other.gram) - half.l2[rows, None] * own
        with threads_for(4 * len(entries.rows.columns) * len(self._h)):
            schedule = longest_first(np.arange(len(rows)), entries.rows)
            add_residuals(schedule, entries.rows, own, entries.fixed, missing, residual)
        return residual

    def _charge(self, chosen: Chosen, rise: float, *, most: float) -> bool:
        """Rows are charged with a share of what stands apart, so that the loss does not rise as it would have.

        With r what is new, t what stands apart and A half the Hessian, the step A⁻¹(r + share·t) raises the loss by
        `rise` − (2·share − share²)·tᵀA⁻¹t. A share is wanted that takes off twice the rise, or all there is; if it is
        more than `most`, they are not charged.
        """
        apart = {
            side: self._whole_residual(side, rows) - self._owed(side, rows) for side, rows in chosen.items()
        }
        worth = sum(float(self._decrements(side, chosen[side], apart[side])[0].sum()) for side in chosen)
        share = 1 - math.sqrt(max(1 - 2 * rise / max(worth, TINY), 0.0))
        if share <= most:
            for side, rows in chosen.items():
                self._halves[side].call_in(rows, apart[side], share, self._halves[side.other])
        return share <= most

    def step(
        self,
        chosen: Chosen,
        *,
        forcing: float = FORCING,
        enough: float = math.inf,
        beside: Chosen | None = None,
        charge: float = 1.0,
    ) -> Rise:
        """Newton's step of the chosen rows together, which raises neither the loss nor what is new of it.

        With rows beside them, the step is that of all, of which only the chosen ones move. A step that would raise what
        is new is taken back and damped more; for one that would raise the whole loss rows are charged with a share of
        what stands apart, `charge` at most. No row moves where that does not do.
        """
        chosen = {side: rows for side, rows in chosen.items() if len(rows)}
        if not chosen:
            return Rise()
        together = (
            chosen if beside is None else {side: np.union1d(chosen[side], beside[side]) for side in chosen}
        )
        before = {side: self._halves[side].table[rows] for side, rows in chosen.items()}
        charged = 0  # once with a share, then with all
        for _ in range(MAX_REFUSALS):
            steps = self._newton(together, forcing, enough)
            steps = {
                side: steps[side][np.searchsorted(together[side], rows)] for side, rows in chosen.items()
            }
            # To take back a step far longer than the rows would leave rounding errors of its own size everywhere.
            if sum(map(_square, steps.values())) > sum(map(_square, before.values())):
                self._damping *= 8
                continue
            rise = Rise()
            for side, rows in chosen.items():
                rise += self.move(side, rows, before[side] + steps[side])
            if rise.new <= 0 and rise.whole <= rise.rounding:
                self._damping = max(self._damping / 4, LEAST_DAMPING)
                return rise
            for side, rows in reversed(chosen.items()):
                self.move(side, rows, before[side])
            if rise.new > 0 or charged == 2:
                self._damping *= 8
            elif self._charge(chosen, math.inf if charged else rise.whole, most=charge):
                charged += 1
            else:
                break
        return Rise()

    def _newton(self, rows: Chosen, forcing: float, enough: float) -> dict[Side, Floats]:
        """Newton's step of some rows, as far as conjugate gradients come."""
        views = {side: self._view(side) for side in rows}
        system = NewtonSystem(self._halves, rows, views, self._h)
        try:
            owed = np.concatenate([self._owed(side, part) for side, part in rows.items()])
            limits: dict[str, Any] = {"forcing": forcing, "enough": enough, "max_products": MAX_PRODUCTS}
            return system.split(system.solve(owed, damping=self._damping, **limits))
        finally:
            system.end()


def _to_come(falls: list[float]) -> float:
    """What steps will still gain if each gains the share of the one before that the last did."""
    if len(falls) < 2 or not 0 < falls[-1] < falls[-2]:
        return 0.0
    return falls[-1] ** 2 / (falls[-2] - falls[-1])


def _square(values: Floats) -> float:
    return float(np.vdot(values, values))


def check_weights(model: Bilinear, data: Interactions) -> None:
    """Raises where single precision is too coarse to follow gradients: beside weights that tower above the others."""
    weights, eps = data.by(Side.USERS).weights, torch.finfo(model.dtype).eps
    if len(weights) == 0 or float(weights.max()) * eps <= NOISE * float(weights.min()):
        return  # the median need not be looked for
    weights = weights[weights > 0]
    if len(weights) == 0 or float(weights.max()) * eps <= NOISE * float(np.median(weights)):
        return
    raise SettingError(
        f"The largest weight is {float(weights.max() / np.median(weights)):.1g} times the median weight, and the model "
        f"is in {str(model.dtype).removeprefix('torch.')}, where {NOISE / eps:.1g} times is too much to be followed. "
        f"Scale the weights (take their logarithm, say), or train in double precision (dtype=torch.float64; "
        f"--precision double)."
    )
