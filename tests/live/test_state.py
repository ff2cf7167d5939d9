"""Every residual of a live model follows every change of its data and every move of its rows exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from alteraser import ALS, Interactions, Objective, SettingError, fit
from alteraser.data.changes import Change
from alteraser.data.csr import PairWeights
from alteraser.data.interactions import Side
from alteraser.live.state import LiveState
from tests.live.cases import PLAIN, WEIGHED, both_precisions, deletion, every_kind, every_objective


def change_of_pair(data: Interactions, event: int, after: PairWeights) -> Change:
    """The change of the pair of one event."""
    users, items = (rows[[event]].astype(np.int64) for rows in (data.users, data.items))
    before = data.by(Side.USERS).weights_of(users, items, n_columns=data.n_items)
    return Change(users, items, before, after)


def gradients(model: Any, data: Interactions, dense_loss: Any) -> dict[Side, torch.Tensor]:
    points = {name: value.double().clone().requires_grad_() for name, value in model.parameters().items()}
    loss = dense_loss(data, model.objective, *points.values())
    return {side: torch.autograd.grad(loss, points[side.value], retain_graph=True)[0] for side in Side}


def every_row(state: LiveState[Any], side: Side) -> torch.Tensor:
    n = len(state.model.table(side))
    return torch.from_numpy(state.residual(side, np.arange(n))).double()


def near(dtype: torch.dtype) -> dict[str, Any]:
    """Tolerances for numbers of about 1, sums of a few hundred terms."""
    return {"rtol": 1e-7, "atol": 1e-8} if dtype is torch.float64 else {"rtol": 1e-4, "atol": 1e-4}


@every_kind
@every_objective
@both_precisions
@pytest.mark.parametrize("confidences", [False, True], ids=["ones", "confidences"])
@pytest.mark.parametrize("training_gap", [0.0, 0.4, 1.0])
def test_the_gradient_and_the_loss_follow_deletions_and_moves(
    enmf: bool,
    objective: Objective,
    dtype: torch.dtype,
    confidences: bool,
    training_gap: float,
    random_data: Any,
    small_model: Any,
    dense_loss: Any,
) -> None:
    """The gradient less the share that the original had; the loss as a whole, whatever stands apart."""
    rng = np.random.default_rng(1)
    data = random_data(20, 15, confidences=confidences, empty=True)
    model = small_model(data, dim=5, objective=objective, enmf=enmf, dtype=dtype)
    own = gradients(model, data, dense_loss)
    state = LiveState(model, data, training_gap=training_gap)
    mask = rng.random(len(data)) < 0.3
    mask[data.users == 3] = True  # one user forgets all
    remain = data.without(mask)
    before = dense_loss(remain, objective, *(value.double() for value in model.parameters().values()))
    emptied = state.apply(deletion(data, mask))
    now = state.model
    assert float(before) - now.loss(remain) == pytest.approx(emptied, rel=1e-5)
    for side, n in ((Side.ITEMS, 15), (Side.USERS, 20), (Side.ITEMS, 15)):
        rows = np.sort(rng.choice(n - 1, 4, replace=False))
        rows = rows[remain.by(side).counts[rows] > 0]
        now = state.model
        change = state.move(side, rows, now.table(side).numpy()[rows] + rng.normal(0, 0.1, (len(rows), 5)))
        rise = state.model.loss(remain) - now.loss(remain)
        assert change.whole == pytest.approx(rise, rel=1e-8 if dtype is torch.float64 else 1e-4)
        if dtype is torch.float32:
            assert abs(change.whole - rise) < 4 * change.rounding + 1e-6

    assert (state.model.users[3] == 0).all()
    wanted, norm = gradients(state.model, remain, dense_loss), 0.0
    for side in Side:
        left = wanted[side] - training_gap * own[side]
        left[(remain.by(side).counts == 0) & (data.by(side).counts > 0)] = 0  # nothing is left to be short of
        torch.testing.assert_close(-2 * every_row(state, side), left, **near(dtype))
        norm += float(left.square().sum())
    assert state.gradient_norm() == pytest.approx(norm**0.5, rel=near(dtype)["rtol"])


@pytest.mark.parametrize("shape", [(90, 70), (1100, 40)], ids=["long rows", "many rows"])
def test_the_gradient_follows_moves_of_all_rows_exactly(
    shape: tuple[int, int], random_data: Any, small_model: Any, dense_loss: Any
) -> None:
    rng = np.random.default_rng(2)
    data = random_data(*shape, density=0.7, confidences=True)
    model = small_model(data, dim=19, objective=WEIGHED, enmf=True)
    state = LiveState(model, data, training_gap=0.0)
    mask = rng.random(len(data)) < 0.1
    remain = data.without(mask)
    state.apply(deletion(data, mask))
    for side in Side:
        rows = remain.by(side).occupied
        now = state.model
        change = state.move(side, rows, now.table(side).numpy()[rows] + rng.normal(0, 0.1, (len(rows), 19)))
        assert change.pending == pytest.approx(change.whole, rel=1e-8)  # nothing is kept
        assert change.whole == pytest.approx(state.model.loss(remain) - now.loss(remain), rel=1e-8)
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
    state = LiveState(model, data, training_gap=0.0)
    state.apply(change_of_pair(data, 4, PairWeights.of(np.array([0.125], np.float32))))
    weights = data.events["weight"].to_numpy().copy()
    weights[4] = 0.125
    less = Interactions(data.events.with_columns(weight=weights), data.user_vocabulary, data.item_vocabulary)
    wanted = gradients(model, less, dense_loss)
    for side in Side:
        torch.testing.assert_close(-2 * every_row(state, side), wanted[side])


@every_kind
def test_with_a_training_gap_only_what_the_deletion_changed_is_to_be_removed(
    enmf: bool, random_data: Any, small_model: Any
) -> None:
    data = random_data(20, 15)
    model = small_model(data, dim=4, objective=PLAIN, enmf=enmf)
    state = LiveState(model, data, training_gap=1.0)
    assert state.gradient_norm() == 0
    mask = data.users == 5
    mask[mask.nonzero()[0][0]] = False
    state.apply(deletion(data, mask))
    remain = data.without(mask)
    for side in Side:
        own = model.table(side)
        before, after = (model.row_problems(side, each).residual(own) for each in (data, remain))
        torch.testing.assert_close(every_row(state, side), after - before)


def test_pairs_come_and_go_and_tables_grow(
    random_data: Any, small_model: Any, dense_loss: Any, build: Any
) -> None:
    """Pairs with new weights, new pairs in rows with and without room, a new user and two new items, and back again."""
    rng = np.random.default_rng(3)
    data = random_data(12, 9, confidences=True)
    model = small_model(data, dim=3, objective=WEIGHED, enmf=True)
    model = replace(model, objective=replace(WEIGHED, c_users=2.0, c_items=3.0))
    state = LiveState(model, data, training_gap=0.0)
    state.grow(13, 11)
    weights = np.zeros((13, 11), np.float32)
    weights[data.users, data.items] = data.events["weight"].to_numpy()
    for _ in range(6):
        after = np.where(rng.random(weights.shape) < 0.5, weights, rng.integers(0, 9, weights.shape) / 4)
        after = after.astype(np.float32)
        users, items = np.nonzero(after != weights)
        before, then = (
            PairWeights(table[users, items] > 0, table[users, items]) for table in (weights, after)
        )
        state.apply(Change(users, items, before, then))
        weights = after
        now = build(weights > 0, weights.astype(np.float64))
        wanted = gradients(state.model, now, dense_loss)
        for side in Side:
            occupied = now.by(side).occupied
            torch.testing.assert_close(-2 * every_row(state, side)[occupied], wanted[side][occupied])
        assert state.gradient_norm() == pytest.approx(state.model.gradient_norm(now), rel=1e-8)
        for side in Side:  # new rows are at zero until they are solved
            rows = now.by(side).occupied
            state.move(side, rows, state.model.table(side).numpy()[rows] + rng.normal(0, 0.1, (len(rows), 3)))


def test_pairs_that_are_not_there_are_refused(random_data: Any, small_model: Any) -> None:
    """Also where only the last of several pairs is not there, and where one has another weight; nothing changes."""
    data = random_data(12, 9, density=0.2)
    state, untouched = (
        LiveState(small_model(data, dim=3, objective=PLAIN, enmf=False), data) for _ in range(2)
    )
    there = deletion(data, np.arange(len(data)) < 3)
    absent = np.argwhere(~np.isin(np.arange(12 * 9), data.users * 9 + data.items))[0, 0]
    elsewhere = replace(
        there, users=np.append(there.users[:2], absent // 9), items=np.append(there.items[:2], absent % 9)
    )
    heavier = replace(there, before=PairWeights.of(np.array([1, 1, 2], np.float32)))
    for wrong in (elsewhere, heavier):
        with pytest.raises(ValueError, match="1 of 3 pairs"):
            state.apply(wrong)
    for each in (state, untouched):
        each.apply(deletion(data, data.users == 5))
    assert torch.equal(state.model.users, untouched.model.users)
    for side in Side:
        assert torch.equal(every_row(state, side), every_row(untouched, side))


@pytest.mark.parametrize("weight", [1e6, 1e8, 1e10])
def test_weights_that_single_precision_cannot_follow_are_refused(
    weight: float, build: Any, small_model: Any
) -> None:
    matrix = np.random.default_rng(3).random((30, 20)) < 0.3
    users, items = np.nonzero(matrix)
    weights = np.ones(matrix.shape)
    weights[users[7], items[7]] = weight
    data = build(matrix, weights)
    start = small_model(data, dim=3, objective=Objective(w0=0.3, l2=0.05), dtype=torch.float32)
    model = fit(start, data, trainer=ALS(max_passes=100)).model
    with pytest.raises(SettingError, match=r"double precision.*--precision double"):
        LiveState(model, data)
