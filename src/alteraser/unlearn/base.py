"""What unlearning is: an original model, the full data and requests in; a model of the remaining data out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from alteraser.data.changes import Change
from alteraser.data.interactions import Interactions
from alteraser.data.requests import Missing, Requests
from alteraser.live.erasure import Cost, Drift, Erasure
from alteraser.sweep.sweep import Model, OutOfTime, Progress
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


def timer(seconds: float) -> OutOfTime:
    """Whether so many seconds have passed since now."""
    deadline = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= deadline


def forget_by(
    work: Callable[[Model, Interactions, Interactions], Training[Model]],
    original: Model,
    full: Interactions,
    requested: Requests,
    *,
    missing: Missing,
) -> Erasure[Model]:
    """The erasure by `work(original, forget, remain)`, timed and measured the same way for every unlearner.

    Where nothing matches there is no work: an erasure made twice leaves the model as it is, retraining too.
    """
    original.check_belongs(full)
    began = time.perf_counter()
    match = requested.match(full, missing=missing)
    forget, remain = full.only(match.mask), full.without(match.mask)
    if match.counts.n_forgotten:
        training = work(original, forget, remain)
    else:
        training = Training(original, losses=[], converged=True, rows_visited=0)
    change = Change.of_deletion(full, forget, remain)
    seconds = time.perf_counter() - began
    loss_before = original.loss(remain)
    losses = training.losses
    if training.falls:
        losses = (loss_before - np.cumsum(training.falls)).tolist()
    if losses:
        losses[-1] = training.model.loss(remain)
    left = remain.with_tombstones(full)
    return Erasure(
        model=training.model,
        change=change,
        requests=match.counts,
        cost=Cost(seconds, len(losses), training.n_passes, training.rows_visited),
        converged=training.converged,
        losses=(loss_before, *losses),
        drift=Drift(training.model.gradient_norm(remain), math.nan),
        remaining=lambda: left,
    )
