"""What unlearning is: an original model, the full data and requests in; a model of the remaining data out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from alteraser.data.changes import Change, RequestCounts
from alteraser.data.interactions import Interactions
from alteraser.data.requests import Missing, Requests
from alteraser.live.erasure import Cost, Drift, Erasure
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.sweep.sweep import Model, Progress
from alteraser.train.base import Training


class Unlearner(Protocol):
    """One way to make a model forget; its settings are its fields."""

    def forget(
        self,
        original: Model,
        full: Interactions,
        requested: Requests,
        *,
        missing: Missing = "error",
        progress: Progress | None = None,
    ) -> Erasure[Model]: ...


@dataclass(frozen=True, eq=False, repr=False)
class Deletion:
    """What requests take from a data set: the change of its pairs, how they were met, and what remains."""

    change: Change
    counts: RequestCounts
    remain: Interactions

    @classmethod
    def of(cls, requested: Requests, full: Interactions, missing: Missing) -> Self:
        match = requested.match(full, missing=missing)
        remain = full.without(match.mask)
        return cls(Change.of_deletion(full, full.only(match.mask), remain), match.counts, remain)


def retrain_by(
    train: Callable[[Interactions], Training[Model]],
    original: Model,
    full: Interactions,
    requested: Requests,
    *,
    missing: Missing,
) -> Erasure[Model]:
    """The erasure by `train(remain)`, timed and measured.

    Where nothing matches nothing is trained: an erasure made twice leaves the model as it is.
    """
    original.check_belongs(full)
    warm_up_for(original)
    began = time.perf_counter()
    deletion = Deletion.of(requested, full, missing)
    remain = deletion.remain
    training = Training(original, losses=[], converged=True, rows_visited=0)
    if len(deletion.change):
        training = train(remain)
    seconds = time.perf_counter() - began
    losses = (original.loss(remain), *training.losses[:-1])
    if training.losses:
        losses = (*losses, training.model.loss(remain))
    left = remain.with_tombstones(full)
    return Erasure(
        model=training.model,
        change=deletion.change,
        requests=deletion.counts,
        cost=Cost(seconds, len(training.losses), len(training.losses), training.rows_visited),
        converged=training.converged,
        losses=losses,
        drift=Drift(training.model.gradient_norm(remain), math.nan),
        remaining=lambda: left,
    )
