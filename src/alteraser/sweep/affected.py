"""The rows that a deletion has moved away from their minimum, found and solved without visiting the others.

The gradient of every row is kept (`half.py`) and follows every change exactly. A step solves Newton's equations for the
most affected rows of both sides together (`newton_system.py`). A request pays for itself alone, however many came
before it: what they left stands apart, as debts; `settle_all` pays those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.ripples import drop_entries, estimate_decrements, spread_changes
from alteraser.kernels.rows import factorise_rows, longest_first, substitute_rows
from alteraser.kernels.tiles import TILE_ROWS, padded
from alteraser.models.bilinear import Bilinear
from alteraser.sweep.half import Half, times
from alteraser.sweep.newton_system import Chosen, NewtonSystem, Preconditioner
from alteraser.sweep.sweep import OutOfTime, never

Quadratic = TypeVar("Quadratic", bound=Bilinear)
Floats = NDArray[Any]
SIDES = (Side.USERS, Side.ITEMS)
FORCING = 0.05
MOST_TOGETHER = 20.0
SLOW, MANY = 0.25, 0.15
ROW_COST = 50  # entries that could be visited in the time that a row takes besides its own
SAMPLE = 128  # rows looked at, at least, to tell what those owe that were touched
BLOCK = 1024  # rows moved at once: what is computed on the way stays in the cache
MAX_PRODUCTS = 50
DAMPING, LEAST_DAMPING, MAX_REFUSALS = 0.01, 1e-4, 6


@dataclass(frozen=True, eq=False)
class Settled:
    """What each step lowered the loss by, what is about left to gain, rows visited, and whether the goal was met."""

    falls: list[float]
    left: float
    rows_visited: int
    converged: bool


class AffectedRows(Generic[Quadratic]):
    """A model, its data and the gradient of all its rows, kept together while interactions are deleted."""

    def __init__(self, model: Quadratic, data: Interactions, *, training_gap: float = 1.0) -> None:
        """With a training gap of 1 rows aim at the gradient that the original has in them on `data`, with 0 at none.

        The difference is a debt from the beginning.
        """
        model.check_belongs(data)
        self._h = model.h.numpy().copy()
        self._halves = {side: Half.of(model, side, data, training_gap=training_gap) for side in SIDES}
        self._views: dict[Side, Preconditioner] = {}
        self._owed_together, self._left_by_norm, self._damping = 1.0, 0.0, DAMPING
        self._n_entries = len(self._halves[Side.USERS].columns)
        # From here on the model stands on the tables that change: the original's rows must not outlive a request.
        tables = {side.value: torch.from_numpy(half.table) for side, half in self._halves.items()}
        self._model = model.with_parameters({**model.parameters(), **tables})
        for side, half in self._halves.items():
            half.sum_up(self._halves[side.other])
            self._view(side)

    # What can be asked -----------------------------------------------------------------------------------------

    @property
    def model(self) -> Quadratic:
        """The model as it is now, on tables of its own."""
        tables = {side.value: self._model.table(side).clone() for side in SIDES}
        return self._model.with_parameters({**self._model.parameters(), **tables})

    def residual(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """Half of minus the gradient that is still to be removed from some rows."""
        self.close()
        half = self._halves[side]
        through: Floats = half.missing[rows, None] * times(half.table[rows], self._halves[side.other].drift)
        residual: Floats = half.debt[rows] - through
        return residual

    def gradient_norm(self) -> float:
        """The norm of the gradient that is still to be removed, of all rows; none of them is looked at."""
        self.close()
        total = sum(
            _squared_norm(half.norm, half.slant, half.mass, self._halves[side.other].drift)
            for side, half in self._halves.items()
        )
        return 2 * math.sqrt(total)

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
    ) -> None:
        """Pairs lose their interactions, or keep some of their weight; a weight left below 0 says that none is left."""
        rows = {Side.USERS: users, Side.ITEMS: items}
        before = np.empty(len(users), np.float32)
        for side in SIDES:
            half = self._halves[side]
            pairs = (rows[side], rows[side.other].astype(np.int32), weights_left)
            drop_entries(*pairs, half.starts, half.counts, half.columns, half.weights, before)
        if (before < 0).any():
            raise ValueError(
                f"{int((before < 0).sum())} of {len(users)} pairs to delete are not in the data."
            )
        self._take_entries(rows, before, weights_left)
        for side in SIDES:
            self._weigh_again(side, np.unique(rows[side]))
        self._n_entries -= int((weights_left < 0).sum())

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

    def _weigh_again(self, side: Side, rows: NDArray[np.int64]) -> None:
        """Some rows get the weights of their new counts; those without interactions become zero."""
        half = self._halves[side]
        missing, l2 = self._model.row_weights(side, half.counts[rows])
        empty = half.counts[rows] == 0
        moved = empty | (missing.astype(half.missing.dtype) != half.missing[rows])
        lighter = ~moved & (l2.astype(half.l2.dtype) != half.l2[rows])
        if lighter.any():
            some, less = rows[lighter], (half.l2[rows] - l2)[lighter, None].astype(half.l2.dtype)
            half.add(some, less * half.table[some])
            half.l2[some] = l2[lighter]
        if moved.any():
            table = np.where(empty[:, None], 0, half.table[rows])
            self.move(side, rows[moved], table[moved], missing=missing[moved], l2=l2[moved])
            half.clear(rows[empty])

    # Moving rows -----------------------------------------------------------------------------------------------

    def move(
        self,
        side: Side,
        rows: NDArray[np.int64],
        table: Floats,
        *,
        missing: Floats | None = None,
        l2: Floats | None = None,
    ) -> float:
        """Some rows of a side become `table`, and every gradient follows; by how much the loss rises, debts apart."""
        rise = 0.0
        for begin in range(0, len(rows), BLOCK):
            some = slice(begin, begin + BLOCK)
            m1 = self._halves[side].missing[rows[some]] if missing is None else missing[some]
            r1 = self._halves[side].l2[rows[some]] if l2 is None else l2[some]
            rise += self._move(side, rows[some], table[some], m1, r1)
        return rise

    def _move(self, side: Side, rows: NDArray[np.int64], table: Floats, missing: Floats, l2: Floats) -> float:
        half, other = self._halves[side], self._halves[side.other]
        kind = half.table.dtype
        table, missing, l2 = (values.astype(kind, copy=False) for values in (table, missing, l2))
        seen = self._h * half.table[rows]
        other.reach(rows, half)
        with threads_for(8 * int(half.counts[rows].sum()) * len(self._h)):
            spread = np.zeros((n_threads(), len(rows), TILE_ROWS * padded(len(self._h))), kind)
            totals = np.zeros((n_threads(), 2))
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
            fall = half.move(rows, table, missing, l2, h=self._h, spread=spread, other=other)
        curvature, growth = totals.sum(0)
        other.new_norm += float(growth)
        return float(curvature) - fall

    # Steps -----------------------------------------------------------------------------------------------------

    def _view(self, side: Side) -> Preconditioner:
        """The preconditioner of the rows of a side."""
        if side not in self._views:
            other = self._halves[side.other]
            self._views[side] = Preconditioner.of(other.gram, other.table.dtype)
        return self._views[side]

    def _decrements(self, side: Side, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
        """How much each row could about lower the loss by itself, and the squared norm of what they owe."""
        half, view, owed = self._halves[side], self._view(side), self._owed(side, rows)
        decrements = np.empty(len(rows))
        norm = estimate_decrements(owed, view.alpha(half, rows), half.l2[rows], view.spectrum, decrements)
        return decrements, float(norm)

    def _owed_in_all(self) -> tuple[float, float, dict[Side, NDArray[np.float64]]]:
        """How much all rows could about lower the loss, one by one, and the squared norm of what they owe.

        The norm is exact; what it is worth, those of the rows tell that were touched, or of many some. What these could
        lower the loss by is returned too.
        """
        worth, norm, seen = 0.0, 0.0, {}
        for side, half in self._halves.items():
            seen[side], part = self._decrements(side, half.touched[:: max(half.n_new // SAMPLE, 1)])
            owed = _squared_norm(half.new_norm, half.new_slant, half.mass, self._halves[side.other].new_drift)
            worth += owed * float(seen[side].sum()) / max(part, np.finfo(np.float64).tiny)
            norm += owed
        return worth, norm, seen

    def settle(
        self,
        forgetting: NDArray[np.int64],
        *,
        tolerance: float,
        out_of_time: OutOfTime = never,
        max_steps: int = 16,
    ) -> Settled:
        """Steps of the most affected rows until no more than `tolerance` of the gap is left that a deletion opened.

        `forgetting` users come first and alone. The gap that is left is estimated from the rows' own decrements and
        from how quickly steps have lowered the loss.
        """
        falls = [self.solve(Side.USERS, forgetting)]
        settled = self._settle(forgetting, falls, tolerance, out_of_time, max_steps)
        # After a step of many rows, which ends early, those matter most whose request it was.
        if len(falls) > 2:
            falls.append(self.solve(Side.USERS, forgetting))
        self.close()
        return settled

    def settle_all(self, *, tolerance: float, max_steps: int = 16) -> Settled:
        """Steps of all rows, most affected first, until no more than `tolerance` is left of what there was to gain."""
        self.call_in_debts()
        settled = self._settle(np.empty(0, np.int64), [], tolerance, never, max_steps)
        self.close()
        return settled

    def call_in_debts(self) -> None:
        """What earlier deletions left counts as new; Ĝ₀ becomes Ĝ."""
        owed = {side: self.residual(side, np.arange(len(half.table))) for side, half in self._halves.items()}
        for side, half in self._halves.items():
            half.call_in(owed[side])
            half.sum_up(self._halves[side.other])
        self._views = {}

    def _settle(
        self,
        forgetting: NDArray[np.int64],
        falls: list[float],
        tolerance: float,
        out_of_time: OutOfTime,
        max_steps: int,
    ) -> Settled:
        owed_before, left_before, visited = math.nan, math.inf, len(forgetting)
        while True:
            total, norm, seen = self._owed_in_all()
            if owed_before - total > 0:
                # What the rows owe one by one falls short of what they owe together; by how much, the last step tells.
                self._owed_together = min(max(falls[-1] / (owed_before - total), 1.0), MOST_TOGETHER)
            left = self._owed_together * total
            self._left_by_norm = left / max(norm, np.finfo(np.float64).tiny)
            goal = tolerance * (sum(falls) + left)
            # One step together there is in any case: where the users who forget stand depends on their items.
            met = left <= goal and len(falls) > 1
            if met or len(falls) > max_steps or out_of_time():
                return Settled(falls, left, visited, left <= goal)
            chosen = self._most_affected(seen, spare=min(goal / self._owed_together / 4, total / 3))
            n_entries = sum(int(self._halves[side].counts[rows].sum()) for side, rows in chosen.items())
            first = len(falls) == 1 and len(forgetting) > 0
            # After a step that gained little of what was left, what is owed is owed by many rows together; and where
            # many are chosen, the others cost little more.
            if not first and n_entries > MANY * 2 * self._n_entries:
                chosen = {side: np.arange(len(half.table)) for side, half in self._halves.items()}
            elif left_before < math.inf and falls[-1] < SLOW * left_before:
                chosen = self._touched()
            if first:
                # The users who forget go where they would be if all their items moved; most are not worth a move.
                chosen[Side.USERS] = np.union1d(chosen[Side.USERS], forgetting)
                falls.append(self.step(chosen, beside=self._touched()))
            else:
                falls.append(self.step(chosen, forcing=2 * FORCING, enough=goal / 4))
            visited += sum(len(part) for part in chosen.values())
            owed_before, left_before = total, left

    def _touched(self) -> Chosen:
        return {side: np.sort(half.touched) for side, half in self._halves.items()}

    def _most_affected(self, seen: dict[Side, NDArray[np.float64]], *, spare: float) -> Chosen:
        """Those touched rows that owe most for what they cost; the others together owe no more than `spare`.

        What they owe one by one is looked up, unless `seen` has it of all.
        """
        touched = {side: half.touched for side, half in self._halves.items()}
        owed = {
            side: seen[side] if len(seen[side]) == len(rows) else self._decrements(side, rows)[0]
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

    def drift(self) -> tuple[float, float]:
        """`gradient_norm`, and about how much the loss could still fall, by what rows last owed for theirs."""
        norm = self.gradient_norm()
        return norm, self._left_by_norm * norm**2 / 4

    def solve(self, side: Side, rows: NDArray[np.int64]) -> float:
        """Some rows of a side become their minimum while the other side stays; how much lower the loss is then."""
        fall = 0.0
        for begin in range(0, len(rows), BLOCK):
            some = rows[begin : begin + BLOCK]
            step = self._owed(side, some)
            step[~self._solve(side, some, step)] = 0
            fall -= self.move(side, some, self._halves[side].table[some] + step)
        return fall

    def _solve(self, side: Side, rows: NDArray[np.int64], sides: Floats) -> NDArray[np.bool_]:
        """Each of `sides` becomes the inverse of half the row's Hessian times it; false where that fails."""
        half, other = self._halves[side], self._halves[side.other]
        counts, d = half.counts[rows], len(self._h)
        starts = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(half.starts[rows] - starts[:-1], counts) + np.arange(starts[-1])
        columns = half.columns[entries]
        seen, missing = other.table, other.missing
        if len(columns) < len(seen):  # a few rows do not wait for a look at everybody's neighbours
            seen, missing = seen[columns], missing[columns]
            columns = np.arange(len(columns), dtype=np.int32)
        factors, solved = np.empty((len(rows), padded(d) ** 2), sides.dtype), np.empty(len(rows), np.bool_)
        with threads_for(2 * len(columns) * d * d + len(rows) * d**3 / 3):
            factorise_rows(
                longest_first(np.arange(len(rows)), starts),
                starts,
                columns,
                half.weights[entries],
                self._h * seen,
                other.gram.astype(sides.dtype),
                half.missing[rows],
                missing,
                half.l2[rows],
                factors,
                solved,
                n_threads(),
            )
            substitute_rows(factors, sides)
        return solved

    def step(
        self,
        chosen: Chosen,
        *,
        forcing: float = FORCING,
        enough: float = math.inf,
        beside: Chosen | None = None,
    ) -> float:
        """Newton's step of the chosen rows together; how much lower the loss is then, at least 0.

        With rows beside them, the step is that of all, of which only the chosen ones move. Damped more after a step
        that would have raised the loss, which is taken back, and less after one that did not.
        """
        chosen = {side: rows for side, rows in chosen.items() if len(rows)}
        if not chosen:
            return 0.0
        together = (
            chosen if beside is None else {side: np.union1d(chosen[side], beside[side]) for side in chosen}
        )
        before = {side: self._halves[side].table[rows] for side, rows in chosen.items()}
        for _ in range(MAX_REFUSALS):
            steps = self._newton(together, forcing, enough)
            rise = 0.0
            for side, rows in chosen.items():
                step = steps[side][np.searchsorted(together[side], rows)]
                rise += self.move(side, rows, before[side] + step)
            if rise <= 0:
                self._damping = max(self._damping / 4, LEAST_DAMPING)
                return -rise
            for side, rows in reversed(chosen.items()):
                self.move(side, rows, before[side])
            self._damping *= 8
        return 0.0

    def _newton(self, rows: Chosen, forcing: float, enough: float) -> dict[Side, Floats]:
        """Newton's step of some rows, as far as conjugate gradients come."""
        views = {side: self._view(side) for side in rows}
        system = NewtonSystem(self._halves, rows, views, self._h)
        owed = np.concatenate([self._owed(side, part) for side, part in rows.items()])
        step = system.solve(
            owed, damping=self._damping, forcing=forcing, enough=enough, max_products=MAX_PRODUCTS
        )
        system.end()
        return system.split(step)


def _squared_norm(
    norm: float, slant: NDArray[np.float64] | float, mass: NDArray[np.float64], drift: NDArray[np.float64]
) -> float:
    """Σ‖E_r − m_r·drift·y_r‖² over all rows, from the sums of E."""
    total = norm - 2 * (drift * slant).sum() + ((drift @ drift) * mass).sum()
    return max(float(total), 0.0)
