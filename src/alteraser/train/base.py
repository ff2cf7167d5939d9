"""What training is: a model and data in, a trained model and its history out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.sweep.sweep import Model, OnPass, Progress


@dataclass(frozen=True, eq=False)
class Training(Generic[Model]):
    """A trained model; the loss after each pass or epoch; whether the stopping rule was met; rows visited."""

    model: Model
    losses: list[float]
    converged: bool
    rows_visited: int


class Trainer(Protocol):
    """One way to train; its settings are its fields."""

    def train(
        self,
        model: Model,
        data: Interactions,
        *,
        rng: np.random.Generator | None,
        progress: Progress | None = None,
        on_pass: OnPass[Model] | None = None,
    ) -> Training[Model]:
        """Trained from where `model` stands; `rng` draws what is random in training itself, as the order of batches.

        A trainer that draws nothing takes None; one that does raises `SettingError`. `on_pass` is called after each
        pass or epoch with their number and the model that training would end with if it stopped there.
        """
        ...
