"""Studies beside the paper's tables, each of one question, on one run of a data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.data.split import holdout
from alteraser.measure.compare import compare
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.optim.solvers import SOLVERS
from alteraser.sweep.accelerate import Anderson
from alteraser.sweep.joint import JointNewton
from alteraser.sweep.sweep import Acceleration
from alteraser.train.als import ALS
from alteraser.train.named import TO_THE_OPTIMUM
from alteraser.unlearn.base import Unlearner
from studies.methods import (
    AH_NEWTON,
    METHODS,
    ORIGINAL,
    RETRAIN,
    RETRAIN_STAR,
    WARM_START,
    erase_by,
    erase_by_plain_passes,
    erase_to_the_end,
    erase_with_shared,
    retrain,
)
from studies.run import Case, figures_of, prepare, timed, train_original
from studies.settings import Settings

Announce = Callable[[str], None]
Records = list[dict[str, Any]]
Study = Callable[[Case, Interactions, Settings, Announce], Records]
Size = int | float  # whole: so many interactions; else a share of them

SIZES: tuple[Size, ...] = (1, 10, 100, 1000, 0.01, 0.05)
DELETED: tuple[Size, ...] = (0.001, 0.01, 0.05, 0.2, 0.5)
DIMS = (8, 16, 32, 64, 128)
L2_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
TRAINED_PASSES = (2, 5, 10, 20, 40)
WAYS: dict[str, Anderson | JointNewton | None] = {
    "plain passes": None,
    "Anderson": Anderson(),
    "joint Newton": JointNewton(),
}


def sizes_study(case: Case, data: Interactions, settings: Settings, announce: Announce) -> Records:
    """AltEraser, Warm-Start and Retrain on requests for more and more random interactions, each from the original."""
    full, test = holdout(data, fraction=0.2, rng=case.rng("split"))
    announce(ORIGINAL)
    original = train_original(case, settings, full).model
    names = [name for name in (RETRAIN, WARM_START, AH_NEWTON) if case.regime in METHODS[name].regimes]
    builds = {name: _method(name, case, settings) for name in names}
    records = []
    for size in SIZES:
        requests = random_requests(full, _number(size, full), case.rng(f"size {size}"))
        on = _Bench(original, full, test, requests, _prefixed(announce, f"{size:g}"))
        records += [_of(case) | {"size": _number(size, full)} | each for each in on.measure(builds)]
    return records


def solvers_study(case: Case, data: Interactions, settings: Settings, announce: Announce) -> Records:
    """AltEraser with every solver the package has, on the same original and requests, with Anderson's passes."""
    full, test, requests = prepare(case, data)
    announce(ORIGINAL)
    original = train_original(case, settings, full).model
    builds: dict[str, Callable[[], Unlearner]] = {RETRAIN: _method(RETRAIN, case, settings)}
    builds |= {name: partial(erase_by, name) for name in SOLVERS}
    measured = _Bench(original, full, test, requests, announce).measure(builds)
    return [_of(case) | {"solver": each.pop("method")} | each for each in measured]


def enmf_study(case: Case, data: Interactions, settings: Settings, announce: Announce) -> Records:
    """ENMF whose h is solved too, in training as in forgetting: alternating passes with the step for Φ."""
    full, test, requests = prepare(case, data)
    trainer = ALS(max_passes=500, tolerance=1e-7, solve_shared=True)
    start = ENMF.sized_for(full, dim=settings.dim, objective=settings.objective(), rng=case.rng("original"))
    announce(ORIGINAL)
    original = trainer.train(start, full, rng=case.rng("original order")).model
    builds: dict[str, Callable[[], Unlearner]] = {
        RETRAIN: partial(retrain, case.rng, "retrain", trainer),
        RETRAIN_STAR: partial(retrain, case.rng, "retrain-star", trainer),
        "AltEraser with the step for Φ": erase_with_shared,
        "AltEraser": erase_by_plain_passes,
    }
    on = _Bench(original, full, test, requests, announce)
    return [_of(case) | each for each in on.measure({ORIGINAL: None, **builds})]


def acceleration_study(case: Case, data: Interactions, settings: Settings, announce: Announce) -> Records:
    """Loss against seconds of plain and accelerated passes and of joint Newton steps, in training and forgetting."""
    full, _, requests = prepare(case, data)
    announce(ORIGINAL)
    original = train_original(case, settings, full).model
    remain = full.without(requests.match(full).mask)
    records = []
    for way, acceleration in WAYS.items():
        for task in ("train", "forget"):
            announce(f"{task}: {way}")
            watch = _Watch()
            if task == "train":
                trainer = ALS(max_passes=300, tolerance=1e-9, acceleration=_from_scratch(acceleration))
                trainer.train(
                    original.fresh(case.rng("retrain")), remain, rng=case.rng("order"), progress=watch
                )
            else:
                erase_to_the_end(acceleration).forget(original, full, requests, progress=watch)
            records.append(_of(case) | {"task": task, "way": way} | watch.record())
    return records


@dataclass(eq=False)
class _Watch:
    """Loss and clock after each pass."""

    began: float = field(default_factory=time.perf_counter)
    losses: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)

    def __call__(self, done: int, most: int, loss: float) -> None:
        del done, most
        self.losses.append(loss)
        self.clock.append(time.perf_counter() - self.began)

    def record(self) -> dict[str, Any]:
        last = {"seconds": self.clock[-1], "passes": len(self.clock), "loss": self.losses[-1]}
        return {"losses": self.losses, "clock": self.clock} | last


def _from_scratch(acceleration: Acceleration | None) -> Acceleration | None:
    return TO_THE_OPTIMUM.acceleration if isinstance(acceleration, JointNewton) else acceleration


def conditions_study(case: Case, data: Interactions, settings: Settings, announce: Announce) -> Records:
    """When AltEraser equals retraining: one condition varied at a time, two retrainings beside it."""
    full, test, requests = prepare(case, data)
    records = []
    for condition in _conditions(case, settings, full, requests):
        say = f"{condition.varied} {condition.value:g}"
        trainer, say_too = condition.trainer, _prefixed(announce, say)
        start = MF.sized_for(
            condition.full,
            dim=condition.settings.dim,
            objective=condition.settings.objective(),
            rng=case.rng("original"),
        )
        say_too(ORIGINAL)
        original = trainer.train(start, condition.full, rng=case.rng("order")).model
        builds: dict[str, Callable[[], Unlearner] | None] = {
            ORIGINAL: None,
            RETRAIN: partial(retrain, case.rng, "retrain", trainer),
            RETRAIN_STAR: partial(retrain, case.rng, "retrain-star", trainer),
            AH_NEWTON: _method(AH_NEWTON, case, condition.settings),
        }
        on = _Bench(original, condition.full, test, condition.requests, say_too)
        varied = {"varied": condition.varied, "value": condition.value}
        records += [_of(case) | varied | each for each in on.measure(builds)]
    return records


@dataclass(frozen=True, eq=False)
class _Condition:
    varied: str
    value: float
    settings: Settings
    trainer: ALS
    full: Interactions
    requests: Requests


def _conditions(
    case: Case, settings: Settings, full: Interactions, requests: Requests
) -> Iterator[_Condition]:
    usual = _Condition("", 0.0, settings, TO_THE_OPTIMUM, full, requests)
    for factor in L2_FACTORS:
        stronger = replace(settings, l2=factor * settings.l2)
        yield replace(usual, varied="regularisation (l2)", value=stronger.l2, settings=stronger)
    for dim in DIMS:
        yield replace(usual, varied="dimension", value=float(dim), settings=replace(settings, dim=dim))
    for passes in TRAINED_PASSES:
        trainer = ALS(max_passes=passes, tolerance=0.0, acceleration=None)
        yield replace(usual, varied="passes of training", value=float(passes), trainer=trainer)
    genuine = full.without(requests.match(full).mask)  # nothing injected
    for share in DELETED:
        wanted = random_requests(genuine, _number(share, genuine), case.rng(f"share {share}"))
        yield replace(usual, varied="share deleted", value=float(share), full=genuine, requests=wanted)


STUDIES: dict[str, Study] = {
    "sizes": sizes_study,
    "solvers": solvers_study,
    "enmf": enmf_study,
    "acceleration": acceleration_study,
    "conditions": conditions_study,
}


@dataclass(frozen=True, eq=False)
class _Bench:
    """One original and request, on which methods are measured against Retrain."""

    original: Any
    full: Interactions
    test: Interactions
    requests: Requests
    announce: Announce

    def measure(self, builds: Mapping[str, Callable[[], Unlearner] | None]) -> Records:
        """Cost and quality of each; None stands for the original itself."""
        models: dict[str, Any] = {}
        cost: dict[str, dict[str, Any]] = {}
        for name, build in builds.items():
            if build is None:
                models[name], cost[name] = self.original, {}
                continue
            self.announce(name)
            erasure, seconds = timed(build, self.original, self.full, self.requests)
            models[name] = erasure.model
            cost[name] = {"seconds": seconds, "passes": erasure.cost.steps}
        mask = self.requests.match(self.full).mask
        remain, forget = self.full.without(mask), self.full.only(mask)
        report = compare(models, remain=remain, test=self.test, forget=forget, reference=RETRAIN)
        retrain = cost[RETRAIN]["seconds"]
        return [
            {"method": name}
            | figures_of(report, name)
            | cost[name]
            | ({"speed_up": retrain / cost[name]["seconds"]} if cost[name] else {})
            for name in models
        ]


def _prefixed(announce: Announce, text: str) -> Announce:
    return lambda what: announce(f"{text}: {what}")


def _method(name: str, case: Case, settings: Settings) -> Callable[[], Unlearner]:
    return lambda: METHODS[name].build(settings, case.regime, case.rng, {})


def _of(case: Case) -> dict[str, Any]:
    return {"dataset": case.dataset, "regime": case.regime}


def _number(size: Size, full: Interactions) -> int:
    return size if isinstance(size, int) else max(1, round(size * len(full)))


def random_requests(full: Interactions, n: int, rng: np.random.Generator) -> Requests:
    """Requests for `n` random pairs; nobody loses everything."""
    by_user = full.by(Side.USERS)
    users = np.repeat(np.arange(len(by_user)), by_user.counts)
    spare = np.ones(len(users), dtype=bool)
    spare[by_user.starts[:-1][by_user.counts > 0]] = False  # the first of each user stays
    chosen = rng.choice(np.flatnonzero(spare), size=n, replace=False)
    return Requests.pairs(
        full.user_vocabulary.ids.gather(users[chosen]),
        full.item_vocabulary.ids.gather(by_user.columns[chosen]),
    )


def slice_of(data: Interactions, n_users: int, rng: np.random.Generator) -> Interactions:
    """The interactions of some random users, on a vocabulary of their own."""
    chosen = rng.choice(data.n_users, size=min(n_users, data.n_users), replace=False)
    frame = data.only(np.isin(data.users, chosen)).to_frame()
    weights, times = (frame[name] if name in frame.columns else None for name in ("weight", "time"))
    return Interactions.from_columns(frame["user_id"], frame["item_id"], weights, times, merge=data.merge)
