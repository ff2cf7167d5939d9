"""The state of one side of a live model, and how its rows move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.growing import appended
from alteraser.data.interactions import Interactions, Side
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.live import Grams, Moves, RowArrays, Targets
from alteraser.kernels.moves import move_rows, spread_moves
from alteraser.kernels.residuals import entry_traces
from alteraser.kernels.sparse import FixedFactors, RowWeights
from alteraser.kernels.tiles import TILE_ROWS, padded
from alteraser.live.entries import Entries
from alteraser.live.factors import SideFactors, times
from alteraser.live.residuals import Residuals, Sums
from alteraser.live.row_block import RowBlock
from alteraser.models.base import Quadratic

Floats = NDArray[Any]
# Machine epsilons of the terms that cancel in a change of the loss: a usual bound for sums of a few terms.
ROUNDING = 8


@dataclass(frozen=True)
class LossChange:
    """By how much a move changes the loss.

    `pending` counts the pending residual alone, as if the rows had none before the request; `whole` is the change of
    the loss itself, and `rounding` what that may be off by. `indefinite` says that the step met a direction in which
    the loss is not convex.
    """

    pending: float = 0.0
    whole: float = 0.0
    rounding: float = 0.0
    indefinite: bool = False

    @property
    def of_prior(self) -> float:
        """The part of the change that the prior residual brought, without regard to its sign."""
        return abs(self.whole - self.pending)

    def __add__(self, other: LossChange) -> LossChange:
        return LossChange(
            self.pending + other.pending,
            self.whole + other.whole,
            self.rounding + other.rounding,
            self.indefinite or other.indefinite,
        )


class SideState:
    """The entries, factors and residuals of the rows of one side."""

    def __init__(self, model: Quadratic, side: Side, data: Interactions, *, training_gap: float) -> None:
        """With a training gap below 1, so much less of the model's own residual is kept: the rest is deferred."""
        self.factors = SideFactors(model, side, data)
        self.entries = Entries.of(data.by(side))
        deferred = np.zeros_like(self.factors.vectors)
        if training_gap != 1:
            residual = model.row_problems(side, data).residual(model.table(side)).numpy()
            deferred = residual * deferred.dtype.type(1 - training_gap)
        self.residuals = Residuals(deferred)
        self.residuals.sum_deferred(self.factors)
        # The trace of what entries add to half a row's Hessian. It serves a preconditioner, and follows changes of the
        # entries, but neither moves of the other side nor changes of m.
        self.entry_traces = np.zeros(len(self.factors), deferred.dtype)
        self._positions = np.full(len(self.factors), -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.factors)

    def sum_traces(self, other: SideState) -> None:
        """Computes the entry traces from the beginning."""
        mine, theirs = self.factors, other.factors
        self.entry_traces = entry_traces(
            self.entries.rows, mine.missing, theirs.missing, theirs.squared_norms
        )

    def lend_positions(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Lends an array that has, for each row of the side, its place among `rows`; -1 for the others.

        `take_back_positions` must follow, whatever happens.
        """
        self._positions[rows] = np.arange(len(rows), dtype=np.int32)
        return self._positions

    def take_back_positions(self, rows: NDArray[np.int64]) -> None:
        self._positions[rows] = -1

    def row_block(self, rows: NDArray[np.int64], other: SideState) -> RowBlock:
        """Some rows as ridge problems of their own, with what their entries lead to on the other side."""
        entries, vectors, missing = self.entries.packed(rows), other.factors.vectors, other.factors.missing
        columns = entries.columns
        if len(columns) < len(vectors):  # a few rows do not wait for a look at everybody's neighbours
            vectors, missing = vectors[columns], missing[columns]
            entries = entries._replace(columns=np.arange(len(columns), dtype=np.int32))
        return RowBlock(
            entries,
            FixedFactors(self.factors.h * vectors, missing),
            RowWeights(self.factors.missing[rows], self.factors.l2[rows]),
            other.factors.gram.astype(vectors.dtype),
        )

    # Residuals -------------------------------------------------------------------------------------------------

    def pending_residual(self, rows: NDArray[np.int64], other: SideState) -> Floats:
        """What the request at hand has changed the residual of some rows by."""
        correction = times(self.factors.vectors[rows], other.factors.pending_correction)
        correction *= self.factors.missing[rows, None]
        residual: Floats = np.subtract(self.residuals.pending(rows), correction, out=correction)
        return residual

    def deferred_residual(self, rows: NDArray[np.int64], other: SideState) -> Floats:
        """What earlier requests have left of theirs in some rows."""
        correction = times(self.factors.weighted_by_m(rows), other.factors.deferred_correction)
        residual: Floats = self.residuals.deferred[rows] - correction
        return residual

    def squared_norm(self, other: SideState) -> float:
        """The sum of the squared norms of pending and deferred residuals together."""
        return self.residuals.squared_norm(self.factors, other.factors)

    def pending_squared_norm(self, other: SideState) -> float:
        return self.residuals.pending_squared_norm(self.factors, other.factors)

    def add_pending(self, rows: NDArray[np.int64], change: Floats) -> None:
        self.residuals.add_pending(rows, change, self.factors)

    def admit_prior(self, rows: NDArray[np.int64], prior: Floats, share: float, other: SideState) -> None:
        """Makes a share of the residual that some rows had before the request pending.

        `prior` is all of it: what is deferred and, beyond that, what the original was short of its optimum.
        """
        part = prior.dtype.type(share)
        deferred = self.residuals.deferred[rows]
        left = deferred - part * self.deferred_residual(rows, other)
        self.add_pending(rows, part * prior)
        self.residuals.set_deferred(rows, left, self.factors)

    def defer(self) -> None:
        """Turns pending residuals into deferred ones; the next request begins."""
        self.residuals.defer()
        self.factors.rebase_pending()

    # Moving ----------------------------------------------------------------------------------------------------

    def move(self, rows: NDArray[np.int64], targets: Targets, other: SideState) -> LossChange:
        """Turns some rows into `targets`; all residuals, on both sides, follow."""
        factors = self.factors
        kind, d = factors.vectors.dtype, len(factors.h)
        scaled = factors.h * factors.vectors[rows]
        change = factors.h * targets.vectors - scaled
        moves = Moves(scaled, change, factors.missing[rows], targets.missing)
        other.residuals.touch_neighbours(rows, self.entries.rows)
        self.residuals.touch(rows)
        with threads_for(8 * int(self.entries.counts(rows).sum()) * d):
            spread = np.zeros((n_threads(), len(rows), TILE_ROWS * padded(d)), kind)
            along_entries = np.zeros((n_threads(), 3))
            spread_moves(
                rows,
                self.entries.rows,
                moves,
                other.factors.arrays,
                other.residuals.slots,
                spread,
                along_entries,
            )
            sums = np.zeros((n_threads(), 5, padded(d) ** 2), kind)
            totals = np.zeros((n_threads(), 5))
            move_rows(
                rows,
                self._arrays,
                self.residuals.slots,
                targets,
                spread,
                self._grams(other),
                sums,
                totals,
            )
        curvature, growth_of_other, slope = along_entries.sum(0).tolist()
        fall, growth_of_deferred, growth, rest, rest_size = totals.sum(0).tolist()
        total = sums[0] if len(sums) == 1 else sums.sum(0)
        moments, sum_m2_yy, by_deferred, by_pending, by_pending_of_other = total.reshape(
            5, padded(d), padded(d)
        )[:, :d, :d]
        factors.add_to_sums(moments, sum_m2_yy)
        self.residuals.add_to_sums(
            pending=Sums(growth, by_pending), deferred=Sums(growth_of_deferred, by_deferred)
        )
        other.residuals.add_to_sums(pending=Sums(growth_of_other, by_pending_of_other))
        rounding = ROUNDING * float(np.finfo(kind).eps) * rest_size
        return LossChange(curvature - fall, rest - 2 * slope - curvature, rounding)

    @property
    def _arrays(self) -> RowArrays:
        factors = self.factors
        return RowArrays(
            factors.vectors, factors.missing, factors.l2, factors.squared_norms, self.residuals.deferred
        )

    def _grams(self, other: SideState) -> Grams:
        kind, theirs = self.factors.vectors.dtype, other.factors
        return Grams(
            self.factors.h,
            theirs.gram.astype(kind),
            theirs.deferred_correction,
            theirs.pending_correction,
        )

    def grow(self, missing: Floats, l2: Floats) -> None:
        """Appends empty rows with these weights."""
        self.factors.grow(missing, l2)
        n = len(self.factors)
        self.entries.grow(n)
        self.residuals.grow(n)
        more = n - len(self._positions)
        self.entry_traces = appended(self.entry_traces, np.zeros(more, self.entry_traces.dtype))
        self._positions = appended(self._positions, np.full(more, -1, np.int32))
