"""The search for settings: NDCG@10 on a validation slice of the training data, one setting at a time.

Each round goes through the settings in turn, tries the values near the best one, and keeps what is best; it ends when
a round changes nothing. Every trial is kept, so that the search can be read, and resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from alteraser.data.interactions import Interactions
from alteraser.data.split import holdout
from alteraser.experiments.run import Case
from alteraser.experiments.settings import Regime, Settings
from alteraser.experiments.store import Store
from alteraser.measure.compare import EVERYONE, compare
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF

GRID: dict[str, tuple[float, ...]] = {
    "l2": (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16),
    "w0": (0.03, 0.1, 0.3, 1.0),
    "batch_users": (128, 256, 512, 1024),
    "learning_rate": (0.003, 0.01, 0.03),
}
OF_ADAMW = ("batch_users", "learning_rate")


def tune(
    dataset: str,
    regime: Regime,
    data: Interactions,
    folder: Path,
    *,
    seed: int = 0,
    max_rounds: int = 3,
    announce: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The best settings found and all trials; what `folder` holds already is not tried again."""
    case = Case(dataset, "noise", regime, run=0, seed=seed)
    train, _ = holdout(data, fraction=0.2, rng=case.rng("split"))
    learn, validate = holdout(train, fraction=0.1, rng=case.rng("validation"))
    store, name = Store(folder), f"tuning-{dataset}-{regime}"
    store.create()
    trials: list[dict[str, Any]] = store.read(name)["trials"] if store.has(name) else []

    def score(settings: Settings) -> float:
        known = next((each for each in trials if each["settings"] == settings.to_dict()), None)
        if known is None:
            announce(f"trial {len(trials) + 1}: {_text(settings, regime)}")
            known = {"settings": settings.to_dict()} | _trial(case, settings, learn, validate)
            trials.append(known)
            store.write(name, {"dataset": dataset, "regime": regime, "trials": trials})
        return float(known["ndcg@10"])

    best = Settings()
    for _ in range(max_rounds):
        before = best
        for field in GRID:
            if regime == "paper" or field not in OF_ADAMW:
                best = max([best, *_near(best, field)], key=score)
        if best == before:
            break
    result = {"dataset": dataset, "regime": regime, "chosen": best.to_dict(), "trials": trials}
    store.write(name, result)
    return result


def _near(settings: Settings, field: str) -> Iterator[Settings]:
    """The settings with the neighbouring values of one field."""
    values, place = GRID[field], GRID[field].index(getattr(settings, field))
    for other in (place - 1, place + 1):
        if 0 <= other < len(values):
            yield replace(settings, **{field: values[other]})  # type: ignore[arg-type]


def _trial(case: Case, settings: Settings, learn: Interactions, validate: Interactions) -> dict[str, Any]:
    kind = ENMF if case.regime == "paper" else MF
    start = kind.sized_for(learn, dim=settings.dim, objective=settings.objective(), rng=case.rng("tuning"))
    training = settings.trainer(case.regime).train(start, learn, rng=case.rng("tuning order"))
    report = compare({"tried": training.model}, remain=learn, test=validate, ks=(10,))
    figures = report.values["tried"][EVERYONE]
    return {
        "ndcg@10": figures["ndcg"][10],
        "recall@10": figures["recall"][10],
        "passes": len(training.losses),
    }


def _text(settings: Settings, regime: Regime) -> str:
    fields = [field for field in GRID if regime == "paper" or field not in OF_ADAMW]
    return ", ".join(f"{field} {getattr(settings, field):g}" for field in fields)
