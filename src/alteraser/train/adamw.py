"""AdamW in mini-batches of users, with early stopping on the training loss: the baseline of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import ModelError, SettingError
from alteraser.models.base import BatchTrainable, lacking
from alteraser.sweep.sweep import Model, OnPass, Progress
from alteraser.train.base import Training
from alteraser.train.stopping import EarlyStopping


@dataclass(frozen=True)
class AdamW:
    """Gradients come from one fused visit to the batch's entries and Gram matrices; the penalty is in the loss.

    The loss watched is the sum of the batch losses of an epoch, which costs nothing; no test data is looked at.
    """

    learning_rate: float = 0.01
    batch_users: int = 256
    max_epochs: int = 500
    patience: int = 10
    min_improvement: float = 1e-4

    def __post_init__(self) -> None:
        if not self.min_improvement >= 0:
            raise SettingError(f"min_improvement is {self.min_improvement}; a number from 0 up is wanted.")
        if not self.learning_rate > 0 or self.batch_users < 1 or self.max_epochs < 1 or self.patience < 1:
            raise SettingError(
                f"learning_rate {self.learning_rate}, batch_users {self.batch_users}, max_epochs {self.max_epochs}, "
                f"patience {self.patience} came; all must be above 0."
            )

    def train(
        self,
        model: Model,
        data: Interactions,
        *,
        rng: np.random.Generator | None,
        progress: Progress | None = None,
        on_pass: OnPass[Model] | None = None,
    ) -> Training[Model]:
        if rng is None:
            raise SettingError(
                "rng is None; a generator is wanted, as AdamW draws the order of its users at random. "
                "Pass rng=np.random.default_rng(…)."
            )
        if not isinstance(model, BatchTrainable):
            raise lacking(model, BatchTrainable, wanted_by="AdamW", instead="Train it with ALS.")
        trained = model.without_empty_rows(data)
        start_loss = trained.loss(data)
        parameters = {name: value.clone().contiguous() for name, value in trained.parameters().items()}
        optimizer = torch.optim.AdamW(
            [value.requires_grad_() for value in parameters.values()],
            lr=self.learning_rate,
            weight_decay=0.0,
            fused=True,
        )
        tables = {
            name: value.detach() for name, value in parameters.items()
        }  # the same memory, without autograd
        model = trained.with_parameters(tables)
        weights = model.weigh(data)
        stopping, losses, best = EarlyStopping(self.patience, self.min_improvement), [], tables
        users = np.arange(model.n_users)
        for epoch in range(1, self.max_epochs + 1):
            loss = 0.0
            order = rng.permutation(users)
            for start in range(0, len(order), self.batch_users):
                share, gradients = model.batch_gradients(
                    order[start : start + self.batch_users], data, weights
                )
                loss += share
                for name, value in parameters.items():
                    value.grad = gradients[name]
                optimizer.step()
            if not np.isfinite(loss):
                raise ModelError(
                    f"The loss is {loss} after epoch {epoch}; lower learning_rate ({self.learning_rate})."
                )
            losses.append(loss)
            if stopping.improved(loss):
                best = {name: value.clone() for name, value in tables.items()}
            if progress is not None:
                progress(epoch, self.max_epochs, loss)
            if on_pass is not None:
                on_pass(epoch, model.with_parameters(best))
            if stopping.over:
                break
        trained = model.with_parameters(best)
        # A step of absurd length need not end in infinity. Worse than both its start and no model at all: diverged.
        limit = max(start_loss, float(data.by(Side.USERS).weights.sum(dtype=np.float64)))
        if not (loss := trained.loss(data)) <= limit:
            raise ModelError(
                f"Training diverged: its loss is {loss:.3g}. Lower learning_rate ({self.learning_rate})."
            )
        visited = len(losses) * sum(len(data.by(side).occupied) for side in Side)
        return Training(trained, losses, stopping.over, visited)
