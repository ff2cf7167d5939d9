"""What is kept of one side of a model while interactions are deleted: rows, entries and what each row owes.

With y_r the vectors of one side and x_c = h ⊙ y_c those of the other as scores see them, half of minus the gradient of
L in row r is

    e_r = Σ_{c∈R_r} (w − lift·ŷ)·x_c − m_r·Ĝ·y_r − λ_r·y_r,    lift = w − m_r m_c,    Ĝ = Σ_c m_c x_c x_cᵀ over all c.

A change of the other side reaches a row through their common entries, and all rows through Ĝ. That part is not written
into anybody's row: what is stored is E_r = e_r + m_r·(Ĝ − Ĝ₀)·y_r for a Ĝ₀ that stays as it was, and the sums Σ‖E_r‖²,
Σ m_r y_r E_rᵀ and Σ m_r² y_r y_rᵀ give the norm of the gradient of rows that nobody visits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.ripples import (
    add_rows,
    entry_masses,
    find_neighbours,
    fold_rows,
    give_slots,
    move_rows,
)
from alteraser.kernels.tiles import padded
from alteraser.models.bilinear import Bilinear
from alteraser.models.ridge import weighted_gram

Floats = NDArray[Any]
SMALL_PRODUCT = 2**18  # multiplications: numpy's own threads stay out of it


class Moved(NamedTuple):
    """What a move of rows does to the loss, but for what the entries' own curvature and slope bring."""

    fall: float  # by how much it falls, debts apart
    rest: float  # what missing entries and penalties add to it, debts and all
    rest_size: float  # the same, without regard to sign: what its rounding errors go by


@dataclass(eq=False, repr=False)
class Half:
    """One side. What a deletion brings is new and stands in slots of its own, apart from the debts of earlier ones.

    Rows may lose entries, so that their lengths stand beside their starts.
    """

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]
    table: Floats  # y, [n, d]
    squares: Floats  # ‖h ⊙ y‖², [n]
    masses: Floats  # about Σ lift·‖x_c‖², the trace of the entries' part of a row's Hessian, [n]
    missing: Floats  # m, [n]
    l2: Floats  # λ, [n]
    outer: NDArray[np.float64]  # h hᵀ
    gram: NDArray[np.float64]  # Σ m (h ⊙ y)(h ⊙ y)ᵀ: what the other side calls Ĝ
    mass: NDArray[np.float64]  # Σ m² y yᵀ
    place: NDArray[np.int32]  # in a step: where among the chosen rows; -1 for the others
    # Debts: E since Ĝ₀, the other side's gram then, and its sums.
    debt: Floats  # [n, d]
    gram_before: NDArray[np.float64]
    norm: float
    slant: NDArray[np.float64]
    # What is new: E since the other side's `gram_start`, and its sums.
    gram_start: NDArray[np.float64]
    slots: NDArray[np.int32]  # where a row's part of `new` stands; -1: it has none
    owners: NDArray[np.int64]  # the rows that have a slot, in its order
    new: Floats  # [slots, d]
    n_new: int = 0
    new_norm: float = 0.0
    new_slant: NDArray[np.float64] | float = 0.0

    @classmethod
    def of(cls, model: Bilinear, side: Side, data: Interactions, *, training_gap: float) -> Half:
        """With a training gap below 1, a part of the gradient that the model has is a debt from the beginning."""
        problems, csr = model.row_problems(side, data), data.by(side)
        own = model.table(side)
        table = own.numpy().copy()
        debt = np.zeros_like(table)
        if training_gap != 1:
            debt = problems.residual(own).numpy() * table.dtype.type(1 - training_gap)
        missing = problems.missing_row.numpy().copy()
        h = model.h.numpy()
        outer = np.outer(h, h).astype(np.float64)
        weights = problems.missing_row.double()
        gram = weighted_gram(own, weights, torch.float64).numpy() * outer
        return cls(
            starts=csr.starts[:-1].copy(),
            counts=csr.counts,
            columns=csr.columns.copy(),
            weights=csr.weights.copy(),
            table=table,
            squares=np.square(h * table).sum(1),
            masses=np.zeros(len(table), table.dtype),
            missing=missing,
            l2=problems.l2.numpy().copy(),
            outer=outer,
            gram=gram,
            mass=weighted_gram(own, weights.square(), torch.float64).numpy(),
            place=np.full(len(table), -1, dtype=np.int32),
            debt=debt,
            gram_before=gram.copy(),
            norm=0.0,
            slant=np.zeros_like(gram),
            gram_start=gram.copy(),
            slots=np.full(len(table), -1, dtype=np.int32),
            owners=np.empty(len(table), np.int64),
            new=np.zeros_like(table),
        )

    def sum_up(self, other: Half) -> None:
        """The sums of the debts, and what stands for the rows' Hessians, from the beginning."""
        self.masses = entry_masses(
            self.starts, self.counts, self.columns, self.weights, self.missing, other.missing, other.squares
        )
        owing = np.flatnonzero(self.debt.any(1))
        debt = self.debt[owing].astype(np.float64)
        self.norm = float(np.square(debt).sum())
        self.slant = times((self.missing[owing, None] * self.table[owing].astype(np.float64)).T, debt)

    def squares_of_rows(self) -> NDArray[np.float64]:
        """Σ y yᵀ, weighted if rows weigh anything: which directions are empty does not depend on it."""
        if self.mass.any():
            return self.mass
        table = self.table.astype(np.float64)
        squares: NDArray[np.float64] = table.T @ table
        return squares

    @property
    def drift(self) -> NDArray[np.float64]:
        """The gram at the beginning of what is new, less Ĝ₀: what earlier changes of these rows amount to."""
        return self.gram_start - self.gram_before

    @property
    def new_drift(self) -> NDArray[np.float64]:
        """The gram less what it was at the beginning of what is new."""
        return self.gram - self.gram_start

    # What is new -----------------------------------------------------------------------------------------------

    @property
    def touched(self) -> NDArray[np.int64]:
        """The rows that something new was written to."""
        return self.owners[: self.n_new]

    def new_of(self, rows: NDArray[np.int64]) -> Floats:
        slots = self.slots[rows]
        new: Floats = self.new[slots]
        new[slots < 0] = 0
        return new

    def add(self, rows: NDArray[np.int64], change: Floats) -> None:
        """Something new for some rows; a row may be named more than once."""
        self.n_new = give_slots(rows, self.slots, self.owners, self.n_new)
        self.new_norm += float(add_rows(rows, change, self.slots, self.new))
        self.new_slant += times((self.missing[rows, None] * self.table[rows]).T, change)

    def reach(self, rows: NDArray[np.int64], other: Half) -> None:
        """The neighbours of some rows of the other side get slots."""
        self.n_new = find_neighbours(
            rows, other.starts, other.counts, other.columns, self.slots, self.owners, self.n_new
        )

    def squared_norm(self, other: Half) -> float:
        """Σ‖e_r‖² over all rows, debts and what is new together; only touched rows are looked at."""
        norm, moved = self.norm + self.new_norm, other.gram - other.gram_before
        if self.n_new:
            debt, new = self.debt[self.touched], self.new[: self.n_new]
            norm += 2 * float(np.einsum("rj,rj->", debt, new, dtype=np.float64))
        return _squared_norm(norm, self.slant + self.new_slant, self.mass, moved)

    def new_squared_norm(self, other: Half) -> float:
        """The same of what is new alone; no row is looked at."""
        return _squared_norm(self.new_norm, self.new_slant, self.mass, other.new_drift)

    def call_in(self, rows: NDArray[np.int64], apart: Floats, share: float, other: Half) -> None:
        """A share of what some rows have apart from what is new counts as new; each row is named once.

        That is their debt and, beyond it, the gradient that the original had in them: `apart` is all of it.
        """
        part = self.table.dtype.type(share)
        missing, table = self.missing[rows, None], self.table[rows]
        self.add(rows, part * apart)
        before = self.debt[rows]
        after = before - part * (before - missing * times(table, other.drift))
        self.norm += float(
            np.square(after, dtype=np.float64).sum() - np.square(before, dtype=np.float64).sum()
        )
        self.slant += times((missing * table).T, after - before)
        self.debt[rows] = after

    def close(self) -> None:
        """What is new becomes a debt like the others."""
        if self.n_new == 0:
            return
        with threads_for(8 * self.n_new * self.table.shape[1]):
            self.norm += float(fold_rows(self.touched, self.new, self.debt, self.slots))
        self.touched[:] = 0
        self.slant += self.new_slant
        self.n_new, self.new_norm, self.new_slant = 0, 0.0, 0.0

    def call_in_all(self, owed: Floats) -> None:
        """Of all rows what they owe counts as new, and Ĝ₀ becomes Ĝ."""
        self.debt, self.new = np.zeros_like(self.debt), owed
        self.n_new = len(owed)
        self.owners, self.slots = np.arange(self.n_new), np.arange(self.n_new, dtype=np.int32)
        exact = owed.astype(np.float64)
        self.new_norm = float(np.square(exact).sum())
        self.new_slant = times((self.missing[:, None] * self.table.astype(np.float64)).T, exact)
        self.gram_before = self.gram.copy()

    def move(
        self,
        rows: NDArray[np.int64],
        vectors: Floats,
        missing: Floats,
        l2: Floats,
        *,
        h: Floats,
        spread: Floats,
        other: Half,
    ) -> Moved:
        """Rows become `vectors` once their change was spread."""
        self.n_new = give_slots(rows, self.slots, self.owners, self.n_new)
        kind, d = self.table.dtype, len(h)
        sums = np.zeros((n_threads(), 5, padded(d) ** 2), kind)
        totals = np.zeros((n_threads(), 5))
        move_rows(
            rows,
            self.table,
            self.missing,
            self.l2,
            self.debt,
            self.slots,
            self.new,
            self.squares,
            h,
            vectors,
            missing,
            l2,
            spread,
            other.gram.astype(kind),
            other.drift.astype(kind),
            other.new_drift.astype(kind),
            sums,
            totals,
        )
        gram, mass, slant, new_slant, of_other = sums.sum(0).reshape(5, padded(d), padded(d))[:, :d, :d]
        self.gram += self.outer * gram
        self.mass += mass
        self.slant += slant
        self.new_slant += new_slant
        other.new_slant += of_other
        fall, growth, growth_of_new, rest, rest_size = totals.sum(0).tolist()
        self.norm += growth
        self.new_norm += growth_of_new
        return Moved(fall, rest, rest_size)

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Rows of zeros without entries are at their minimum, whatever the original's gradient was."""
        self.norm -= float(np.square(self.debt[rows]).sum(dtype=np.float64))
        self.new_norm -= float(np.square(self.new_of(rows)).sum(dtype=np.float64))
        self.debt[rows] = 0
        self.new[self.slots[rows]] = 0


def _squared_norm(
    norm: float, slant: NDArray[np.float64] | float, mass: NDArray[np.float64], drift: NDArray[np.float64]
) -> float:
    """Σ‖E_r − m_r·drift·y_r‖² over all rows, from the sums of E."""
    if not drift.any():
        return max(norm, 0.0)
    total = norm - 2 * (drift * slant).sum() + ((drift @ drift) * mass).sum()
    return max(float(total), 0.0)


def times(a: Floats, b: Floats) -> Floats:
    """a @ b in the precision of a, by torch: numpy's threads go on spinning after a product and hold up the kernels."""
    b = b.astype(a.dtype, copy=False)
    if a.size * b.shape[1] < SMALL_PRODUCT:
        small: Floats = a @ b
        return small
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # before others were awake it would be over
    try:
        return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
    finally:
        torch.set_num_threads(before)
