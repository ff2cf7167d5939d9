"""The rival of every way to forget: the fastest known retraining that ends at its loss."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.models.mf import MF
from studies.retrainings import TRAINERS, Timed, fastest, fresh_rows, to_loss

MAX_PASSES = 300


def fastest_retraining(
    original: MF,
    remain: Interactions,
    goal: float,
    rng: np.random.Generator,
    *,
    rounds: int = 1,
    max_passes: int = MAX_PASSES,
) -> dict[str, Any]:
    """Its name and seconds; whether it got to the goal; the seconds and the loss of all that were tried.

    They take turns in every round, all from the same new rows, and medians count. Where none gets there, the one that
    comes nearest is the rival.
    """
    seconds: dict[str, list[float]] = {name: [] for name in TRAINERS}
    loss: dict[str, float] = {}
    for trainer in TRAINERS.values():  # what is done once in a process is done before
        replace(trainer, max_passes=2).train(fresh_rows(original, rng), remain, rng=None)
    for _ in range(rounds):
        start = fresh_rows(original, rng)
        for name, trainer in TRAINERS.items():
            rule = replace(to_loss(trainer, goal), tolerance=0.0, max_passes=max_passes)
            began = time.perf_counter()
            trained = rule.train(start, remain, rng=None).model
            seconds[name].append(time.perf_counter() - began)
            loss[name] = max(trained.loss(remain), loss.get(name, 0.0))
    tried = {name: Timed(statistics.median(seconds[name]), loss[name]) for name in TRAINERS}
    there = fastest(tried, goal)
    rival = there or min(tried, key=lambda name: tried[name].loss)
    return {
        "rival": rival,
        "seconds": tried[rival].seconds,
        "reached": there is not None,
        "tried": {name: each._asdict() for name, each in tried.items()},
    }
