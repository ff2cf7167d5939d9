"""One run of the paper's evaluation: a split, an original, requests, and every method on them."""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Requests
from alteraser.data.split import holdout, inject_noise, privacy_requests
from alteraser.live.erasure import Erasure
from alteraser.measure.compare import FORGETTING, OTHERS, Report, compare
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.train.base import Training
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from studies.methods import (
    AH_NEWTON,
    METHODS,
    ORIGINAL,
    OWN_START,
    RETRAIN,
    RETRAIN_ALS,
    SAME_LOSS,
    Start,
    methods_of,
)
from studies.settings import Regime, Settings

Scenario = Literal["noise", "privacy"]
SCENARIOS: tuple[Scenario, ...] = ("noise", "privacy")
N_FORGETTING = 64
MEASURES = ("rbo", "rbo_extrapolated", "rbo_training", "recall", "ndcg")
# What takes less than this is timed several times, and the median counts.
SHORT_SECONDS, REPEATS = 2.0, 5


@dataclass(frozen=True)
class Case:
    """Which run of which case: it alone determines everything random in it."""

    dataset: str
    scenario: Scenario
    regime: Regime
    run: int
    seed: int = 0

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator for one purpose; scenario and regime share split and requests where they can."""
        return np.random.default_rng([self.seed, self.run, zlib.crc32(purpose.encode())])

    @property
    def name(self) -> str:
        """Names the file of this case, which holds all its runs."""
        return f"{self.dataset}-{self.scenario}-{self.regime}"


def run_case(
    case: Case,
    data: Interactions,
    settings: Settings,
    *,
    methods: Sequence[str] | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """The figures of each method; agreement is with Retrain, which therefore always runs."""
    wanted = [
        name for name in methods_of(case.regime) if methods is None or name in methods or name == RETRAIN
    ]
    full, test, requests = prepare(case, data)
    announce(ORIGINAL)
    began = time.perf_counter()
    training = train_original(case, settings, full)
    seconds = {ORIGINAL: time.perf_counter() - began}
    originals = {OWN_START: training.model}
    models: dict[str, Any] = {ORIGINAL: training.model}
    extra = {ORIGINAL: {"passes": len(training.losses), "converged": training.converged}}
    losses: dict[str, float] = {}
    for name in wanted:
        if name == ORIGINAL:
            continue
        announce(name)
        start = METHODS[name].start
        if start not in originals:
            originals[start] = train_original(case, settings, full, start).model
        original = originals[start]
        erasure, seconds[name] = timed(
            lambda name=name: METHODS[name].build(settings, case.regime, case.rng, losses),  # type: ignore[misc]
            original,
            full,
            requests,
        )
        models[name], losses[name] = erasure.model, erasure.loss_after
        unlearner = METHODS[name].build(settings, case.regime, case.rng, losses)
        extra[name] = _extra(original, erasure) | _tolerance(unlearner)
    announce("measuring")
    mask = requests.match(full).mask
    forget, remain = full.only(mask), full.without(mask)
    began = time.perf_counter()
    report = compare(models, remain=remain, test=test, forget=forget, reference=RETRAIN)
    measuring = (time.perf_counter() - began) / len(models)
    return [
        asdict(case)
        | {"method": name}
        | figures_of(report, name)
        | _speed(name, seconds)
        | {"seconds_measured": seconds[name] + measuring}
        | extra[name]
        for name in models
    ]


def train_original(
    case: Case, settings: Settings, full: Interactions, start: Start = OWN_START
) -> Training[Any]:
    """An original of a case: ENMF as in the paper, or MF where training goes to the optimum."""
    kind: type[ENMF] | type[MF] = ENMF if case.regime == "paper" else MF
    rng = case.rng(start.weights)
    untrained = kind.sized_for(full, dim=settings.dim, objective=settings.objective(), rng=rng)
    order = rng if start.order is None else case.rng(start.order)
    return settings.trainer(case.regime).train(untrained, full, rng=order)


def prepare(case: Case, data: Interactions) -> tuple[Interactions, Interactions, Requests]:
    """The full training data, the test data and the requests of the scenario."""
    train, test = holdout(data, fraction=0.2, rng=case.rng("split"))
    if case.scenario == "noise":
        full, requests = inject_noise(train, n_users=N_FORGETTING, rng=case.rng("requests"), avoid=test)
        return full, test, requests
    return train, test, privacy_requests(train, n_users=N_FORGETTING, rng=case.rng("requests"))


def timed(
    build: Callable[[], Unlearner], original: Any, full: Interactions, requests: Requests
) -> tuple[Erasure[Any], float]:
    """The erasure and its seconds, the median of several where they are few; each time from the start."""
    erasure = build().forget(original, full, requests)
    seconds = [erasure.cost.seconds]
    while seconds[0] < SHORT_SECONDS and len(seconds) < REPEATS:
        seconds.append(build().forget(original, full, requests).cost.seconds)
    return erasure, statistics.median(seconds)


def _extra(original: Any, erasure: Erasure[Any]) -> dict[str, Any]:
    return {
        "passes": erasure.cost.steps,
        "converged": erasure.converged,
        "rows_visited": erasure.cost.rows_visited,
        "losses": list(erasure.losses[1:]),
        "loss_before": erasure.loss_before,
        "gradient_before": original.gradient_norm(erasure.remain),
        "gradient_after": erasure.model.gradient_norm(erasure.remain),
    }


def _tolerance(unlearner: Unlearner) -> dict[str, float]:
    """What AltEraser may leave of the gap: pages tell that of the runs, not of the code that makes them."""
    return {"tolerance": unlearner.rows_to_move.tolerance} if isinstance(unlearner, AltEraser) else {}


def figures_of(report: Report, name: str) -> dict[str, Any]:
    """What `compare` says of one model, by the names the results use."""

    def of(group: str) -> dict[str, Any]:
        figures = report.values[name][group]
        return {m: {str(k): v for k, v in figures[m].items()} for m in MEASURES if m in figures}

    return {
        "re_predict": report.re_predict[name],
        **of(FORGETTING),
        "others": of(OTHERS) if OTHERS in report.n_users else {},
        "n_users": report.n_users,
        "loss": report.loss[name],
    }


def _speed(name: str, seconds: dict[str, float]) -> dict[str, Any]:
    if name == ORIGINAL:
        return {"seconds": seconds[name], "speed_up": None}
    speed = {"seconds": seconds[name], "speed_up": seconds[RETRAIN] / seconds[name]}
    if RETRAIN_ALS in seconds:
        speed["speed_up_als"] = seconds[RETRAIN_ALS] / seconds[name]
    if name == AH_NEWTON:
        speed |= {
            ratio: seconds[rival] / seconds[name] for rival, ratio in SAME_LOSS.items() if rival in seconds
        }
    return speed
