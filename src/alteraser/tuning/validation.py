"""A slice of the data held out to judge settings by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.data.split import holdout
from alteraser.measure import ranking
from alteraser.measure.evaluation import MAX_USERS
from alteraser.models.base import Recommender


@dataclass(frozen=True, eq=False)
class ValidationSlice:
    """What to learn from, and what was held out of some users' items."""

    learn: Interactions
    held_out: Interactions

    @classmethod
    def of(
        cls,
        data: Interactions,
        *,
        fraction: float = 0.2,
        max_users: int = MAX_USERS,
        rng: np.random.Generator,
    ) -> Self:
        """Hold out a fraction of the items of at most `max_users` random users; the others' stay as they are."""
        users = data.by(Side.USERS).occupied
        if len(users) > max_users:
            users = np.sort(rng.choice(users, max_users, replace=False))
        return cls(*holdout(data, fraction=fraction, rng=rng, users=users))

    @property
    def users(self) -> NDArray[np.int64]:
        """Whose items were held out."""
        return self.held_out.by(Side.USERS).occupied

    def ndcg(self, model: Recommender) -> float:
        """The mean NDCG@10 of the lists of those users, without what they have in `learn`."""
        return float(self.ndcg_of_users(model).mean())

    def ndcg_of_users(self, model: Recommender) -> NDArray[np.float64]:
        """The NDCG@10 of each of them."""
        relevant, seen = self.held_out.by(Side.USERS), self.learn.by(Side.USERS)
        return ranking.ndcg_of_users(model, self.users, relevant, 10, exclude=seen)


def clearly_better(ndcg: NDArray[np.float64], than: NDArray[np.float64], *, standard_errors: float) -> bool:
    """Whether one NDCG of users is above another by so many standard errors of the mean difference."""
    difference = ndcg - than
    error = float(difference.std()) / math.sqrt(len(difference))
    return float(difference.mean()) > standard_errors * error
