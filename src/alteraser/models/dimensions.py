"""Directions in which no row has anything, and when the loss falls if a user gets one.

A penalty may leave all rows without anything in some directions. There the gradient is zero, whatever the data: no pass
and no step ever leaves such a point, though after a deletion it may be a saddle and no minimum. With user u at a in
such a direction, alone, and every item v at its best for that, the loss changes by

    λ_u a² − Σ_v a² h² g_v² / (λ_v + a² h² c_v),    g_v = c_v·(1 if v is u's, else 0) − c_v ŷ_uv,

c_v being the weight of the pair, positive or missing, and h what the direction weighs in a score. It falls for small a
just where Σ_v h² g_v² / λ_v > λ_u.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[Any]
Opening = tuple[float, NDArray[np.float64]]
"""What a user and all items are in a direction that was empty."""
EMPTY = 1e-6  # of the largest eigenvalue of a Gram matrix: a thousandth of the vectors' size


class Direction(NamedTuple):
    """A unit vector, and what it weighs in a score."""

    vector: NDArray[np.float64]
    weight: float


def empty_directions(grams: Iterable[Floats], h: Floats) -> list[Direction]:
    """The directions in which no table has anything, orthogonal to each other, those first that weigh most.

    `grams` are Σ y yᵀ of each table, whatever the rows weigh there.
    """
    scale, found = h.astype(np.float64), np.zeros((len(h), len(h)))
    for gram in grams:
        for seen in (gram, np.outer(scale, scale) * gram):
            found += seen / max(float(np.trace(seen)), np.finfo(np.float64).tiny)
    values, vectors = symmetric_eigen(found)
    empty = vectors[:, values <= EMPTY * values[-1]]
    # Of all bases the one in which no two directions score with each other.
    weights, turn = symmetric_eigen((empty.T * scale) @ empty)
    order = np.argsort(-np.abs(weights), kind="stable")
    return [Direction((empty @ turn)[:, k], float(weights[k])) for k in order]


def symmetric_eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues in ascending order, and eigenvectors; by torch, as numpy's threads spin and hold up the kernels."""
    values, vectors = torch.linalg.eigh(torch.from_numpy(matrix))
    return values.numpy(), vectors.numpy()


class Pairs(NamedTuple):
    """Of one user and all items: the weight c of each pair, and g."""

    weight: NDArray[np.float64]
    gain: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Floats, missing: Floats, columns: NDArray[np.int32], weights: Floats) -> Pairs:
        """From the user's scores, what pairs weigh as missing entries, and the user's interactions."""
        weight = missing.astype(np.float64)
        weight[columns] = weights
        gain = -weight * scores
        gain[columns] += weights
        return cls(weight, gain)

    def opening(self, direction: Direction, *, user_l2: float, item_l2: Floats) -> Opening | None:
        """What the user and the items are to be in an empty direction; None if the loss would not fall."""
        h, some = direction.weight, np.flatnonzero(self.gain)
        l2 = item_l2[some].astype(np.float64)
        pull, bend = (h * self.gain[some]) ** 2, h**2 * self.weight[some]

        def excess(square: float) -> float:
            """Minus the derivative of the loss in a²; it falls with a²."""
            return float((pull * l2 / (l2 + square * bend) ** 2).sum()) - user_l2

        if not excess(0.0) > 0:
            return None
        upper = 1.0
        while excess(upper) > 0:
            upper *= 4
            if upper > 1e12:  # pairs that weigh nothing
                return None
        from scipy.optimize import brentq  # slow to import, and seldom needed

        square = float(brentq(excess, 0, upper, xtol=1e-12 * upper))
        of_items = np.zeros_like(self.gain)
        of_items[some] = square**0.5 * h * self.gain[some] / (l2 + square * bend)
        return square**0.5, of_items
