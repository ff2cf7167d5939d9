"""Affected rows: every gradient follows every change exactly, and steps end where full passes end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from alteraser import ALS, Interactions, JointNewton, Objective, fit
from alteraser.data.interactions import Side
from alteraser.sweep.affected import AffectedRows

PLAIN = Objective(w0=0.3, l2=0.2, l2_scaling=0.5)
WEIGHED = Objective(
    w0=0.7,
    l2=0.2,
    l2_scaling=1.0,
    user_activity=0.4,
    item_popularity=1.3,
    mean_user_count=3.0,
    mean_item_count=4.0,
)
every_kind = pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
every_objective = pytest.mark.parametrize("objective", [PLAIN, WEIGHED], ids=["plain", "weighed"])


def some_pairs(
    data: Interactions, mask: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The pairs of events that are deleted whole."""
    users, items = data.users[mask].astype(np.int64), data.items[mask].astype(np.int64)
    return users, items, np.full(len(users), -1, np.float32)


def gradients(model: Any, data: Interactions, dense_loss: Any) -> dict[Side, torch.Tensor]:
    points = {name: value.clone().requires_grad_() for name, value in model.parameters().items()}
    loss = dense_loss(data, model.objective, *points.values())
    return {side: torch.autograd.grad(loss, points[side.value], retain_graph=True)[0] for side in Side}


def every_row(state: AffectedRows[Any], side: Side) -> torch.Tensor:
    n = len(state.model.table(side))
    return torch.from_numpy(state.residual(side, np.arange(n)))


@every_kind
@every_objective
@pytest.mark.parametrize("confidences", [False, True], ids=["ones", "confidences"])
def test_the_gradient_follows_deletions_and_moves_exactly(
    enmf: bool, objective: Objective, confidences: bool, random_data: Any, small_model: Any, dense_loss: Any
) -> None:
    rng = np.random.default_rng(1)
    data = random_data(20, 15, confidences=confidences, empty=True)
    model = small_model(data, dim=5, objective=objective, enmf=enmf)
    state = AffectedRows(model, data, training_gap=0.0)
    mask = rng.random(len(data)) < 0.3
    mask[data.users == 3] = True  # one user forgets all
    state.delete(*some_pairs(data, mask))
    remain = data.without(mask)
    state.call_in_debts()  # so that what a move tells is the whole loss
    for side, n in ((Side.ITEMS, 15), (Side.USERS, 20), (Side.ITEMS, 15)):
        rows = np.sort(rng.choice(n - 1, 4, replace=False))
        rows = rows[remain.by(side).counts[rows] > 0]
        now = state.model
        rise = state.move(side, rows, now.table(side).numpy()[rows] + rng.normal(0, 0.1, (len(rows), 5)))
        assert rise == pytest.approx(state.model.loss(remain) - now.loss(remain), rel=1e-8)

    assert (state.model.users[3] == 0).all()
    wanted = gradients(state.model, remain, dense_loss)
    for side in Side:
        occupied = remain.by(side).occupied
        torch.testing.assert_close(-2 * every_row(state, side)[occupied], wanted[side][occupied])
    assert state.gradient_norm() == pytest.approx(state.model.gradient_norm(remain), rel=1e-8)


@pytest.mark.parametrize("shape", [(90, 70), (1100, 40)], ids=["long rows", "many rows"])
def test_the_gradient_follows_moves_of_all_rows_exactly(
    shape: tuple[int, int], random_data: Any, small_model: Any, dense_loss: Any
) -> None:
    rng = np.random.default_rng(2)
    data = random_data(*shape, density=0.7, confidences=True)
    model = small_model(data, dim=19, objective=WEIGHED, enmf=True)
    state = AffectedRows(model, data, training_gap=0.0)
    mask = rng.random(len(data)) < 0.1
    remain = data.without(mask)
    state.delete(*some_pairs(data, mask))
    state.call_in_debts()
    for side in Side:
        rows = remain.by(side).occupied
        now = state.model
        rise = state.move(side, rows, now.table(side).numpy()[rows] + rng.normal(0, 0.1, (len(rows), 19)))
        assert rise == pytest.approx(state.model.loss(remain) - now.loss(remain), rel=1e-8)
    wanted = gradients(state.model, remain, dense_loss)
    for side in Side:
        occupied = remain.by(side).occupied
        torch.testing.assert_close(-2 * every_row(state, side)[occupied], wanted[side][occupied])
    assert state.gradient_norm() == pytest.approx(state.model.gradient_norm(remain), rel=1e-8)


@every_objective
def test_a_weight_that_is_left_counts(
    objective: Objective, random_data: Any, small_model: Any, dense_loss: Any
) -> None:
    data = random_data(12, 9, confidences=True)
    model = small_model(data, dim=3, objective=objective, enmf=True)
    state = AffectedRows(model, data, training_gap=0.0)
    state.delete(
        np.array([int(data.users[4])]), np.array([int(data.items[4])]), np.array([0.125], np.float32)
    )
    weights = data.events["weight"].to_numpy().copy()
    weights[4] = 0.125
    less = Interactions(data.events.with_columns(weight=weights), data.user_vocabulary, data.item_vocabulary)
    wanted = gradients(model, less, dense_loss)
    for side in Side:
        torch.testing.assert_close(-2 * every_row(state, side), wanted[side])


@every_kind
def test_with_a_training_gap_only_what_the_deletion_changed_is_owed(
    enmf: bool, random_data: Any, small_model: Any
) -> None:
    data = random_data(20, 15)
    model = small_model(data, dim=4, objective=PLAIN, enmf=enmf)
    state = AffectedRows(model, data, training_gap=1.0)
    assert state.gradient_norm() == 0
    mask = data.users == 5
    mask[mask.nonzero()[0][0]] = False
    state.delete(*some_pairs(data, mask))
    remain = data.without(mask)
    for side in Side:
        own = model.table(side)
        before, after = (model.row_problems(side, each).residual(own) for each in (data, remain))
        torch.testing.assert_close(every_row(state, side), after - before)


@every_kind
@every_objective
def test_steps_end_where_training_ends(
    enmf: bool, objective: Objective, random_data: Any, small_model: Any
) -> None:
    data = random_data(60, 40, seed=2, density=0.2)
    start = small_model(data, dim=4, objective=objective, enmf=enmf)
    exact = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(after=1e-3))
    original = fit(start, data, trainer=exact).model
    users = np.array([3, 17, 30])
    mask = np.isin(data.users, users) & (np.random.default_rng(0).random(len(data)) < 0.6)
    remain = data.without(mask)
    wanted = fit(original, remain, trainer=exact).model.loss(remain)
    state = AffectedRows(original, data)
    state.delete(*some_pairs(data, mask))
    opened = original.loss(remain) - wanted
    settled = state.settle(users, tolerance=1e-4, max_steps=50)
    assert settled.converged
    assert state.model.loss(remain) - wanted < 5e-3 * opened
    assert sum(settled.falls) == pytest.approx(
        original.loss(remain) - state.model.loss(remain), rel=1e-2, abs=1e-9
    )


def test_a_loose_tolerance_leaves_most_rows_alone(random_data: Any, small_model: Any) -> None:
    data = random_data(400, 200, seed=3, density=0.03)
    exact = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(after=1e-3))
    original = fit(small_model(data, dim=4, objective=PLAIN, enmf=False), data, trainer=exact).model
    mask = data.users == 7
    mask[mask.nonzero()[0][:2]] = False
    state = AffectedRows(original, data)
    state.delete(*some_pairs(data, mask))
    settled = state.settle(np.array([7]), tolerance=0.1)
    assert settled.converged
    changed = (state.model.users != original.users).any(1)
    assert changed[7]
    assert changed.sum() < 100


def test_pairs_that_are_not_there_are_refused(random_data: Any, small_model: Any) -> None:
    data = random_data(12, 9, density=0.2)
    state = AffectedRows(small_model(data, dim=3, objective=PLAIN, enmf=False), data)
    absent = np.argwhere(~np.isin(np.arange(12 * 9), data.users * 9 + data.items))[0, 0]
    with pytest.raises(ValueError, match="1 of 1 pairs"):
        state.delete(np.array([absent // 9]), np.array([absent % 9]), np.array([-1], np.float32))
