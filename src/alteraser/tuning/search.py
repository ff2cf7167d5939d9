"""`tune`: looks for the settings whose models recommend best, by the NDCG on a slice of the data that is held out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.errors import ModelError, SettingError
from alteraser.train.als import ALS
from alteraser.train.base import Trainer
from alteraser.train.named import recorded
from alteraser.tuning.choose import choose_objective
from alteraser.tuning.proposals import Proposals, quiet
from alteraser.tuning.space import SearchSpace
from alteraser.tuning.study_file import read_study, write_study
from alteraser.tuning.trials import Submit, Trial, TrialRunner, workers
from alteraser.tuning.validation import ValidationSlice

OnTrial = Callable[[Trial, int, bool], None]


@dataclass(frozen=True, eq=False)
class Tuning:
    """The trials in the order in which they ended, and over how many users their NDCG@10 is the mean.

    The first `n_resumed` were in the study already. `settings` are those of the best trial, complete for
    `write_settings` and `alteraser train --settings`.
    """

    trials: tuple[Trial, ...]
    n_resumed: int
    n_users: int
    space: SearchSpace
    model: str
    training: dict[str, Any]

    @property
    def best(self) -> Trial:
        """The trial with the greatest NDCG; of equals, the first."""
        return max(self.trials, key=_ndcg)

    @property
    def ends_early(self) -> bool:
        """Whether the best trial stopped before it converged or came to its limit, as more passes made lists worse."""
        limit = self.training.get("max_passes")
        return not self.best.converged and limit is not None and self.best.passes < limit

    @property
    def settings(self) -> dict[str, Any]:
        how = {name: value for name, value in self.training.items() if name != "batch_users"}
        if not self.best.converged:
            how["max_passes"] = self.best.passes
        return {"model": self.model, **self.best.settings, **how}

    def to_dict(self) -> dict[str, Any]:
        return {
            "settings": self.settings,
            "ndcg": self.best.ndcg,
            "judged_users": self.n_users,
            "resumed_trials": self.n_resumed,
            "at_edge": self.space.at_edge(self.best.settings),
            "trials": [trial.to_dict() for trial in self.trials],
        }


def tune(
    data: Interactions,
    *,
    model: str = "enmf",
    trainer: Trainer | None = None,
    space: SearchSpace | None = None,
    trials: int = 20,
    jobs: int = 1,
    budget_seconds: float = math.inf,
    seed: int = 0,
    study: str | Path | None = None,
    on_trial: OnTrial | None = None,
) -> Tuning:
    """Look for the best settings in `space` for a kind of model on `data`.

    A fifth of the items of at most 10,000 users is held out; every trial trains on the rest. No trial begins once
    `budget_seconds` are over, but one is made at least. With `jobs` above 1 as many processes try at the same time, and
    what is tried depends on which of them is done first; with one, `seed` decides.

    The first trial is of settings from a quick look as `choose_objective` takes it.

    `study` names a file that keeps the trials; if it is there, the search goes on from it up to `trials` in all.
    `on_trial` is called after each trial with it, its number and whether it is the best so far.
    """
    _check(trials, jobs, budget_seconds, seed)
    end = time.monotonic() + budget_seconds
    space, trainer = (space or SearchSpace()).around(data), trainer or ALS()
    training = recorded(trainer)
    if training is None:
        raise SettingError(
            f"A trainer {type(trainer).__name__} came whose settings cannot be written down; ALS or AdamW is wanted."
        )
    ranges = {name: [each.low, each.high] for name, each in space.ranges.items()}
    about = {
        "data_sha256": data.digest(),
        "model": model,
        "training": training,
        "space": ranges,
        "seed": seed,
    }
    path = None if study is None else Path(study)
    known = [] if path is None else read_study(path, about)
    part = ValidationSlice.of(data, rng=np.random.default_rng([seed, 1]))
    found = list(known)

    def record(trial: Trial) -> None:
        best = trial.ndcg is not None and all(_ndcg(trial) > _ndcg(each) for each in found)
        found.append(trial)
        if path is not None:
            write_study(path, about, found)
        if on_trial is not None:
            on_trial(trial, len(found), best)

    if trials > len(known):
        initial, noise_edge = _initial_points(space, part.learn, seed), partial(space.noise_edge, part.learn)
        proposals = Proposals(space, initial, known, noise_edge=noise_edge, seed=seed)
        limit = _Limit(trials - len(known), end, at_least=0 if known else 1)
        with workers(TrialRunner(part, model, trainer, seed), jobs) as submit, quiet():
            _run(proposals, submit, limit, jobs=jobs, record=record)
    if all(trial.ndcg is None for trial in found):
        raise ModelError(f"No trial could be trained; the last said: {found[-1].problem}")
    return Tuning(tuple(found), len(known), len(part.users), space, model, training)


def _initial_points(space: SearchSpace, data: Interactions, seed: int) -> list[dict[str, float]]:
    """What `choose_objective` chooses, and the initial design of the space."""
    points = list(space.initial_points(data))
    begin = space.rounded(points[0])
    others = {name: begin[name] for name in ("l2_scaling", "user_activity", "item_popularity")}
    w0, l2 = (each.low if each.fixed else None for each in (space.ranges["w0"], space.ranges["l2"]))
    rng = np.random.default_rng([seed, 3])
    chosen = choose_objective(data, dim=begin["dim"], rng=rng, w0=w0, l2=l2, progress=None, **others)
    pair = {"w0": chosen.objective.w0, "l2": chosen.objective.l2}
    first = {name: each.clipped(pair[name]) for name, each in space.searched.items() if name in pair}
    return [{**points[0], **first}, *points]


@dataclass(frozen=True)
class _Limit:
    """How many trials may begin, and until when; so many do in any case."""

    trials: int
    end: float
    at_least: int

    def allows(self, n_begun: int) -> bool:
        return n_begun < self.trials and (n_begun < self.at_least or time.monotonic() < self.end)


def _run(
    proposals: Proposals, submit: Submit, limit: _Limit, *, jobs: int, record: Callable[[Trial], None]
) -> None:
    """Have up to `jobs` trials at a time run until the limit is met, and record each as it ends."""
    waiting: dict[Future[Trial], Any] = {}
    n_begun = 0
    while True:
        while len(waiting) < jobs and limit.allows(n_begun):
            asked, settings = proposals.ask()
            waiting[submit(settings)] = asked
            n_begun += 1
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            try:
                trial = future.result()
            except BrokenProcessPool:
                raise SettingError(
                    f"A process of the search was ended from outside, perhaps for want of memory. Use fewer jobs "
                    f"({jobs} came); what is in the study is kept."
                ) from None
            proposals.tell(waiting.pop(future), trial)
            record(trial)


def _ndcg(trial: Trial) -> float:
    return -1.0 if trial.ndcg is None else trial.ndcg


def _check(trials: int, jobs: int, budget_seconds: float, seed: int) -> None:
    for name, value in (("trials", trials), ("jobs", jobs)):
        if value < 1:
            raise SettingError(f"{name} is {value}; a whole number from 1 up is wanted.")
    if not budget_seconds > 0:
        raise SettingError(f"budget_seconds is {budget_seconds}; a number above 0 is wanted.")
    if seed < 0:
        raise SettingError(f"seed is {seed}; a whole number from 0 up is wanted.")
