"""Studies beside the paper's tables: how cost and quality move with the size of a request, and with the solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.data.split import holdout
from alteraser.experiments.methods import AH_NEWTON, METHODS, RETRAIN, WARM_START
from alteraser.experiments.run import Case, figures_of, prepare, timed, train_original
from alteraser.experiments.settings import Settings
from alteraser.measure.compare import compare
from alteraser.optim.solvers import SOLVERS
from alteraser.unlearn.alteraser import AltEraser

Announce = Callable[[str], None]
SIZES: tuple[int | float, ...] = (
    1,
    10,
    100,
    1000,
    0.01,
    0.05,
)  # whole: so many interactions; else a share of them


def sizes_study(
    case: Case, data: Interactions, settings: Settings, *, announce: Announce
) -> list[dict[str, Any]]:
    """AltEraser, Warm-Start and Retrain on requests for more and more random interactions, each from the original."""
    full, test = holdout(data, fraction=0.2, rng=case.rng("split"))
    announce("Original")
    original = train_original(case, settings, full).model
    records = []
    for size in SIZES:
        n = size if isinstance(size, int) else max(1, round(size * len(full)))
        requests = random_requests(full, n, case.rng(f"size {size}"))
        names = [name for name in (RETRAIN, WARM_START, AH_NEWTON) if case.regime in METHODS[name].regimes]
        models, seconds, passes = {"Original": original}, {}, {}
        for name in names:
            announce(f"{n} interactions: {name}")
            outcome, seconds[name] = timed(
                lambda name=name: METHODS[name].build(settings, case.regime, case.rng, {}),  # type: ignore[misc]
                original,
                full,
                requests,
            )
            models[name], passes[name] = outcome.model, outcome.cost.passes
        mask = requests.match(full).mask
        report = compare(
            models, remain=full.without(mask), test=test, forget=full.only(mask), reference=RETRAIN
        )
        records += [
            {"dataset": case.dataset, "regime": case.regime, "size": n, "method": name}
            | figures_of(report, name)
            | {"seconds": seconds[name], "speed_up": seconds[RETRAIN] / seconds[name], "passes": passes[name]}
            for name in names
        ]
    return records


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


def solvers_study(
    case: Case, data: Interactions, settings: Settings, *, announce: Announce
) -> list[dict[str, Any]]:
    """AltEraser with every solver the package has, on the same original and requests."""
    full, test, requests = prepare(case, data)
    announce("Original")
    original = train_original(case, settings, full).model
    announce(RETRAIN)
    reference = METHODS[RETRAIN].build(settings, case.regime, case.rng, {}).forget(original, full, requests)
    models, rows = {RETRAIN: reference.model}, {}
    for name, solver in SOLVERS.items():
        announce(name)
        outcome, seconds = timed(lambda solver=solver: AltEraser(solver=solver), original, full, requests)  # type: ignore[misc]
        models[name] = outcome.model
        rows[name] = {
            "seconds": seconds,
            "passes": outcome.cost.passes,
            "loss_after": outcome.cost.loss_after,
        }
    mask = requests.match(full).mask
    report = compare(models, remain=full.without(mask), test=test, forget=full.only(mask), reference=RETRAIN)
    common = {"dataset": case.dataset, "regime": case.regime}
    return [common | {"solver": name} | figures_of(report, name) | row for name, row in rows.items()]


STUDIES: dict[str, Callable[..., list[dict[str, Any]]]] = {"sizes": sizes_study, "solvers": solvers_study}
