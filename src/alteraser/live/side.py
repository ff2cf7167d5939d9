"""One side of a live model: its entries and vectors, the residuals of its rows, and how these move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.growing import appended
from alteraser.data.interactions import Interactions, Side
from alteraser.kernels.hessian_products import row_products
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.live import Factors, RowArrays
from alteraser.kernels.residuals import entry_curvatures, entry_traces, measure_moves, row_residuals
from alteraser.kernels.sparse import FixedFactors, RowWeights, by_length
from alteraser.live.entries import Entries
from alteraser.live.factors import SideFactors, times
from alteraser.live.row_block import RowBlock
from alteraser.models.base import Quadratic

Floats = NDArray[Any]
# Machine epsilons of the terms that cancel in a change of the loss: a usual bound for sums of a few terms.
ROUNDING = 8


@dataclass(frozen=True)
class LossChange:
    """By how much a move changes the loss.

    `pending` is without what rows keep of their residuals, as if the original had been at its optimum; `whole` is the
    change of the loss itself, and `rounding` what that may be off by. `indefinite` says that the step met a direction
    in which the loss is not convex.
    """

    pending: float = 0.0
    whole: float = 0.0
    rounding: float = 0.0
    indefinite: bool = False

    @property
    def of_kept(self) -> float:
        """The part of the change that residuals which rows keep have brought, without regard to its sign."""
        return abs(self.whole - self.pending)

    def __add__(self, other: LossChange) -> LossChange:
        return LossChange(
            self.pending + other.pending,
            self.whole + other.whole,
            self.rounding + other.rounding,
            self.indefinite or other.indefinite,
        )


class SideState:
    """The entries and factors of the rows of one side, and what each row is to keep of its residual.

    A residual is computed from the row's entries when it is asked for; none is stored. `kept` is what the original was
    short of its optimum: constant, as long as the row has entries and nothing of it is given up.
    """

    def __init__(self, model: Quadratic, side: Side, data: Interactions) -> None:
        self.factors = SideFactors(model, side, data)
        self.entries = Entries.of(data.by(side))
        self.kept: Floats = np.zeros_like(self.factors.vectors)
        # The trace of what entries add to half a row's Hessian. It serves a preconditioner, and follows changes of the
        # entries, but neither moves of the other side nor changes of m.
        self.entry_traces = np.zeros(len(self.factors), self.kept.dtype)
        self._positions = np.full(len(self.factors), -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.factors)

    def sum_traces(self, other: SideState) -> None:
        """Computes the entry traces from the beginning."""
        mine, theirs = self.factors, other.factors
        self.entry_traces = entry_traces(
            self.entries.rows, mine.missing, theirs.missing, theirs.squared_norms
        )

    def occupied(self) -> NDArray[np.int64]:
        """The rows that have entries."""
        return np.flatnonzero(self.entries.all_counts())

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

    def residual(self, rows: NDArray[np.int64], other: SideState) -> Floats:
        """The residual of some rows, less what they keep of it."""
        d, counts = len(self.factors.h), self.entries.counts(rows)
        residual = np.empty((len(rows), d), self.kept.dtype)
        with threads_for(4 * int(counts.sum()) * d):
            row_residuals(
                by_length(counts),
                rows,
                self.entries.rows,
                self._arrays,
                other.factors.arrays,
                other.factors.gram.astype(residual.dtype),
                residual,
                n_threads(),
            )
        residual -= self.kept[rows]
        return residual

    def move(self, rows: NDArray[np.int64], vectors: Floats, other: SideState) -> LossChange:
        """Turns some rows into `vectors`; tells what that does to the loss."""
        counts = self.entries.counts(rows)
        with threads_for(4 * int(counts.sum()) * len(self.factors.h)):
            totals = np.zeros((n_threads(), 3))
            measure_moves(
                by_length(counts),
                rows,
                self.entries.rows,
                self._arrays,
                vectors - self.factors.vectors[rows],
                other.factors.arrays,
                other.factors.gram.astype(vectors.dtype),
                totals,
            )
        of_loss, of_kept, size = totals.sum(0).tolist()
        self.factors.place(rows, vectors)
        return LossChange(of_loss + of_kept, of_loss, ROUNDING * float(np.finfo(vectors.dtype).eps) * size)

    def entry_curvatures(
        self, rows: NDArray[np.int64], change: Floats, other: SideState, *, most: int
    ) -> Floats:
        """What entries add to changeᵀA·change of each of some rows; so many of a row's at most stand for all."""
        counts = np.minimum(self.entries.counts(rows), most)
        curvatures = np.empty(len(rows), change.dtype)
        with threads_for(2 * int(counts.sum()) * len(self.factors.h)):
            entry_curvatures(
                by_length(counts),
                rows,
                self.entries.rows,
                Factors(self.factors.h * change, self.factors.missing[rows]),
                other.factors.arrays,
                most,
                curvatures,
                n_threads(),
            )
        return curvatures

    def products(self, rows: NDArray[np.int64], vectors: Floats, other: SideState) -> Floats:
        """A times a vector of each of some rows, A being half the row's Hessian."""
        h, counts = self.factors.h, self.entries.counts(rows)
        products = np.empty_like(vectors)
        missing = self.factors.missing[rows]
        with threads_for(2 * int(counts.sum()) * len(h)):
            row_products(
                by_length(counts),
                rows,
                self.entries.rows,
                Factors(h * vectors, missing),
                other.factors.arrays,
                products,
                n_threads(),
            )
        products *= h
        products += missing[:, None] * times(vectors, other.factors.gram)
        products += self.factors.l2[rows, None] * vectors
        return products

    @property
    def _arrays(self) -> RowArrays:
        factors = self.factors
        return RowArrays(factors.h, factors.vectors, factors.missing, factors.l2, self.kept)

    def grow(self, missing: Floats, l2: Floats) -> None:
        """Appends empty rows with these weights."""
        self.factors.grow(missing, l2)
        n = len(self.factors)
        self.entries.grow(n)
        more = n - len(self._positions)
        self.kept = appended(self.kept, np.zeros((more, self.kept.shape[1]), self.kept.dtype))
        self.entry_traces = appended(self.entry_traces, np.zeros(more, self.entry_traces.dtype))
        self._positions = appended(self._positions, np.full(more, -1, np.int32))
