"""A data set split into training, validation and test parts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.data.split import holdout
from alteraser.measure import ranking
from alteraser.models.base import Recommender
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from evidence.store import Result

DIM, K, MAX_USERS = 64, 10, 10_000
DEFAULT_TRAINER = ALS()


@dataclass(frozen=True, eq=False)
class Split:
    """The parts of a data set; NDCG@10 is measured on at most 10,000 users of the validation and of the test part."""

    train: Interactions
    validation: Interactions
    test: Interactions
    seed: int
    dim: int

    @classmethod
    def of(cls, data: Interactions, seed: int, *, dim: int = DIM) -> Split:
        rng = np.random.default_rng([seed, 1])
        train, held_out = holdout(data, fraction=0.2, rng=rng)
        coin = rng.random(len(held_out)) < 0.5
        return cls(train, held_out.only(coin), held_out.only(~coin), seed, dim)

    @cached_property
    def _evaluated(self) -> tuple[tuple[Interactions, NDArray[np.int64]], ...]:
        rng = np.random.default_rng([self.seed, 2])
        return tuple(
            (part, np.sort(rng.permutation(part.by(Side.USERS).occupied)[:MAX_USERS]))
            for part in (self.validation, self.test)
        )

    def ndcg(self, model: Recommender) -> dict[str, float]:
        """NDCG@10 on the validation part and on the test part."""
        seen = self.train.by(Side.USERS)
        figures = (
            float(ranking.ndcg_of_users(model, users, part.by(Side.USERS), K, exclude=seen).mean())
            for part, users in self._evaluated
        )
        return dict(zip(("validation", "test"), figures, strict=True))

    def train_and_evaluate(self, objective: Objective, trainer: ALS = DEFAULT_TRAINER) -> Result:
        """The record of a model with these settings, trained as `train` does it unless another trainer is given."""
        start = self.untrained(objective)
        began = time.perf_counter()
        training = trainer.train(start, self.train, rng=None)
        seconds = time.perf_counter() - began
        settings = {"w0": objective.w0, "l2": objective.l2, "passes": len(training.losses)}
        return {**settings, "seconds": seconds, **self.ndcg(training.model)}

    def untrained(self, objective: Objective) -> MF:
        rng = np.random.default_rng([self.seed, 3])
        return MF.sized_for(self.train, dim=self.dim, objective=objective, rng=rng)
