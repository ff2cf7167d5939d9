"""What a request brings to rows, and the half steps that remove it, against autograd and against the loss itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alteraser import ALS, Interactions, Objective, fit
from alteraser.data.interactions import Side
from alteraser.live import disturbance, steps
from alteraser.live.gains import possible_gain, worth_moving
from alteraser.live.state import LiveState
from alteraser.live.steps import Steps
from tests.live.cases import PLAIN, deletion, every_kind, every_objective

EXACT = ALS(tolerance=1e-14, max_passes=2000)


def all_of(state: LiveState[Any], side: Side) -> np.ndarray[Any, Any]:
    return state.residual(side, np.arange(len(state.sides[side])))


@every_kind
@every_objective
@pytest.mark.parametrize("fewer", [0, 10**9], ids=["pushed", "gathered"])
@pytest.mark.parametrize("few", [0, 10**9], ids=["gram", "moved rows"])
def test_what_is_brought_is_how_residuals_change(
    enmf: bool,
    objective: Objective,
    fewer: int,
    few: int,
    random_data: Any,
    small_model: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To first order: as moves get shorter, what it is wrong by falls with their square."""
    monkeypatch.setattr(disturbance, "FEWER", fewer)
    monkeypatch.setattr(disturbance, "FEW", few)
    rng = np.random.default_rng(2)
    data = random_data(20, 15, confidences=True)
    model = small_model(data, dim=5, objective=objective, enmf=enmf, dtype=torch.float64)
    state = LiveState(model, data, training_gap=0.0)
    before = {side: all_of(state, side) for side in Side}
    mask = np.zeros(len(data), np.bool_)
    mask[rng.choice(len(data), 6, replace=False)] = True
    state.apply(deletion(data, mask))
    after = {side: all_of(state, side) for side in Side}
    for side in Side:
        rows = state.sides[side].occupied()
        brought = state.disturbance.brought_to(side, rows)
        wanted = (after[side] - before[side])[rows]
        if not (objective.user_activity or objective.item_popularity):  # else a row's own weight changes, too
            np.testing.assert_allclose(brought, wanted, rtol=0, atol=1e-9)
    errors = []
    for size in (1e-2, 1e-3):
        state = LiveState(model, data, training_gap=0.0)
        users = np.array([1, 4, 7])
        state.move(Side.USERS, users, model.users.numpy()[users] + size * np.ones((3, 5)))
        rows = np.array([0, 3, 8, 11])
        brought = state.disturbance.brought_to(Side.ITEMS, rows)
        wanted = (all_of(state, Side.ITEMS) - before[Side.ITEMS])[rows]
        assert np.abs(brought - wanted).max() < 0.1 * np.abs(wanted).max()
        errors.append(np.abs(brought - wanted).max())
    assert errors[1] < errors[0] / 50


@pytest.mark.parametrize("measured", [10**9, 0], ids=["all entries", "some of each row"])
def test_a_half_step_goes_as_far_as_its_direction_serves(
    measured: int, random_data: Any, small_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row ends where the loss no longer falls along the way it went; what is left is its residual then."""
    monkeypatch.setattr(steps, "MEASURED", measured)
    data: Interactions = random_data(40, 30, confidences=True)
    start = small_model(data, dim=4, objective=PLAIN, enmf=False, dtype=torch.float64)
    state = LiveState(fit(start, data, trainer=EXACT).model, data)
    mask = data.users == 7
    mask[mask.nonzero()[0][0]] = False
    state.apply(deletion(data, mask))
    remain, before = data.without(mask), state.model
    rows = remain.by(Side.ITEMS).occupied
    change = Steps(state).half_step(Side.ITEMS, rows, state.disturbance.brought_to(Side.ITEMS, rows))
    assert change is not None
    assert change.whole == pytest.approx(state.model.loss(remain) - before.loss(remain), rel=1e-6)
    assert change.whole < 0
    went = (state.model.items - before.items).numpy()[rows]
    residual = state.residual(Side.ITEMS, rows)  # nothing is kept: training ended at an optimum
    lengths = np.linalg.norm(went, axis=1) * np.linalg.norm(residual, axis=1)
    assert (np.abs((went * residual).sum(1)) <= 1e-6 * lengths.max()).all()
    if measured:
        np.testing.assert_allclose(state.disturbance.brought_to(Side.ITEMS, rows), residual, atol=1e-8)


def test_rows_worth_a_move_have_nearly_all_there_is_to_gain(random_data: Any, small_model: Any) -> None:
    data = random_data(60, 40)
    start = small_model(data, dim=4, objective=PLAIN, enmf=False, dtype=torch.float64)
    state = LiveState(fit(start, data, trainer=EXACT).model, data)
    mask = data.users == 5
    state.apply(deletion(data, mask))
    rows = state.sides[Side.ITEMS].occupied()
    found = worth_moving(state, Side.ITEMS, rows)
    each = state.decrements(Side.ITEMS, rows, state.disturbance.brought_to(Side.ITEMS, rows))
    assert found.rows is not None
    assert len(found.rows) < len(rows)
    gained = each[np.isin(rows, found.rows)].sum()
    assert gained >= 0.98 * each.sum()
    assert found.unmoved == pytest.approx(each.sum() - gained, abs=1e-12)
    assert possible_gain(state, Side.ITEMS).gain == pytest.approx(each.sum())
