"""What the trainings of a run share, seen by what each is given to start from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from alteraser.data.interactions import Interactions
from alteraser.train.base import Training
from studies.methods import (
    ORIGINAL,
    RETRAIN,
    RETRAIN_INDEPENDENT,
    RETRAIN_STAR,
    SHARED_SEED,
    SHARED_WEIGHTS,
)
from studies.run import Case, prepare, run_case
from studies.settings import Settings

TRAININGS = (ORIGINAL, RETRAIN, RETRAIN_STAR, RETRAIN_INDEPENDENT, SHARED_WEIGHTS, SHARED_SEED)
"""In the order in which they happen; those named after an AltEraser are of its original."""


@dataclass
class Watching:
    """A trainer that notes what it is given and trains nothing."""

    starts: list[dict[str, Any]] = field(default_factory=list)

    def train(
        self,
        model: Any,
        data: Interactions,
        *,
        rng: np.random.Generator | None,
        progress: Any = None,
        on_pass: Any = None,
    ) -> Training[Any]:
        del progress, on_pass
        assert rng is not None
        weights = {name: value.numpy().copy() for name, value in model.parameters().items()}
        self.starts.append({"weights": weights, "order": rng.permutation(1000), "interactions": len(data)})
        return Training(model, [1.0], True, 0)


@pytest.fixture(scope="module")
def starts(data: Interactions) -> dict[str, dict[str, Any]]:
    watching = Watching()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Settings, "trainer", lambda *_: watching)
        run_case(Case("ml-1m", "noise", "paper", 0), data, Settings(dim=4), methods=TRAININGS)
    return dict(zip(TRAININGS, watching.starts, strict=True))


def like_retrain(starts: dict[str, dict[str, Any]], name: str) -> tuple[bool, bool]:
    """Whether a training begins with the weights of Retrain, and whether with its order."""
    ours, theirs = starts[name], starts[RETRAIN]
    same = [np.array_equal(ours["weights"][table], theirs["weights"][table]) for table in ("users", "items")]
    assert len(set(same)) == 1
    return same[0], np.array_equal(ours["order"], theirs["order"])


@pytest.mark.parametrize(
    ("name", "weights", "order"),
    [
        (ORIGINAL, False, False),
        (RETRAIN_STAR, True, False),
        (RETRAIN_INDEPENDENT, False, False),
        (SHARED_WEIGHTS, True, False),
        (SHARED_SEED, True, True),
    ],
)
def test_a_training_shares_with_retrain_what_its_name_says(
    starts: dict[str, dict[str, Any]], name: str, weights: bool, order: bool
) -> None:
    assert like_retrain(starts, name) == (weights, order)


def test_no_two_trainings_share_what_neither_shares_with_retrain(starts: dict[str, dict[str, Any]]) -> None:
    drawn = [starts[name]["weights"]["users"].tobytes() for name in (ORIGINAL, RETRAIN, RETRAIN_INDEPENDENT)]
    assert len(set(drawn)) == 3
    orders = [starts[name]["order"].tobytes() for name in TRAININGS[:4]]
    assert len(set(orders)) == 4


def test_originals_see_all_of_the_data_and_retrainings_what_remains(
    data: Interactions, starts: dict[str, dict[str, Any]]
) -> None:
    full, _, requests = prepare(Case("ml-1m", "noise", "paper", 0), data)
    remain = len(full) - int(requests.match(full).mask.sum())
    assert remain < len(full)
    for name, start in starts.items():
        retrained = name in (RETRAIN, RETRAIN_STAR, RETRAIN_INDEPENDENT)
        assert start["interactions"] == (remain if retrained else len(full))
