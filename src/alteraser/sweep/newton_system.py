"""Newton's equations of some rows of both sides together, solved by conjugate gradients.

As preconditioner serves (α_r·Ĝ + λ_r·I)⁻¹, with α_r such that the trace is that of the row's own Hessian: all rows of a
side share the eigenvectors of Ĝ, and no row is ever factorised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Side
from alteraser.kernels.jit import n_threads, threads_for
from alteraser.kernels.ripples import curve_pairs, curve_rows
from alteraser.sweep.half import Half, times

Floats = NDArray[Any]
Chosen = dict[Side, NDArray[np.int64]]
MANY_MORE = 8


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Of the rows of a side, (α_r·Ĝ + λ_r·I)⁻¹; it may be a little old."""

    basis: Floats  # the eigenvectors of Ĝ, as columns
    spectrum: Floats  # its eigenvalues, [d]
    total: Any  # their sum
    weighted: (
        bool  # false where Ĝ is zero, as missing entries weigh nothing, and another matrix stands for it
    )

    @classmethod
    def of(cls, other: Half) -> Preconditioner:
        """From the other side: its Gram matrix, or the one without weights where that is zero."""
        gram, kind = other.gram, other.table.dtype
        weighted = bool(gram.trace() > 0)
        if not weighted:
            table = other.table.astype(np.float64)
            gram = other.outer * (table.T @ table)
        values, vectors = np.linalg.eigh(gram)
        spectrum = np.maximum(values, 0).astype(kind)
        return cls(vectors.astype(kind), spectrum, spectrum.sum(), weighted)

    def alpha(self, half: Half, rows: NDArray[np.int64]) -> Floats:
        missing: Floats = half.missing[rows] if self.weighted else np.zeros(len(rows), half.table.dtype)
        if not self.total > 0:
            return missing
        positive: Floats = np.maximum(missing + half.masses[rows] / self.total, missing / 10)
        return positive


class _Part:
    """The chosen rows of one side, and what a product needs of them again and again."""

    def __init__(
        self, half: Half, rows: NDArray[np.int64], begin: int, view: Preconditioner, gram: NDArray[np.float64]
    ) -> None:
        self.half, self.rows, self.gram = half, rows, gram.astype(half.table.dtype)
        self.at = slice(begin, begin + len(rows))
        self.basis = view.basis
        self.back = np.ascontiguousarray(view.basis.T)
        self.missing, self.l2 = half.missing[rows], half.l2[rows]
        self.table = half.table[rows]
        self.weighed = self.missing[:, None] * self.table
        self.inverse = 1 / (view.alpha(half, rows)[:, None] * view.spectrum + self.l2[:, None])
        self.n_entries = int(half.counts[rows].sum())
        self.longest_first = np.argsort(-half.counts[rows], kind="stable")
        half.place[rows] = np.arange(len(rows), dtype=np.int32)


class NewtonSystem:
    """Half the Hessian of the chosen rows, as products, and its preconditioner.

    Vectors hold the chosen users first, then the chosen items.

    Where the chosen rows of one side have far more entries than those of the other, most of them lead to rows that are
    not chosen, and matter only for the rows' own Hessians. These are then taken to be what the preconditioner takes
    them to be, and the entries are not looked at: a user's request does not wait for the audience of a blockbuster.
    """

    def __init__(
        self,
        halves: dict[Side, Half],
        chosen: Chosen,
        views: dict[Side, Preconditioner],
        h: Floats,
    ) -> None:
        self._halves, self._h, self._outer = halves, h, np.outer(h, h)
        self._parts: dict[Side, _Part] = {}
        begin = 0
        for side, rows in chosen.items():
            self._parts[side] = _Part(halves[side], rows, begin, views[side], halves[side.other].gram)
            begin += len(rows)
        thin = min(self._parts, key=lambda side: self._parts[side].n_entries)
        thick = self._parts.get(thin.other)
        is_thin = thick is not None and MANY_MORE * self._parts[thin].n_entries < thick.n_entries
        self._thin = thin if is_thin else None

    def end(self) -> None:
        """Forgets which rows were chosen."""
        for part in self._parts.values():
            part.half.place[part.rows] = -1

    def split(self, vectors: Floats) -> dict[Side, Floats]:
        return {side: vectors[part.at] for side, part in self._parts.items()}

    def solve(
        self, owed: Floats, *, damping: float, forcing: float, enough: float, max_products: int
    ) -> Floats:
        """Where conjugate gradients lead on (H + damping·M)·step = what is owed, M⁻¹ being the preconditioner.

        They end when a product lowers the loss by less than `enough`, and than `forcing` of what all have.
        """
        kind = owed.dtype.type
        residual, step, scaled = owed.copy(), np.zeros_like(owed), np.empty_like(owed)
        search = self._preconditioned(residual)
        weighed = residual.copy()  # M times the search direction, by the recurrence of the direction itself
        norm, promised = float(np.vdot(residual, search)), 0.0
        for _ in range(max_products):
            if not norm > 0:
                break
            curved = self.product(search, weighed)
            curved += np.multiply(weighed, kind(damping), out=scaled)
            curvature = float(np.vdot(search, curved))
            if not curvature > damping / 2 * float(np.vdot(search, weighed)):
                break  # hardly curved, or the wrong way: the picture does not hold that far
            length = norm / curvature
            step += np.multiply(search, kind(length), out=scaled)
            promised += length * norm
            if length * norm < min(forcing * promised, enough):
                break
            residual -= np.multiply(curved, kind(length), out=scaled)
            nearer = self._preconditioned(residual)
            norm, last = float(np.vdot(residual, nearer)), norm
            for direction, towards in ((search, nearer), (weighed, residual)):
                direction *= kind(norm / last)
                direction += towards
        return search if promised == 0 else step

    def _preconditioned(self, vectors: Floats) -> Floats:
        nearer = np.empty_like(vectors)
        for part in self._parts.values():
            nearer[part.at] = times(times(vectors[part.at], part.basis) * part.inverse, part.back)
        return nearer

    def product(self, vectors: Floats, weighed: Floats) -> Floats:
        """Half the Hessian times vectors; `weighed` is the inverse of the preconditioner times them."""
        products = self._entries(vectors) if self._thin is None else self._thin_entries(self._thin, vectors)
        products *= self._h
        for side, part in self._parts.items():
            product, own = products[part.at], vectors[part.at]
            if side.other in self._parts:  # Ĝ moves with the other side's rows
                fellows = self._parts[side.other]
                turn = times(vectors[fellows.at].T, fellows.weighed)
                product += times(part.weighed, (turn + turn.T) * self._outer)
            if self._thin in (None, side):
                product += part.missing[:, None] * times(own, part.gram) + part.l2[:, None] * own
            else:
                product += weighed[part.at]
        return products

    def _entries(self, vectors: Floats) -> Floats:
        products = np.empty_like(vectors)
        for side, part in self._parts.items():
            half, other = part.half, self._halves[side.other]
            fellows = vectors[self._parts[side.other].at] if side.other in self._parts else vectors[:0]
            beside = np.concatenate([fellows, np.zeros_like(vectors[:1])])
            with threads_for(4 * part.n_entries * vectors.shape[1]):
                curve_rows(
                    part.longest_first,
                    part.rows,
                    half.starts,
                    half.counts,
                    half.columns,
                    half.weights,
                    self._h * part.table,
                    self._h * vectors[part.at],
                    part.missing,
                    other.table,
                    other.missing,
                    other.place,
                    beside,
                    products[part.at],
                    n_threads(),
                )
        return products

    def _thin_entries(self, side: Side, vectors: Floats) -> Floats:
        part, fellows = self._parts[side], self._parts[side.other]
        products = np.zeros_like(vectors)
        curve_pairs(
            part.rows,
            part.half.starts,
            part.half.counts,
            part.half.columns,
            part.half.weights,
            self._h,
            part.table,
            vectors[part.at],
            part.missing,
            fellows.half.table,
            fellows.half.missing,
            fellows.half.place,
            vectors[fellows.at],
            products[part.at],
            products[fellows.at],
        )
        return products
