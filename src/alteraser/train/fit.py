"""`fit`: train a model on data."""

from __future__ import annotations

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.sweep.sweep import Model, Progress
from alteraser.train.als import ALS
from alteraser.train.base import Trainer, Training


def fit(
    model: Model,
    data: Interactions,
    *,
    trainer: Trainer | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Training[Model]:
    """The model trained on `data`, by ALS unless another trainer is given.

    ALS needs no `rng`; a trainer that draws something, as AdamW the order of its users, raises without one.
    """
    warm_up_for(model)
    return (trainer or ALS()).train(model, data, rng=rng, progress=progress)
