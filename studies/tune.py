"""The search for settings: NDCG@10 on a validation slice of the training data.

First every combination of the objective's settings, then with the best of them every combination of AdamW's. Of those
the quickest counts that is within a hundredth of the best: the baseline must not be slow for nothing. Every trial is
kept, so that the search can be read, and resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from alteraser.data.interactions import Interactions
from alteraser.data.split import holdout
from alteraser.measure.compare import EVERYONE, compare
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from evidence.store import Store
from studies.run import Case
from studies.settings import Regime, Settings

OF_OBJECTIVE: dict[str, tuple[float, ...]] = {"w0": (0.03, 0.1, 0.3), "l2": (0.005, 0.01, 0.02, 0.04, 0.08)}
OF_ADAMW: dict[str, tuple[float, ...]] = {"learning_rate": (0.003, 0.01), "batch_users": (256, 512, 1024)}
START = Settings(batch_users=512)


def tune(
    dataset: str,
    regime: Regime,
    data: Interactions,
    folder: Path,
    *,
    seed: int = 0,
    announce: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The best settings found and all trials; what `folder` holds already is not tried again."""
    case = Case(dataset, "noise", regime, run=0, seed=seed)
    train, _ = holdout(data, fraction=0.2, rng=case.rng("split"))
    learn, validate = holdout(train, fraction=0.1, rng=case.rng("validation"))
    store, name = Store(folder), f"tuning-{dataset}-{regime}"
    store.create()
    trials = store.grown(name, "trials")

    def trial(settings: Settings) -> dict[str, Any]:
        known = next((each for each in trials if each["settings"] == settings.to_dict()), None)
        if known is None:
            announce(f"trial {len(trials) + 1}: {_text(settings, regime)}")
            known = store.stamped({"settings": settings.to_dict(), **_trial(case, settings, learn, validate)})
            trials.append(known)
            store.write(name, {"dataset": dataset, "regime": regime, "trials": trials})
        return known

    best = max(_combinations(START, OF_OBJECTIVE), key=lambda settings: trial(settings)["ndcg@10"])
    if regime == "paper":
        best = _quickest({settings: trial(settings) for settings in _combinations(best, OF_ADAMW)})
    result = {"dataset": dataset, "regime": regime, "chosen": best.to_dict(), "trials": trials}
    store.write(name, result)
    return result


def _quickest(tried: dict[Settings, dict[str, Any]]) -> Settings:
    """The settings that trained in the fewest epochs of those within a hundredth of the best NDCG@10."""
    good = 0.99 * max(trial["ndcg@10"] for trial in tried.values())
    return min(
        (s for s in tried if tried[s]["ndcg@10"] >= good), key=lambda settings: tried[settings]["passes"]
    )


def _combinations(settings: Settings, grid: dict[str, tuple[float, ...]]) -> Iterator[Settings]:
    """The settings with every combination of the grid's values."""
    for values in product(*grid.values()):
        changes: dict[str, Any] = dict(zip(grid, values, strict=True))
        yield replace(settings, **changes)


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
    fields = [*OF_OBJECTIVE, *(OF_ADAMW if regime == "paper" else ())]
    return ", ".join(f"{field} {getattr(settings, field):g}" for field in fields)
