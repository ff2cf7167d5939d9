"""What unlearning is: an original model, the full data and requests in; a model of the remaining data out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Match, Missing, Requests
from alteraser.sweep.sweep import Model, OutOfTime, Progress
from alteraser.train.base import Training


@dataclass(frozen=True, eq=False)
class Cost:
    """What forgetting took and what it achieved on the remaining data.

    `seconds` run from the request to the new tables in memory, indexing included; measuring is left out. The first of
    `passes` is that over the rows of those who forget.
    """

    seconds: float
    passes: int
    rows_visited: int
    losses: list[float]
    loss_before: float
    loss_after: float
    gradient_before: float
    gradient_after: float


@dataclass(frozen=True, eq=False)
class Outcome(Generic[Model]):
    """The model that has forgotten, the data that remains, what the requests matched, and the cost.

    In the remaining data an id that lost its last interaction is a tombstone: its row stays, the id is gone.
    """

    model: Model
    remain: Interactions
    match: Match
    cost: Cost
    converged: bool


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
    ) -> Outcome[Model]: ...


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
) -> Outcome[Model]:
    """The outcome of `work(original, forget, remain)`, timed and measured the same way for every unlearner.

    Where nothing matches there is no work: an erasure made twice leaves the model as it is, retraining too.
    """
    original.check_belongs(full)
    began = time.perf_counter()
    match = requested.match(full, missing=missing)
    remain = full.without(match.mask)
    if match.mask.any():
        training = work(original, full.only(match.mask), remain)
    else:
        training = Training(original, losses=[], converged=True, rows_visited=0)
    seconds = time.perf_counter() - began
    loss_before, loss_after = original.loss(remain), training.model.loss(remain)
    losses = training.losses
    if training.falls:
        losses = [*(loss_before - np.cumsum(training.falls[:-1])).tolist(), loss_after]
    cost = Cost(
        seconds=seconds,
        passes=len(losses),
        rows_visited=training.rows_visited,
        losses=losses,
        loss_before=loss_before,
        loss_after=loss_after,
        gradient_before=original.gradient_norm(remain),
        gradient_after=training.model.gradient_norm(remain),
    )
    return Outcome(training.model, remain.with_tombstones(full), match, cost, training.converged)
