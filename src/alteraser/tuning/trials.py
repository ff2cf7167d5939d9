"""Trials: a model trained with some settings, and its NDCG on held-out items; run here or in other processes."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numba
import numpy as np
import torch

from alteraser.errors import AlteraserError
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.models.objective import Objective
from alteraser.models.registry import untrained
from alteraser.train.base import Trainer
from alteraser.tuning.validation import ValidationSlice


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and what came of it; `ndcg` is None where training failed, and `problem` says how."""

    settings: Mapping[str, Any]
    ndcg: float | None
    passes: int = 0
    converged: bool = False
    seconds: float = 0.0
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class TrialRunner:
    """Trains and measures a model with given settings; all start from the same rows, so that only settings differ."""

    part: ValidationSlice
    kind: str
    trainer: Trainer
    seed: int

    def __call__(self, settings: Mapping[str, Any]) -> Trial:
        began = time.perf_counter()
        try:
            weights = {name: value for name, value in settings.items() if name != "dim"}
            rng = np.random.default_rng([self.seed, 2])
            start = untrained(
                self.kind,
                self.part.learn,
                dim=settings["dim"],
                objective=Objective(**weights),
                rng=rng,
                dtype=torch.float32,
            )
            warm_up_for(start)
            began = time.perf_counter()
            training = self.trainer.train(start, self.part.learn, rng=rng)
            ndcg = self.part.ndcg(training.model)
        except AlteraserError as error:
            return Trial(settings, None, seconds=time.perf_counter() - began, problem=str(error))
        seconds = time.perf_counter() - began
        return Trial(settings, ndcg, len(training.losses), training.converged, seconds)


Submit = Callable[[Mapping[str, Any]], "Future[Trial]"]


@contextmanager
def workers(runner: TrialRunner, jobs: int) -> Iterator[Submit]:
    """A function that submits settings for a trial: run at once or, with several jobs, in as many processes.

    Processes, since kernels of several Python threads cannot share numba's own; each has its share of the threads.
    They end with the block, however that ends.
    """
    if jobs == 1:
        yield lambda settings: _done(runner(settings))
        return
    threads = max(1, numba.get_num_threads() // jobs)
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(runner, threads)
    )
    try:
        yield lambda settings: pool.submit(_run_trial, settings)
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _done(trial: Trial) -> Future[Trial]:
    future: Future[Trial] = Future()
    future.set_result(trial)
    return future


_RUNNERS: list[TrialRunner] = []  # of a worker process, which has one


def _start_worker(runner: TrialRunner, threads: int) -> None:
    # Ctrl-C reaches the whole group of processes; the one that began the search ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    numba.set_num_threads(threads)
    torch.set_num_threads(threads)
    _RUNNERS.append(runner)


def _run_trial(settings: Mapping[str, Any]) -> Trial:
    return _RUNNERS[0](settings)
