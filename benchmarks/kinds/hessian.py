"""Half the Hessian of L over all rows of MF together, as products in double precision; shares no code with the package.

With E the matrix of (w − m_u)·ŷ − w over the positives, m_u = w0, and D = w − m_u, the product with directions A, B is

    E·B + S·Q + w0·(A·QᵀQ + P·(BᵀQ + QᵀB)) + λ_u·A   for the users, where S has D·(p_u·b_v + a_u·q_v),

and the same for the items with the sides exchanged.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from alteraser.models.mf import MF
from benchmarks.formula import Pairs, penalties

Floats = NDArray[np.float64]
CHUNK = 16  # rows at a time: their lengths differ a lot


class Hessian:
    """Products with half the Hessian of one model on one set of pairs, and half of minus its gradient."""

    def __init__(self, model: MF, pairs: Pairs) -> None:
        settings: Any = model.objective
        if settings.user_activity or settings.item_popularity:
            raise ValueError("The references know missing entries of one weight only.")
        self.p, self.q = (np.ascontiguousarray(each.double().numpy()) for each in (model.users, model.items))
        self._w0 = settings.w0
        counts = (
            np.bincount(pairs.users, minlength=len(self.p)),
            np.bincount(pairs.items, minlength=len(self.q)),
        )
        self._l2 = penalties(settings, *(each.astype(np.float64) for each in counts))
        shape = len(self.p), len(self.q)
        by_user = sp.csr_array((pairs.weights, (pairs.users, pairs.items)), shape=shape)
        self._rows = [(each.indptr, each.indices, each.data) for each in (by_user, by_user.T.tocsr())]
        self.residual = self._residual()

    def product(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """The products for users and for items."""
        tables, directions, found = (self.p, self.q), (a, b), []
        for side, rows in enumerate(self._rows):
            own, others = tables[side], tables[1 - side]
            own_direction, direction = directions[side], directions[1 - side]
            out = np.empty_like(own)
            _products(*rows, self._w0, own, others, own_direction, direction, out)
            turn = direction.T @ others
            out += self._w0 * (own_direction @ (others.T @ others) + own @ (turn + turn.T))
            out += self._l2[side][:, None] * own_direction
            found.append(out)
        return found[0], found[1]

    def inverse_row_hessians(self) -> NDArray[np.float32]:
        """The inverse of half the Hessian of each row alone, users first; in single precision, to save memory."""
        found = []
        for side, rows in enumerate(self._rows):
            others = (self.q, self.p)[side]
            out = np.empty((len(rows[0]) - 1, others.shape[1], others.shape[1]), np.float32)
            gram = self._w0 * others.T @ others
            _row_hessians(
                *rows, self._w0, others.astype(np.float32), gram.astype(np.float32), self._l2[side], out
            )
            found.append(np.linalg.inv(out))
        return np.concatenate(found)

    def _residual(self) -> Floats:
        found = []
        for side, rows in enumerate(self._rows):
            own, others = ((self.p, self.q), (self.q, self.p))[side]
            out = np.empty_like(own)
            _residuals(*rows, self._w0, own, others, out)
            out -= self._w0 * own @ (others.T @ others) + self._l2[side][:, None] * own
            found.append(out)
        return np.concatenate(found)


@numba.njit(parallel=True, fastmath=True)
def _products(
    starts: Any, columns: Any, weights: Any, w0: float, own: Any, others: Any, own_direction: Any,
    direction: Any, out: Any,
) -> None:  # fmt: skip
    n, d = own.shape
    for chunk in numba.prange((n + CHUNK - 1) // CHUNK):
        for row in range(chunk * CHUNK, min((chunk + 1) * CHUNK, n)):
            out[row] = 0.0
            for entry in range(starts[row], starts[row + 1]):
                column = columns[entry]
                score, moved = 0.0, 0.0
                for k in range(d):
                    score += own[row, k] * others[column, k]
                    moved += own[row, k] * direction[column, k] + own_direction[row, k] * others[column, k]
                beyond = weights[entry] - w0
                error, moved = beyond * score - weights[entry], beyond * moved
                for k in range(d):
                    out[row, k] += error * direction[column, k] + moved * others[column, k]


@numba.njit(parallel=True, fastmath=True)
def _residuals(starts: Any, columns: Any, weights: Any, w0: float, own: Any, others: Any, out: Any) -> None:
    n, d = own.shape
    for row in numba.prange(n):
        out[row] = 0.0
        for entry in range(starts[row], starts[row + 1]):
            column, score = columns[entry], 0.0
            for k in range(d):
                score += own[row, k] * others[column, k]
            error = weights[entry] - (weights[entry] - w0) * score
            for k in range(d):
                out[row, k] += error * others[column, k]


@numba.njit(parallel=True, fastmath=True)
def _row_hessians(
    starts: Any, columns: Any, weights: Any, w0: float, others: Any, gram: Any, l2: Any, out: Any
) -> None:
    n, d = out.shape[:2]
    for row in numba.prange(n):
        out[row] = gram
        for entry in range(starts[row], starts[row + 1]):
            column, beyond = columns[entry], weights[entry] - w0
            for i in range(d):
                scaled = beyond * others[column, i]
                for j in range(d):
                    out[row, i, j] += scaled * others[column, j]
        for i in range(d):
            out[row, i, i] += l2[row]
