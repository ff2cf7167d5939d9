"""What a request brings to rows, and the half steps that remove it, against autograd and against the loss itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from alteraser import ALS, Interactions, Objective, fit
from alteraser.data.interactions import Side
from alteraser.live import disturbance, gains, steps
from alteraser.live.gains import possible_gain, worth_moving
from alteraser.live.state import LiveState
from alteraser.live.steps import Steps
from tests.live.cases import PLAIN, deletion, every_kind, every_objective

EXACT = ALS(tolerance=1e-14, max_passes=2000)


def all_of(state: LiveState[Any], side: Side) -> np.ndarray[Any, Any]:
    return state.residual(side, np.arange(len(state.sides[side])))


@every_kind
@every_objective
@pytest.mark.parametrize("pushed", [0, 10**9], ids=["pushed", "gathered"])
@pytest.mark.parametrize("multiplied_out", [0, 10**9], ids=["gram", "moved rows"])
def test_what_is_brought_is_how_residuals_change(
    enmf: bool,
    objective: Objective,
    pushed: int,
    multiplied_out: int,
    random_data: Any,
    small_model: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To first order: as moves get shorter, what it is wrong by falls with their square."""
    monkeypatch.setattr(disturbance, "PUSHED", pushed)
    monkeypatch.setattr(disturbance, "MULTIPLIED_OUT", multiplied_out)
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
        # Exactly, but where weights in missing entries have changed on both sides: to first order.
        exact = not (objective.user_activity or objective.item_popularity)
        np.testing.assert_allclose(
            brought, wanted, rtol=0, atol=1e-9 if exact else 0.1 * np.abs(wanted).max()
        )
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


@every_kind
@pytest.mark.parametrize("alike", [True, False], ids=["alike", "heavy tails"])
def test_a_half_step_goes_as_far_as_its_direction_serves(
    enmf: bool, alike: bool, random_data: Any, small_model: Any
) -> None:
    """Each row ends where the loss no longer falls along the way it went; what is left is its residual then."""
    state, remain = after_a_deletion(random_data, small_model, enmf=enmf, alike=alike)
    before, rows = state.model, remain.by(Side.ITEMS).occupied
    change = Steps(state).half_step(Side.ITEMS, rows, state.disturbance.brought_to(Side.ITEMS, rows))
    assert change is not None
    assert change.whole == pytest.approx(state.model.loss(remain) - before.loss(remain), rel=1e-6)
    assert change.whole < 0
    went = (state.model.items - before.items).numpy()[rows]
    residual = state.residual(Side.ITEMS, rows)  # nothing is kept: training ended at an optimum
    lengths = np.linalg.norm(went, axis=1) * np.linalg.norm(residual, axis=1)
    assert (np.abs((went * residual).sum(1)) <= 1e-6 * lengths.max()).all()
    np.testing.assert_allclose(state.disturbance.brought_to(Side.ITEMS, rows), residual, atol=1e-6)


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "heavy tails"])
def test_some_entries_tell_how_far_a_half_step_goes(
    alike: bool, random_data: Any, small_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they all weigh the same; else all are looked at, as a few may weigh more than all others together."""
    state, remain = after_a_deletion(random_data, small_model, enmf=False, alike=alike)
    exact, _ = after_a_deletion(random_data, small_model, enmf=False, alike=alike)
    rows, before = remain.by(Side.ITEMS).occupied, state.model.loss(remain)
    brought = state.disturbance.brought_to(Side.ITEMS, rows)
    wanted = Steps(exact).half_step(Side.ITEMS, rows, brought)
    monkeypatch.setattr(steps, "MEASURED", 0)
    monkeypatch.setattr(steps, "MEASURED_OF_A_ROW", 4)
    change = Steps(state).half_step(Side.ITEMS, rows, brought)
    assert change is not None
    assert wanted is not None
    fall = before - state.model.loss(remain)
    assert fall >= 0.9 * -wanted.whole > 0
    assert -change.whole == pytest.approx(fall, rel=0.3 if alike else 1e-6)


def after_a_deletion(
    random_data: Any, small_model: Any, *, enmf: bool, alike: bool
) -> tuple[LiveState[Any], Interactions]:
    """A state whose original was at its optimum, after one user has forgotten all but an item; what remains."""
    data: Interactions = random_data(120, 30, density=0.3)
    if not alike:
        weights = np.where(np.random.default_rng(3).random(len(data)) < 0.02, 200.0, 1.0)
        data = replace(data, events=data.events.with_columns(weight=pl.Series(weights, dtype=pl.Float32)))
    start = small_model(data, dim=4, objective=PLAIN, enmf=enmf, dtype=torch.float64)
    state = LiveState(fit(start, data, trainer=EXACT).model, data)
    mask = data.users == 7
    mask[mask.nonzero()[0][0]] = False
    state.apply(deletion(data, mask))
    return state, data.without(mask)


@pytest.mark.parametrize("half_step_first", [False, True])
def test_drawn_rows_tell_what_all_rows_could_gain(
    half_step_first: bool, random_data: Any, small_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what a half step has left, to which no entry leads any more."""
    monkeypatch.setattr(gains, "LOOKED_AT", 0)
    monkeypatch.setattr(gains, "FOLLOWED", 0)
    monkeypatch.setattr(gains, "DRAWN", 40)
    state, remain = after_a_deletion(random_data, small_model, enmf=False, alike=True)
    for side in (Side.ITEMS, Side.USERS):
        rows = remain.by(side).occupied
        brought = state.disturbance.brought_to(side, rows)
        if half_step_first:
            assert Steps(state).half_step(side, rows, brought) is not None
            brought = state.disturbance.brought_to(side, rows)
        wanted = state.decrements(side, rows, brought).sum()
        assert possible_gain(state, side).gain == pytest.approx(wanted, rel=0.3)


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
