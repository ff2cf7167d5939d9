"""Forgetting by training again: from random rows, or on from the original."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Missing, Requests
from alteraser.live.erasure import Erasure
from alteraser.sweep.sweep import Model, Progress
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.base import Trainer, Training
from alteraser.unlearn.base import retrain_by


@dataclass(frozen=True)
class Retrain:
    """Trains from new random rows on the remaining data: the gold standard, and what is too slow.

    `rng` draws the rows and, unless `order` is given for that, what is random in training.
    """

    rng: np.random.Generator
    trainer: Trainer = ALS()
    order: np.random.Generator | None = None

    def forget(
        self,
        original: Model,
        full: Interactions,
        requested: Requests,
        *,
        missing: Missing = "error",
        progress: Progress | None = None,
    ) -> Erasure[Model]:
        """A model of the original's settings that never saw what is requested."""

        def train(remain: Interactions) -> Training[Model]:
            start = original.fresh(self.rng)
            return self.trainer.train(start, remain, rng=self.order or self.rng, progress=progress)

        return retrain_by(train, original, full, requested, missing=missing)


@dataclass(frozen=True)
class WarmStart:
    """Trains on from the original on the remaining data, with AdamW unless another trainer is given."""

    rng: np.random.Generator
    trainer: Trainer = AdamW()

    def forget(
        self,
        original: Model,
        full: Interactions,
        requested: Requests,
        *,
        missing: Missing = "error",
        progress: Progress | None = None,
    ) -> Erasure[Model]:
        """The original, trained on without what is requested."""

        def train(remain: Interactions) -> Training[Model]:
            return self.trainer.train(original, remain, rng=self.rng, progress=progress)

        return retrain_by(train, original, full, requested, missing=missing)
