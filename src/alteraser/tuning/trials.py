"""Trials: a model trained with some settings, and its NDCG on held-out items; run here or in other processes."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.errors import AlteraserError
from alteraser.models.base import Factored
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.models.objective import Objective
from alteraser.models.registry import untrained
from alteraser.train.base import Trainer, Training
from alteraser.tuning.validation import ValidationSlice, clearly_better

# Where training may stop early, a third to a half apart. Three standard errors, as the best of eleven stops is above
# the end by two of them now and then by luck alone, and a model at its optimum agrees better with retraining.
EARLY_STOPS, STANDARD_ERRORS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64), 3.0


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and what came of it; `ndcg` is None where training failed, and `problem` says how.

    `ndcg` is the one after so many `passes`: all that training makes, or fewer where more of them made lists worse, and
    then it has not `converged`.
    """

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
            stops = _Stops(self.part)
            training = self.trainer.train(start, self.part.learn, rng=rng, on_pass=stops.look)
            ndcg, passes = stops.best(training)
        except AlteraserError as error:
            return Trial(settings, None, seconds=time.perf_counter() - began, problem=str(error))
        seconds = time.perf_counter() - began
        converged = training.converged and passes == len(training.losses)
        return Trial(settings, ndcg, passes, converged, seconds)


@dataclass(eq=False)
class _Stops:
    """The NDCG of each judged user if training stopped after so many passes."""

    part: ValidationSlice
    ndcg_of_users: dict[int, NDArray[np.float64]] = field(default_factory=dict)

    def look(self, n_passes: int, model: Factored) -> None:
        if n_passes in EARLY_STOPS:
            self.ndcg_of_users[n_passes] = self.part.ndcg_of_users(model)

    def best(self, training: Training[Any]) -> tuple[float, int]:
        """The mean NDCG and the passes of the best stop: all of them, unless fewer are clearly better."""
        end = self.part.ndcg_of_users(training.model)
        n_passes = max(self.ndcg_of_users, key=lambda n: float(self.ndcg_of_users[n].mean()), default=0)
        if n_passes:
            early = self.ndcg_of_users[n_passes]
            if clearly_better(early, end, standard_errors=STANDARD_ERRORS):
                return float(early.mean()), n_passes
        return float(end.mean()), len(training.losses)


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
