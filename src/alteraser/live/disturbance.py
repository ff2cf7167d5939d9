"""What a request has changed so far, and what that has brought to the residuals of either side since it moved last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.growing import appended
from alteraser.data.interactions import Side
from alteraser.kernels.hessian_products import gather_movement, push_movement
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.live import ChosenRows, Factors, SearchDirections
from alteraser.kernels.sparse import by_length
from alteraser.live.factors import times
from alteraser.live.side import SideState

Floats = NDArray[Any]
Rows = NDArray[np.int64]
NOBODY: Rows = np.empty(0, np.int64)
# Rows that have moved whose part in a Gram matrix is not multiplied out: with 64 dimensions that is dearer from 16 on.
MULTIPLIED_OUT = 8
# How many times as many entries must be gathered along as pushed along for pushing to be faster: gathering passes over
# most of them, and keeps what it adds up at hand. An order of magnitude.
PUSHED = 16


class _Moved:
    """Rows of one side that have moved since the request came, and where each was before."""

    def __init__(self, n_rows: int, dim: int, kind: Any) -> None:
        self.places = np.full(n_rows, -1, np.int32)  # of each row among those that moved
        self.rows, self.starts = NOBODY, np.empty((0, dim), kind)
        self._movement: Floats | None = None

    def note(self, rows: Rows, vectors: Floats) -> None:
        self._movement = None
        new = rows[self.places[rows] < 0]
        if len(new):
            places = np.arange(len(self.rows), len(self.rows) + len(new), dtype=np.int32)
            self.starts = np.concatenate([self.starts, vectors[new]])
            self.rows = np.concatenate([self.rows, new])  # before their places: these are cleared by them
            self.places[new] = places

    def movement(self, vectors: Floats) -> Floats:
        """By how much the rows have moved; computed when it is asked for after a move."""
        if self._movement is None:
            self._movement = vectors[self.rows] - self.starts
        return self._movement

    def clear(self) -> None:
        self.places[self.rows] = -1
        self.rows, self.starts, self._movement = NOBODY, self.starts[:0].copy(), None


class Disturbance:
    """What a request has brought to the rows of a side since that side moved last.

    What it gave to rows itself, rows of the other side that have moved, and the other side's Gram matrix of before.
    """

    def __init__(self, sides: dict[Side, SideState]) -> None:
        self._sides = sides
        self._moved = {
            side: _Moved(len(each), len(each.factors.h), each.factors.vectors.dtype)
            for side, each in sides.items()
        }
        self.clear()

    def clear(self) -> None:
        """The request is over: nothing of it is kept."""
        self._grams = {side: each.factors.gram.copy() for side, each in self._sides.items()}
        self._reweighed: set[Side] = set()
        self._noted: dict[Side, tuple[Rows, Floats]] = {}  # each row once
        for moved in self._moved.values():
            moved.clear()

    def reaches(self, side: Side) -> bool:
        """Whether anything was brought to the rows of a side."""
        return side in self._noted or len(self._moved[side.other].rows) > 0

    def note_weights(self, side: Side) -> None:
        """Notes that rows of a side have got other weights in missing entries."""
        self._reweighed.add(side)

    def drop_noted(self, side: Side) -> None:
        """The rows of the pairs that have changed take what these have brought to them."""
        self._noted.pop(side, None)

    def reset(self, side: Side, rows: Rows, left: Floats | None) -> None:
        """Counts only what is brought to a side from here on, as its rows have moved.

        What some rows have `left` of what was brought so far is brought to them again, if it is known; the rest is let
        go.
        """
        self.drop_noted(side)
        self._moved[side.other].clear()
        self._grams[side.other] = self._sides[side.other].factors.gram.copy()
        self._reweighed.discard(side.other)
        if left is not None:
            self._noted[side] = rows, left

    def grow(self) -> None:
        """Takes in rows that were appended, between two requests."""
        for side, each in self._sides.items():
            more = len(each) - len(self._moved[side].places)
            moved = self._moved[side]
            moved.places = appended(moved.places, np.full(more, -1, np.int32))

    def note(self, side: Side, rows: Rows, gains: Floats) -> None:
        """Notes what changed pairs and weights give to the residuals of their rows; a row may come more than once."""
        before, gained = self._noted.get(side, (NOBODY, gains[:0]))
        all_rows = np.concatenate([before, rows])
        order = np.argsort(all_rows, kind="stable")
        each, starts = np.unique(all_rows[order], return_index=True)
        if len(each):
            sums = np.add.reduceat(np.concatenate([gained, gains])[order], starts)
            self._noted[side] = each, sums

    def note_move(self, side: Side, rows: Rows) -> None:
        """Notes where some rows are, before they move."""
        self._moved[side].note(rows, self._sides[side].factors.vectors)

    def moved(self, side: Side) -> Rows:
        return self._moved[side].rows

    def noted(self, side: Side) -> tuple[Rows, Floats]:
        """The rows to which changed pairs, or their own last step, have brought something; the squares of how much."""
        if side not in self._noted:
            return NOBODY, np.empty(0, self._sides[side].factors.h.dtype)
        rows, gains = self._noted[side]
        return rows, np.square(gains).sum(1)

    def movement(self, side: Side) -> Floats:
        """By how much the rows that have moved did so."""
        return self._moved[side].movement(self._sides[side].factors.vectors)

    def n_entries_of_moved(self, side: Side) -> int:
        """How many entries the rows have that have moved."""
        return int(self._sides[side].entries.counts(self._moved[side].rows).sum())

    def neighbours(self, side: Side, *, most: float = math.inf) -> tuple[Rows, Floats]:
        """The rows that entries of moved rows of the other side lead to, and Σ‖movement‖ over those entries.

        Of rows that have moved those are followed that did so farthest, as long as they have `most` entries together.
        """
        others, moved = self._sides[side.other], self._moved[side.other].rows
        lengths = np.sqrt(np.square(self.movement(side.other)).sum(1))
        if int(others.entries.counts(moved).sum()) > most:
            farthest = np.argsort(-lengths, kind="stable")
            within = np.cumsum(others.entries.counts(moved[farthest])) <= most
            within[0] = True
            moved, lengths = moved[farthest[within]], lengths[farthest[within]]
        entries = others.entries.packed(moved)
        weights = np.repeat(lengths, entries.stops - entries.starts)
        sums = np.bincount(entries.columns, weights, minlength=len(self._sides[side]))
        rows = np.flatnonzero(sums)
        return rows, sums[rows]

    def brought_to(self, side: Side, rows: Rows) -> Floats:
        """By how much the residuals of some rows have changed since their side moved last, to first order."""
        own = self._sides[side]
        vectors = own.factors.vectors[rows]
        brought = self._through_gram(side.other, vectors)
        brought *= -own.factors.missing[rows, None]
        n_moved = self.n_entries_of_moved(side.other)
        if n_moved or side in self._noted:
            try:
                positions = own.lend_positions(rows)
                if n_moved:
                    brought -= self._along_entries(side, rows, positions, n_moved)
                if side in self._noted:
                    noted, gains = self._noted[side]
                    at = positions[noted]
                    brought[at[at >= 0]] += gains[at >= 0]
            finally:
                own.take_back_positions(rows)
        return brought

    def _through_gram(self, of: Side, vectors: Floats) -> Floats:
        """Vectors times the change of a side's Gram matrix; that of a few rows is not multiplied out."""
        factors, moved = self._sides[of].factors, self._moved[of]
        if len(moved.rows) > MULTIPLIED_OUT or of in self._reweighed:
            return times(vectors, factors.gram - self._grams[of])
        scaled = factors.h * np.concatenate([factors.vectors[moved.rows], moved.starts])
        missing = factors.missing[moved.rows]
        return times(times(vectors, scaled.T) * np.concatenate([missing, -missing]), scaled)

    def _along_entries(self, side: Side, rows: Rows, positions: NDArray[np.int32], n_moved: int) -> Floats:
        """What entries add to the Hessian times the other side's movement, in some rows.

        It is pushed along the entries of the rows that have moved where these are few, else gathered along the others'.
        """
        own, other, h = self._sides[side], self._sides[side.other], self._sides[side].factors.h
        moved, movement = self._moved[side.other], self.movement(side.other)
        counts = own.entries.counts(rows)
        products = np.zeros((len(rows), len(h)), h.dtype)
        n_own = int(counts.sum())
        # Not every entry that is looked at leads to a row that has moved, or is wanted.
        with threads_for(2 * min(n_own, n_moved) * len(h)):
            if PUSHED * n_moved <= n_own:
                push_movement(
                    moved.rows,
                    other.entries.rows,
                    h,
                    ChosenRows(
                        other.factors.vectors[moved.rows], movement, other.factors.missing[moved.rows]
                    ),
                    own.factors.arrays,
                    positions,
                    products,
                    n_threads(),
                )
            else:
                gather_movement(
                    by_length(counts),
                    rows,
                    own.entries.rows,
                    Factors(h * own.factors.vectors[rows], own.factors.missing[rows]),
                    other.factors.arrays,
                    SearchDirections(moved.places, movement),
                    products,
                    n_threads(),
                )
        products *= h
        return products
