"""The objective and its gradient, written a second time from docs/objective.md, sharing no code with the package.

A benchmark that judges the package by the package's own loss would miss a mistake that both share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions
from alteraser.models.bilinear import Bilinear

Floats = NDArray[np.float64]
_BLOCK = 16_384  # pairs whose vectors are multiplied at once: they stay in the cache


@dataclass(frozen=True, eq=False)
class Pairs:
    """The positives: the rows of their users and items, and their weights. No pair stands twice."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    weights: Floats

    @classmethod
    def of(cls, data: Interactions) -> Pairs:
        """The events of `data` in their order."""
        users, items = data.users.astype(np.int64), data.items.astype(np.int64)
        if len(np.unique(users * data.n_items + items)) < len(users):
            raise ValueError("A pair has several events; the formula has no rule to merge them.")
        weighted = "weight" in data.events.columns
        weights = data.events["weight"].to_numpy().astype(np.float64) if weighted else np.ones(len(users))
        return cls(users, items, weights)

    def __len__(self) -> int:
        return len(self.users)

    def only(self, mask: NDArray[np.bool_]) -> Pairs:
        """The pairs where `mask` holds."""
        return Pairs(self.users[mask], self.items[mask], self.weights[mask])


class Formula:
    """L of one model on one set of pairs, in double precision:

    L = Σ_R w (1 − ŷ)² − Σ_R m_u b_v ŷ² + ⟨Σ_u m_u p_u p_uᵀ, Σ_v b_v x_v x_vᵀ⟩ + Σ_u λ_u ‖p_u‖² + Σ_v λ_v ‖q_v‖²

    with x_v = h ⊙ q_v, ŷ = p_u · x_v and m_u = w0·a_u: the product of the Gram matrices sums m_u b_v ŷ² over all pairs,
    and what it says of the positives is taken out again.
    """

    def __init__(self, model: Bilinear, pairs: Pairs) -> None:
        tables = {name: value.double().numpy() for name, value in model.parameters().items()}
        self._pairs = pairs
        self._p: Floats = tables["users"]
        self._q: Floats = tables["items"]
        eta: Floats = tables.get("eta", np.ones(self._p.shape[1]))
        self._h: Floats = eta * np.sqrt(len(eta) / (eta @ eta))
        self._x = self._q * self._h
        settings: Any = model.objective
        of_user = np.bincount(pairs.users, minlength=len(self._p)).astype(np.float64)
        of_item = np.bincount(pairs.items, minlength=len(self._q)).astype(np.float64)
        self._m: Floats = settings.w0 * (of_user / settings.mean_user_count) ** settings.user_activity
        self._b: Floats = (of_item / settings.mean_item_count) ** settings.item_popularity
        self._user_l2, self._item_l2 = penalties(settings, of_user, of_item)

    @cached_property
    def loss(self) -> float:
        pairs, scores = self._pairs, self._scores
        positives = pairs.weights @ (1 - scores) ** 2 - self._missing @ scores**2
        norms = self._user_l2 @ (self._p**2).sum(1) + self._item_l2 @ (self._q**2).sum(1)
        return float(positives + (self._user_gram * self._item_gram).sum() + norms)

    @cached_property
    def gradient(self) -> tuple[Floats, Floats]:
        """∂L/∂P and ∂L/∂Q."""
        pairs = self._pairs
        slopes = (pairs.weights - self._missing) * self._scores - pairs.weights
        matrix = sp.csr_array((slopes, (pairs.users, pairs.items)), shape=(len(self._p), len(self._q)))
        users = matrix @ self._x + self._m[:, None] * (self._p @ self._item_gram)
        seen = matrix.T @ self._p + self._b[:, None] * (self._x @ self._user_gram)
        return (
            2 * (users + self._user_l2[:, None] * self._p),
            2 * (self._h * seen + self._item_l2[:, None] * self._q),
        )

    @property
    def gradient_norm(self) -> float:
        return float(np.sqrt(sum((part**2).sum() for part in self.gradient)))

    @cached_property
    def _scores(self) -> Floats:
        """ŷ of the positives."""
        users, items = self._pairs.users, self._pairs.items
        scores = np.empty(len(users))
        for begin in range(0, len(users), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            np.einsum("nd,nd->n", self._p[users[part]], self._x[items[part]], out=scores[part])
        return scores

    @cached_property
    def _missing(self) -> Floats:
        """What the positives would weigh if they were missing."""
        return self._m[self._pairs.users] * self._b[self._pairs.items]

    @cached_property
    def _user_gram(self) -> Floats:
        return (self._p * self._m[:, None]).T @ self._p

    @cached_property
    def _item_gram(self) -> Floats:
        return (self._x * self._b[:, None]).T @ self._x


def penalties(settings: Any, of_user: Floats, of_item: Floats) -> tuple[Floats, Floats]:
    """λ_u and λ_v of rows with these counts; their constants are w0·n of the other side unless settings hold others."""
    found = []
    for counts, constant, n_others in (
        (of_user, "c_users", len(of_item)),
        (of_item, "c_items", len(of_user)),
    ):
        held = getattr(settings, constant, None)
        found.append(
            settings.l2 * (counts + (settings.w0 * n_others if held is None else held)) ** settings.l2_scaling
        )
    return found[0], found[1]
