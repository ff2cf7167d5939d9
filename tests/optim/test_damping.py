"""The damping rule: of rows and of single numbers alike, with a floor, and checked where it is made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alteraser.errors import SettingError
from alteraser.optim.damping import LevenbergMarquardt

RULE = LevenbergMarquardt(fall=0.25, rise=8.0, floor=0.1)


@pytest.mark.parametrize(
    ("damping", "actual", "wanted"),
    [
        (2.0, 1.0, 0.5),  # kept its promise
        (2.0, 5.0, 0.5),  # more than kept it
        (2.0, 0.75, 2.0),  # the limits belong to the middle
        (2.0, 0.5, 2.0),
        (2.0, 0.25, 2.0),
        (2.0, 0.2, 16.0),
        (2.0, -3.0, 16.0),  # went up
        (0.2, 1.0, 0.1),  # the floor
        (2.0, float("nan"), 2.0),
    ],
)
def test_the_next_damping(damping: float, actual: float, wanted: float) -> None:
    assert RULE.next(damping, predicted=1.0, actual=actual) == wanted
    rows = torch.tensor([damping, 4.0], dtype=torch.float64)
    found = RULE.next(
        rows,
        predicted=torch.tensor([1.0, 2.0], dtype=torch.float64),
        actual=torch.tensor([actual, 1.0], dtype=torch.float64),
    )
    assert found.tolist() == [wanted, 4.0]


def test_a_step_taken_or_refused_without_a_promise() -> None:
    assert RULE.lowered(2.0) == 0.5
    assert RULE.lowered(0.1) == 0.1
    assert RULE.raised(2.0) == 16.0
    assert RULE.lowered(torch.tensor([2.0, 0.2])).tolist() == [0.5, pytest.approx(0.1)]
    assert LevenbergMarquardt().lowered(1e-300) == pytest.approx(1e-301)  # no floor unless given


@pytest.mark.parametrize("setting", [{"share": 0.0}, {"fall": 1.5}, {"rise": 0.5}, {"floor": -1.0}])
def test_settings_out_of_range_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=str(next(iter(setting.values())))):
        LevenbergMarquardt(**setting)
