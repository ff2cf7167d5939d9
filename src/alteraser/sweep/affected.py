"""The rows that a deletion has moved away from their minimum, found and solved without visiting the others.

With y_r the vectors of one side and x_c = h ⊙ y_c those of the other as scores see them, half of minus the gradient of
L in row r is

    e_r = Σ_{c∈R_r} (w − lift·ŷ)·x_c − m_r·Ĝ·y_r − λ_r·y_r,    lift = w − m_r m_c,    Ĝ = Σ_c m_c x_c x_cᵀ over all c.

It is kept for every row and follows every change exactly: a changed row reaches its neighbours through its entries
(`spread_changes`) and all others through Ĝ alone. That part is not written into anybody's row: what is stored is E_r =
e_r + m_r·(Ĝ − Ĝ₀)·y_r for a Ĝ₀ that stays as it was, and the sums Σ‖E_r‖², Σ m_r E_r y_rᵀ and Σ m_r² y_r y_rᵀ give the
norm of the gradient of rows that nobody visits.

What a deletion brings stands apart from what earlier ones left, in the same form: `fresh` with the Ĝ at its beginning,
`debt` with Ĝ₀. A request pays for itself alone, however many came before it; `settle_all` pays the debts.

A step solves Newton's equations for the most affected rows of both sides together by conjugate gradients. As
preconditioner serves (α_r·Ĝ + λ_r·I)⁻¹, with α_r such that the trace is that of the row's own Hessian: all rows of a
side share the eigenvectors of Ĝ, and no row is ever factorised.
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
from alteraser.kernels.ripples import (
    curve_pairs,
    curve_rows,
    drop_entries,
    entry_masses,
    estimate_decrements,
    fold_rows,
    spread_changes,
    update_norms,
)
from alteraser.models.bilinear import Bilinear
from alteraser.sweep.sweep import OutOfTime, never

Quadratic = TypeVar("Quadratic", bound=Bilinear)
Floats = NDArray[Any]
Chosen = dict[Side, NDArray[np.int64]]
SIDES = (Side.USERS, Side.ITEMS)
FIRST_FORCING, FORCING = 0.01, 0.05
MOST_TOGETHER = 20.0
MANY_MORE = 8
SLOW, MANY = 0.25, 0.15
SMALL_PRODUCT = 2**18  # multiplications: numpy's own threads stay out of it
DAMPING, LEAST_DAMPING, MAX_REFUSALS = 0.01, 1e-4, 6


@dataclass(frozen=True, eq=False)
class Settled:
    """What each step lowered the loss by, what is about left to gain, rows visited, and whether the goal was met."""

    falls: list[float]
    left: float
    rows_visited: int
    converged: bool


@dataclass(eq=False, repr=False)
class _Half:
    """What is kept of one side; rows may lose entries, so that their lengths stand beside their starts."""

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]
    table: Floats  # y, [n, d]
    squares: Floats  # ‖h ⊙ y‖², [n]
    masses: Floats  # about Σ lift·‖x_c‖², the trace of the entries' part of a row's Hessian, [n]
    debt: Floats  # E of what earlier deletions left, [n, d]
    fresh: Floats  # E of what is new since then, [n, d]
    missing: Floats  # m, [n]
    l2: Floats  # λ, [n]
    gram: NDArray[np.float64]  # Σ m y yᵀ
    gram_before: NDArray[np.float64]  # the same when Ĝ₀ was taken
    gram_start: NDArray[np.float64]  # the same before what is new
    norms: NDArray[np.float64]  # ‖E_r‖² of the debts
    norm: float  # their sum
    slant: NDArray[np.float64]  # Σ m E yᵀ of the debts
    mass: NDArray[np.float64]  # Σ m² y yᵀ
    touched: NDArray[np.bool_]
    place: NDArray[np.int32]  # in a step: where among the chosen rows; -1 for the others


class AffectedRows(Generic[Quadratic]):
    """A model, its data and the gradient of all its rows, kept together while interactions are deleted."""

    def __init__(self, model: Quadratic, data: Interactions, *, training_gap: float = 1.0) -> None:
        """With a training gap of 1 rows aim at the gradient that the original has in them on `data`, with 0 at none.

        The difference is a debt from the beginning.
        """
        model.check_belongs(data)
        self._model = model
        self._h = model.h.numpy().copy()
        self._halves = {side: self._half(side, data, training_gap) for side in SIDES}
        self._basis: dict[Side, tuple[Floats, Floats]] = {}
        self._owed_together, self._left_by_norm, self._damping = 1.0, 0.0, DAMPING
        self._lost = np.empty(
            0, np.int64
        )  # the items that a deletion took from somebody, until it is settled
        # From here on the model stands on the tables that change: the original's rows must not outlive a request.
        tables = {side.value: torch.from_numpy(half.table) for side, half in self._halves.items()}
        self._model = model.with_parameters({**model.parameters(), **tables})
        for side in SIDES:
            self._sum_up(side)
            self._eigen(side)

    def _half(self, side: Side, data: Interactions, training_gap: float) -> _Half:
        problems, csr = self._model.row_problems(side, data), data.by(side)
        own = self._model.table(side)
        table = own.numpy().copy()
        debt = np.zeros_like(table)
        if training_gap != 1:
            debt = problems.residual(own).numpy() * table.dtype.type(1 - training_gap)
        missing = problems.missing_row.numpy().copy()
        exact, weight = table.astype(np.float64), missing.astype(np.float64)[:, None]
        gram = _times((weight * exact).T, exact)
        return _Half(
            starts=csr.starts[:-1].copy(),
            counts=csr.counts,
            columns=csr.columns.copy(),
            weights=csr.weights.copy(),
            table=table,
            squares=np.square(self._h * table).sum(1),
            masses=np.zeros(len(table), table.dtype),
            debt=debt,
            fresh=np.zeros_like(table),
            missing=missing,
            l2=problems.l2.numpy().copy(),
            gram=gram,
            gram_before=gram.copy(),
            gram_start=gram.copy(),
            norms=np.zeros(len(table)),
            norm=0.0,
            slant=np.zeros_like(gram),
            mass=_times((weight**2 * exact).T, exact),
            touched=np.zeros(len(table), dtype=np.bool_),
            place=np.full(len(table), -1, dtype=np.int32),
        )

    def _sum_up(self, side: Side) -> None:
        half, other = self._halves[side], self._halves[side.other]
        half.masses = entry_masses(
            half.starts, half.counts, half.columns, half.weights, half.missing, other.missing, other.squares
        )
        debt = half.debt.astype(np.float64)
        half.norms = np.square(debt).sum(1)
        half.norm = float(half.norms.sum())
        half.slant = _times((half.missing[:, None] * debt).T, half.table)

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
        through: Floats = half.missing[rows, None] * _times(half.table[rows], self._drift(side))
        residual: Floats = half.debt[rows] - through
        return residual

    def gradient_norm(self) -> float:
        """The norm of the gradient that is still to be removed, of all rows; none of them is looked at."""
        self.close()
        total = 0.0
        for side, half in self._halves.items():
            drift = self._drift(side)
            total += half.norm - 2 * (drift * half.slant).sum() + ((drift @ drift) * half.mass).sum()
        return float(2 * np.sqrt(max(total, 0.0)))

    def _drift(self, side: Side) -> NDArray[np.float64]:
        """Ĝ at the beginning of what is new, less Ĝ₀: what earlier changes of the other side's rows amount to."""
        other = self._halves[side.other]
        return self._seen(other.gram_start - other.gram_before)

    def _owed(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """What is new of the residual of some rows."""
        half, other = self._halves[side], self._halves[side.other]
        drift = self._seen(other.gram - other.gram_start)
        owed: Floats = half.fresh[rows] - half.missing[rows, None] * _times(half.table[rows], drift)
        return owed

    def close(self) -> None:
        """What is new becomes a debt like the others."""
        for half in self._halves.values():
            rows = np.flatnonzero(half.touched)
            if len(rows) == 0:
                continue
            weighed, vectors = (
                np.empty((len(rows), half.table.shape[1]), half.table.dtype) for _ in range(2)
            )
            with threads_for(4 * weighed.size):
                half.norm += float(
                    fold_rows(
                        rows, half.fresh, half.debt, half.table, half.missing, half.norms, weighed, vectors
                    )
                )
            half.slant += _times(weighed.T, vectors)
            half.touched[rows] = False
        for half in self._halves.values():
            half.gram_start = half.gram.copy()

    def _seen(self, gram: NDArray[np.float64]) -> NDArray[np.float64]:
        h = self._h.astype(np.float64)
        return gram * np.outer(h, h)

    @staticmethod
    def _norm_growth(half: _Half, rows: NDArray[np.int64]) -> float:
        with threads_for(2 * len(rows) * half.debt.shape[1]):
            return float(update_norms(half.debt, rows, half.norms))

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
        self._lost = np.unique(items)

    def _take_entries(self, rows: Chosen, before: NDArray[np.float32], after: NDArray[np.float32]) -> None:
        halves = self._halves
        p, q = (halves[side].table[rows[side]] for side in SIDES)
        missing = halves[Side.USERS].missing[rows[Side.USERS]] * halves[Side.ITEMS].missing[rows[Side.ITEMS]]
        scores = (p * (self._h * q)).sum(1)
        left = np.where(after >= 0, after - (after - missing) * scores, 0)
        gain = (left - (before - (before - missing) * scores)).astype(p.dtype)[:, None] * self._h
        lighter = np.where(after >= 0, before - after, before - missing).astype(p.dtype)
        for side, seen in ((Side.USERS, q), (Side.ITEMS, p)):
            distinct, owner = np.unique(rows[side], return_inverse=True)
            change = np.zeros((len(distinct), p.shape[1]), p.dtype)
            np.add.at(change, owner, gain * seen)
            self._add(side, distinct, change)
            others = halves[side.other].squares[rows[side.other]]
            np.subtract.at(halves[side].masses, rows[side], lighter * others)

    def _add(self, side: Side, rows: NDArray[np.int64], change: Floats) -> None:
        """Adds to the residual of some rows."""
        half = self._halves[side]
        half.fresh[rows] += change
        half.touched[rows] = True

    def _weigh_again(self, side: Side, rows: NDArray[np.int64]) -> None:
        """Some rows get the weights of their new counts; those without interactions become zero."""
        half = self._halves[side]
        missing, l2 = self._model.row_weights(side, half.counts[rows])
        empty = half.counts[rows] == 0
        table = np.where(empty[:, None], 0, half.table[rows])
        moved = empty | (missing.astype(half.missing.dtype) != half.missing[rows])
        still, change = rows[~moved], (half.l2[rows] - l2)[~moved, None].astype(half.l2.dtype)
        self._add(side, still, change * half.table[still])
        half.l2[still] = l2[~moved]
        if moved.any():
            self.move(side, rows[moved], table[moved], missing=missing[moved], l2=l2[moved])
            self._clear(side, rows[empty])

    def _clear(self, side: Side, rows: NDArray[np.int64]) -> None:
        """Rows of zeros without entries are at their minimum, whatever the original's gradient was."""
        half = self._halves[side]
        half.fresh[rows], half.debt[rows], half.touched[rows] = 0, 0, False
        half.norm += self._norm_growth(half, rows)

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
        half, other = self._halves[side], self._halves[side.other]
        kind, y0, m0, r0 = half.table.dtype, half.table[rows], half.missing[rows], half.l2[rows]
        m1 = m0 if missing is None else missing.astype(kind)
        r1 = r0 if l2 is None else l2.astype(kind)
        y1 = y0 + (table - y0).astype(kind)
        change = y1 - y0
        owed = self._owed(side, rows)
        own, curvature = self._spread(side, rows, y0, change, m0, m1)
        gram = self._seen(other.gram)
        less = self._h * own + m1[:, None] * _times(change, gram) + r1[:, None] * change
        # With the weights as they were, `less` is the Hessian times the change, but for the entries' curvature.
        fall = float(np.vdot(2 * owed - less + self._h * own, change)) - curvature
        if missing is not None or l2 is not None:
            less += (m1 - m0)[:, None] * _times(y0, gram) + (r1 - r0)[:, None] * y0
        new_drift = self._seen(other.gram - other.gram_start)
        fresh = owed - less + m1[:, None] * _times(y1, new_drift)
        self._replace(side, rows, y1, m1)
        half.fresh[rows], half.l2[rows], half.touched[rows] = fresh, r1, True
        return -fall

    def _replace(self, side: Side, rows: NDArray[np.int64], y1: Floats, m1: Floats) -> None:
        """New vectors and weights for some rows; what they owe from before stays what it was."""
        half, drift = self._halves[side], self._drift(side)
        y0, e0, m0 = half.table[rows], half.debt[rows], half.missing[rows]
        e1 = e0 + m1[:, None] * _times(y1, drift) - m0[:, None] * _times(y0, drift)
        half.debt[rows] = e1
        half.norm += self._norm_growth(half, rows)
        # What goes out with a minus and what comes in, stacked: one product for both.
        y, e = (np.concatenate(parts).astype(np.float64) for parts in ((y0, y1), (e0, e1)))
        m = np.concatenate([-m0, m1]).astype(np.float64)[:, None]
        half.gram += _times((m * y).T, y)
        half.mass += _times((m * abs(m) * y).T, y)
        if half.norm > 0:
            half.slant += _times((m * e).T, y)
        half.table[rows], half.missing[rows] = y1, m1
        half.squares[rows] = np.square(self._h * y1).sum(1)

    def _spread(
        self, side: Side, rows: NDArray[np.int64], y0: Floats, change: Floats, m0: Floats, m1: Floats
    ) -> tuple[Floats, float]:
        """The neighbours learn of a change; what comes back to the rows themselves, and the curvature met."""
        half, other = self._halves[side], self._halves[side.other]
        with threads_for(8 * int(half.counts[rows].sum()) * y0.shape[1]):
            own = np.zeros((n_threads(), *y0.shape), y0.dtype)
            curvature = np.zeros(own.shape[:2])
            spread_changes(
                rows,
                half.starts,
                half.counts,
                half.columns,
                half.weights,
                self._h * y0,
                self._h * change,
                m0,
                m1,
                other.table,
                other.missing,
                other.fresh,
                other.touched,
                own,
                curvature,
            )
        return own.sum(0), float(curvature.sum())

    # Steps -----------------------------------------------------------------------------------------------------

    def _decrements(self, side: Side, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
        """How much each row could about lower the loss by itself, and the squared norm of what they owe."""
        half, (_, spectrum) = self._halves[side], self._eigen(side)
        decrements, norms = np.empty(len(rows)), np.empty(len(rows))
        with threads_for(4 * len(rows) * len(spectrum)):
            alpha = self._alpha(side, rows)
            estimate_decrements(self._owed(side, rows), alpha, half.l2[rows], spectrum, decrements, norms)
        return decrements, float(norms.sum())

    def _eigen(self, side: Side) -> tuple[Floats, Floats]:
        """The eigenvectors and eigenvalues of Ĝ for the rows of a side; a preconditioner may be a little old."""
        if side not in self._basis:
            half = self._halves[side.other]
            values, vectors = np.linalg.eigh(self._seen(half.gram))
            kind = half.table.dtype
            self._basis[side] = (vectors.astype(kind), np.maximum(values, 0).astype(kind))
        return self._basis[side]

    def _alpha(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        half, (_, values) = self._halves[side], self._eigen(side)
        missing = half.missing[rows]
        alpha = missing + half.masses[rows] / max(values.sum(), np.finfo(values.dtype).tiny)
        positive: Floats = np.maximum(alpha, missing / 10)
        return positive

    def _spectra(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """The eigenvalues of α_r·Ĝ + λ_r·I of each row."""
        _, values = self._eigen(side)
        return self._alpha(side, rows)[:, None] * values + self._halves[side].l2[rows, None]

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
        falls = [self.step({Side.USERS: forgetting}, forcing=FIRST_FORCING)]
        settled = self._settle(forgetting, falls, tolerance, out_of_time, max_steps)
        self._lost = np.empty(0, np.int64)
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
            half.fresh, half.debt = owed[side], np.zeros_like(half.debt)
            half.gram_before = half.gram.copy()
            half.touched[:] = True
            self._sum_up(side)
        self._basis = {}

    def _settle(
        self,
        forgetting: NDArray[np.int64],
        falls: list[float],
        tolerance: float,
        out_of_time: OutOfTime,
        max_steps: int,
    ) -> Settled:
        owed_before, left_before, visited = math.nan, math.inf, len(forgetting)
        everybody = {side: np.arange(len(half.table)) for side, half in self._halves.items()}
        while True:
            rows = {side: np.flatnonzero(self._halves[side].touched) for side in SIDES}
            owed, norm = {}, 0.0
            for side in SIDES:
                owed[side], part = self._decrements(side, rows[side])
                norm += part
            total = float(sum(part.sum() for part in owed.values()))
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
            chosen = _largest(rows, owed, spare=min(goal / self._owed_together / 2, total / 4))
            # After a step that gained little of what was left, what is owed is owed by many rows together; and where
            # many are chosen, the others cost little more.
            if len(falls) > 1 and self._n_entries(chosen) > MANY * self._n_entries(everybody):
                chosen = dict(everybody)
            elif left_before < math.inf and falls[-1] < SLOW * left_before:
                chosen = rows
            chosen[Side.USERS] = np.union1d(chosen[Side.USERS], forgetting)
            if len(falls) == 1:
                chosen[Side.ITEMS] = np.union1d(chosen[Side.ITEMS], self._lost)
            falls.append(self.step(chosen, forcing=FORCING))
            visited += sum(len(part) for part in chosen.values())
            owed_before, left_before = total, left

    def _n_entries(self, rows: Chosen) -> int:
        return sum(int(self._halves[side].counts[part].sum()) for side, part in rows.items())

    def drift(self) -> tuple[float, float]:
        """`gradient_norm`, and about how much the loss could still fall, by what rows last owed for theirs."""
        norm = self.gradient_norm()
        return norm, self._left_by_norm * norm**2 / 4

    def step(self, chosen: Chosen, *, forcing: float, max_products: int = 50) -> float:
        """Newton's step of the chosen rows together; how much lower the loss is then, at least 0.

        Damped more after a step that would have raised the loss, which is taken back, and less after one that did not.
        """
        chosen = {side: rows for side, rows in chosen.items() if len(rows)}
        before = {side: self._halves[side].table[rows] for side, rows in chosen.items()}
        for _ in range(MAX_REFUSALS):
            steps = self._newton(chosen, forcing, max_products)
            rise = sum(self.move(side, rows, before[side] + steps[side]) for side, rows in chosen.items())
            if rise <= 0:
                self._damping = max(self._damping / 4, LEAST_DAMPING)
                return -rise
            for side, rows in reversed(chosen.items()):
                self.move(side, rows, before[side])
            self._damping *= 8
        return 0.0

    def _newton(self, chosen: Chosen, forcing: float, max_products: int) -> dict[Side, Floats]:
        """Where conjugate gradients lead on (H + damping·M)·step = what is owed, M⁻¹ being the preconditioner."""
        system = _System(self, chosen)
        residual = {side: self._owed(side, rows) for side, rows in chosen.items()}
        step = {side: np.zeros_like(part) for side, part in residual.items()}
        search = system.preconditioned(residual)
        weighed = residual  # M times the search direction, by the same recurrence as the direction itself
        norm, promised = _dot(residual, search), 0.0
        for _ in range(max_products):
            if not norm > 0:
                break
            curved = _plus(system.product(search), self._damping, weighed)
            curvature = _dot(search, curved)
            if not curvature > self._damping / 2 * _dot(search, weighed):
                break  # hardly curved, or the wrong way: the picture does not hold that far
            length = norm / curvature
            step = _plus(step, length, search)
            promised += length * norm
            if length * norm < forcing * promised:
                break
            residual = _plus(residual, -length, curved)
            nearer = system.preconditioned(residual)
            norm, last = _dot(residual, nearer), norm
            search, weighed = _plus(nearer, norm / last, search), _plus(residual, norm / last, weighed)
        system.end()
        return search if promised == 0 else step


class _System:
    """Half the Hessian of the chosen rows, as products, and its preconditioner.

    Where the chosen rows of one side have far more entries than those of the other, most of them lead to rows that are
    not chosen, and matter only for the rows' own Hessians. These are then taken to be what the preconditioner takes
    them to be, and the entries are not looked at: a user's request does not wait for the audience of a blockbuster.
    """

    def __init__(self, state: AffectedRows[Any], chosen: Chosen) -> None:
        sides = list(chosen)
        self.h, self.sides, self.chosen = state._h, sides, chosen
        self.halves = state._halves
        kind = self.h.dtype
        self.eigen = {side: state._eigen(side) for side in sides}
        self.spectra = {side: state._spectra(side, chosen[side]) for side in sides}
        self.grams = {side: state._seen(self.halves[side.other].gram).astype(kind) for side in sides}
        self.order: dict[Side, NDArray[np.int64]] = {}
        self.n_entries = {}
        for side in sides:
            half, rows = self.halves[side], chosen[side]
            half.place[rows] = np.arange(len(rows), dtype=np.int32)
            self.order[side] = np.argsort(-half.counts[rows], kind="stable")
            self.n_entries[side] = int(half.counts[rows].sum())
        self.thin = min(sides, key=lambda side: self.n_entries[side])
        self.is_thin = (
            len(sides) == 2 and MANY_MORE * self.n_entries[self.thin] < self.n_entries[self.thin.other]
        )

    def end(self) -> None:
        for side in self.sides:
            self.halves[side].place[self.chosen[side]] = -1

    def preconditioned(self, vectors: dict[Side, Floats]) -> dict[Side, Floats]:
        return {side: self._rotated(side, part, 1 / self.spectra[side]) for side, part in vectors.items()}

    def _rotated(self, side: Side, vectors: Floats, spectra: Floats) -> Floats:
        basis, _ = self.eigen[side]
        return _times(_times(vectors, basis) * spectra, basis.T)

    def product(self, vectors: dict[Side, Floats]) -> dict[Side, Floats]:
        through = {side: self._through_grams(side, vectors) for side in self.sides}
        entries = self._thin_entries(vectors) if self.is_thin else self._entries(vectors)
        products = {}
        for side, own in vectors.items():
            half, rows = self.halves[side], self.chosen[side]
            products[side] = self.h * entries[side] + half.missing[rows, None] * through[side]
            if self.is_thin and side is not self.thin:
                products[side] += self._rotated(side, own, self.spectra[side])
            else:
                products[side] += (
                    half.missing[rows, None] * _times(own, self.grams[side]) + half.l2[rows, None] * own
                )
        return products

    def _through_grams(self, side: Side, vectors: dict[Side, Floats]) -> Floats:
        """How Ĝ moves with the other side's rows, times the rows of this side."""
        table = self.halves[side].table[self.chosen[side]]
        if side.other not in vectors:
            return np.zeros_like(table)
        other, fellows = self.halves[side.other], self.chosen[side.other]
        turn = _times((other.missing[fellows, None] * vectors[side.other]).T, other.table[fellows])
        return _times(table, (turn + turn.T) * np.outer(self.h, self.h))

    def _entries(self, vectors: dict[Side, Floats]) -> dict[Side, Floats]:
        products = {}
        for side, own in vectors.items():
            half, other, rows = self.halves[side], self.halves[side.other], self.chosen[side]
            beside = vectors.get(side.other, np.zeros((0, own.shape[1]), own.dtype))
            products[side] = np.empty_like(own)
            with threads_for(4 * self.n_entries[side] * own.shape[1]):
                curve_rows(
                    self.order[side],
                    rows,
                    half.starts,
                    half.counts,
                    half.columns,
                    half.weights,
                    self.h * half.table[rows],
                    self.h * own,
                    half.missing[rows],
                    other.table,
                    other.missing,
                    other.place,
                    np.ascontiguousarray(beside),
                    products[side],
                    n_threads(),
                )
        return products

    def _thin_entries(self, vectors: dict[Side, Floats]) -> dict[Side, Floats]:
        side = self.thin
        half, other, rows = self.halves[side], self.halves[side.other], self.chosen[side]
        products = {each: np.empty_like(vectors[each]) for each in self.sides}
        curve_pairs(
            rows,
            half.starts,
            half.counts,
            half.columns,
            half.weights,
            self.h,
            half.table[rows],
            np.ascontiguousarray(vectors[side]),
            half.missing[rows],
            other.table,
            other.missing,
            other.place,
            np.ascontiguousarray(vectors[side.other]),
            products[side],
            products[side.other],
        )
        return products


def _largest(rows: Chosen, owed: dict[Side, NDArray[np.float64]], spare: float) -> Chosen:
    """The rows that owe most, so many that the others together owe no more than `spare`."""
    every = np.concatenate([owed[side] for side in SIDES])
    order = np.argsort(every)
    least = order[: np.searchsorted(np.cumsum(every[order]), spare, side="right")]
    keep = np.ones(len(every), dtype=np.bool_)
    keep[least] = False
    cut = len(owed[Side.USERS])
    return {Side.USERS: rows[Side.USERS][keep[:cut]], Side.ITEMS: rows[Side.ITEMS][keep[cut:]]}


def _times(a: Floats, b: Floats) -> Floats:
    """a @ b in the precision of a, by torch: numpy's threads go on spinning after a product and hold up the kernels."""
    b = b.astype(a.dtype, copy=False)
    if a.size * b.shape[1] < SMALL_PRODUCT:
        small: Floats = a @ b
        return small
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # products of this size are over before a second thread is awake
    try:
        return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
    finally:
        torch.set_num_threads(before)


def _dot(a: dict[Side, Floats], b: dict[Side, Floats]) -> float:
    return sum(float(np.vdot(part, b[side])) for side, part in a.items())


def _plus(a: dict[Side, Floats], factor: float, b: dict[Side, Floats]) -> dict[Side, Floats]:
    """a + factor·b, in the precision of a."""
    return {side: part + part.dtype.type(factor) * b[side] for side, part in a.items()}
