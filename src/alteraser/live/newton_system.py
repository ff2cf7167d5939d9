"""Newton's equations of chosen rows of both sides together, as products with half their Hessian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Side
from alteraser.kernels.hessian_products import hessian_products, hessian_products_of_pairs
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.live import ChosenRows, SearchDirections
from alteraser.kernels.sparse import by_length
from alteraser.live.factors import times
from alteraser.live.state import LiveState
from alteraser.optim.conjugate_gradients import Stopping, conjugate_gradients

Floats = NDArray[Any]
Chosen = dict[Side, NDArray[np.int64]]
NOBODY = np.empty(0, np.int64)
# Products of a step at most; conjugate gradients end by what they promise long before, on every data set at hand.
MAX_PRODUCTS = 50
# How many times as many entries the chosen rows of one side must have for theirs not to be looked at. Tuned on ml-1m,
# where an item has fifty times the entries of a user.
MANY_MORE = 8
# The share of a gain that the next one is believed to be at most.
MOST_KEPT = 0.9


class _Part:
    """The chosen rows of one side, and what a product needs of them again and again."""

    def __init__(self, state: LiveState[Any], side: Side, rows: NDArray[np.int64], begin: int) -> None:
        own, kind = state.sides[side], state.h.dtype
        preconditioner, factors = state.preconditioner(side), own.factors
        self.own, self.rows = own, rows
        self.at = slice(begin, begin + len(rows))
        self.gram = state.sides[side.other].factors.gram.astype(kind)
        self.basis, self.back = preconditioner.basis, np.ascontiguousarray(preconditioner.basis.T)
        self.scales = preconditioner.scales(own, rows)
        self.vectors, self.missing, self.l2 = factors.vectors[rows], factors.missing[rows], factors.l2[rows]
        self.weighted = self.missing[:, None] * self.vectors
        counts = own.entries.counts(rows)
        self.n_entries = int(counts.sum())
        self.longest_first = by_length(counts)


class NewtonSystem:
    """Half the Hessian of the chosen rows, as products, and its preconditioner.

    Vectors hold the chosen users first, then the chosen items.

    Where the chosen rows of one side have far more entries than those of the other, most of them lead to rows that are
    not chosen, and matter only for the rows' own Hessians. These are then taken to be what the preconditioner takes
    them to be, and the entries are not looked at: a user's request does not wait for the audience of a blockbuster.
    """

    def __init__(self, state: LiveState[Any], chosen: Chosen) -> None:
        """Borrows the positions of both sides; `close` gives them back. Every chosen row has entries."""
        self._sides, self._h = state.sides, state.h
        self._outer = np.outer(self._h, self._h)
        self._parts: dict[Side, _Part] = {}
        begin = 0
        for side, rows in chosen.items():
            self._parts[side] = _Part(state, side, rows, begin)
            begin += len(rows)
        fewer = min(self._parts, key=lambda side: self._parts[side].n_entries)
        more = self._parts.get(fewer.other)
        one_sided = more is not None and MANY_MORE * self._parts[fewer].n_entries < more.n_entries
        self._only_entries_of = fewer if one_sided else None
        self._chosen = {side: chosen.get(side, NOBODY) for side in state.sides}
        self._positions = {
            side: each.lend_positions(self._chosen[side]) for side, each in state.sides.items()
        }

    def close(self) -> None:
        """Gives back what was borrowed of the state."""
        for side, rows in self._chosen.items():
            self._sides[side].take_back_positions(rows)

    def split(self, vectors: Floats) -> dict[Side, Floats]:
        return {side: vectors[part.at] for side, part in self._parts.items()}

    def precondition(self, vectors: Floats) -> Floats:
        """The preconditioner times vectors."""
        nearer = np.empty_like(vectors)
        for part in self._parts.values():
            nearer[part.at] = times(times(vectors[part.at], part.basis) * part.scales, part.back)
        return nearer

    def product(self, vectors: Floats, m_vectors: Floats) -> Floats:
        """Half the Hessian times vectors; `m_vectors` is M times them, M⁻¹ being the preconditioner."""
        one = self._only_entries_of
        products = self._of_entries(vectors) if one is None else self._of_entries_of(one, vectors)
        products *= self._h
        for side, part in self._parts.items():
            product, own = products[part.at], vectors[part.at]
            if side.other in self._parts:  # Ĝ moves with the other side's rows
                others = self._parts[side.other]
                turn = times(vectors[others.at].T, others.weighted)
                product += times(part.weighted, (turn + turn.T) * self._outer)
            if one in (None, side):
                product += part.missing[:, None] * times(own, part.gram) + part.l2[:, None] * own
            else:
                product += m_vectors[part.at]
        return products

    def _of_entries(self, vectors: Floats) -> Floats:
        products, zero = np.empty_like(vectors), np.zeros_like(vectors[:1])
        for side, part in self._parts.items():
            others = self._parts.get(side.other)
            beside = zero if others is None else np.concatenate([vectors[others.at], zero])
            with threads_for(4 * part.n_entries * vectors.shape[1]):
                hessian_products(
                    part.longest_first,
                    part.rows,
                    part.own.entries.rows,
                    ChosenRows(self._h * part.vectors, self._h * vectors[part.at], part.missing),
                    self._sides[side.other].factors.arrays,
                    SearchDirections(self._positions[side.other], beside),
                    products[part.at],
                    n_threads(),
                )
        return products

    def _of_entries_of(self, side: Side, vectors: Floats) -> Floats:
        part, others = self._parts[side], self._parts[side.other]
        products = np.zeros_like(vectors)
        hessian_products_of_pairs(
            part.rows,
            part.own.entries.rows,
            self._h,
            ChosenRows(part.vectors, vectors[part.at], part.missing),
            others.own.factors.arrays,
            SearchDirections(self._positions[side.other], vectors[others.at]),
            products[part.at],
            products[others.at],
        )
        return products


class NewtonStep(NamedTuple):
    """A step of chosen rows: by how much it should lower the loss, and how much lower it could be by more products.

    `indefinite` says that conjugate gradients met a direction in which the loss is not convex.
    """

    by: dict[Side, Floats]
    promised: float
    left: float
    indefinite: bool


def newton_step(
    state: LiveState[Any], chosen: Chosen, *, damping: float, forcing: float, enough: float
) -> NewtonStep:
    """The step that removes the residual of chosen rows together, as far as conjugate gradients come.

    They solve (A + damping·M)·step = residual, M⁻¹ being the preconditioner, and stop at the first product whose gain
    is below both `enough` and `forcing` times the gain of all.
    """
    stopping = Stopping(forcing=forcing, enough=enough, max_products=MAX_PRODUCTS)
    residual = np.concatenate([state.residual(side, rows) for side, rows in chosen.items()])
    system = NewtonSystem(state, chosen)
    try:
        solved = conjugate_gradients(
            residual[None],  # one system
            lambda search, m_search: system.product(search[0], m_search[0])[None],
            stopping=stopping,
            precondition=lambda vectors: system.precondition(vectors[0])[None],
            damping=damping,
        )
        gains = [float(gain[0]) for gain in solved.gains]
        return NewtonStep(
            system.split(solved.solution[0]), sum(gains), still_to_come(gains), solved.indefinite
        )
    finally:
        system.close()


def still_to_come(gains: Sequence[float]) -> float:
    """What will still be gained if each gain is the share of the one before it that the last was."""
    if len(gains) < 2 or not (gains[-1] > 0 and gains[-2] > 0):
        return 0.0
    share = min(gains[-1] / gains[-2], MOST_KEPT)
    return gains[-1] * share / (1 - share)
