"""A trainer can be told by name and plain settings, and made again from them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from alteraser.errors import ModelFileError, SettingError
from alteraser.models.objective import Objective
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.base import Trainer
from alteraser.train.named import TO_THE_OPTIMUM, named_trainer, recorded, recorded_trainer


@pytest.mark.parametrize(
    "trainer",
    [
        ALS(),
        ALS(max_passes=3, tolerance=0.5, solve_shared=True),
        TO_THE_OPTIMUM,
        replace(TO_THE_OPTIMUM, max_passes=7),
        AdamW(),
        AdamW(learning_rate=0.1, batch_users=7, max_epochs=2, min_improvement=0.0),
    ],
    ids=repr,
)
def test_what_was_recorded_comes_back(trainer: Trainer) -> None:
    record = recorded(trainer)
    assert record is not None
    assert recorded_trainer(json.loads(json.dumps(record))) == trainer


@pytest.mark.parametrize("trainer", [ALS(acceleration=None), AdamW(patience=3)], ids=repr)
def test_what_a_record_would_leave_out_is_not_recorded(trainer: Trainer) -> None:
    assert recorded(trainer) is None


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"trainer": "magic"},
        {"trainer": "als", "surprise": 1},
        {"trainer": "als", "max_passes": "many"},
        {"trainer": "adamw", "learning_rate": -1},
    ],
    ids=str,
)
def test_a_record_that_makes_no_sense_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError):
        recorded_trainer(record)


def test_a_trainer_has_only_its_own_settings() -> None:
    assert named_trainer("als", learning_rate=None, max_passes=3) == ALS(max_passes=3)
    with pytest.raises(SettingError, match="learning_rate"):
        named_trainer("als", learning_rate=0.1)
    with pytest.raises(SettingError, match="als, newton, adamw"):
        named_trainer("sgd")


def test_newton_ends_at_the_optimum(random_data: Any, small_model: Any) -> None:
    data = random_data(60, 40, density=0.15, seed=2)
    start = small_model(data, dim=4, objective=Objective(w0=0.3, l2=0.5), dtype=torch.float64)
    by_default, to_the_end = (
        named_trainer(name).train(start, data, rng=None).model for name in ("als", "newton")
    )
    assert to_the_end.gradient_norm(data) < 0.2 * by_default.gradient_norm(data)
    assert to_the_end.loss(data) < by_default.loss(data)
