"""Affected rows: every gradient follows every change exactly, and steps end where full passes end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from alteraser import ALS, Interactions, JointNewton, Objective, SettingError, fit
from alteraser.data.interactions import Side
from alteraser.sweep.affected import AffectedRows
from alteraser.sweep.newton_system import NewtonSystem

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
both_precisions = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
every_kind = pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
every_objective = pytest.mark.parametrize("objective", [PLAIN, WEIGHED], ids=["plain", "weighed"])


def some_pairs(
    data: Interactions, mask: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The pairs of events that are deleted whole."""
    users, items = data.users[mask].astype(np.int64), data.items[mask].astype(np.int64)
    return users, items, np.full(len(users), -1, np.float32)


def gradients(model: Any, data: Interactions, dense_loss: Any) -> dict[Side, torch.Tensor]:
    points = {name: value.double().clone().requires_grad_() for name, value in model.parameters().items()}
    loss = dense_loss(data, model.objective, *points.values())
    return {side: torch.autograd.grad(loss, points[side.value], retain_graph=True)[0] for side in Side}


def every_row(state: AffectedRows[Any], side: Side) -> torch.Tensor:
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
    state = AffectedRows(model, data, training_gap=training_gap)
    mask = rng.random(len(data)) < 0.3
    mask[data.users == 3] = True  # one user forgets all
    remain = data.without(mask)
    before = dense_loss(remain, objective, *(value.double() for value in model.parameters().values()))
    emptied = state.delete(*some_pairs(data, mask))
    now = state.model
    assert float(before) - now.loss(remain) == pytest.approx(emptied, rel=1e-5)
    for side, n in ((Side.ITEMS, 15), (Side.USERS, 20), (Side.ITEMS, 15)):
        rows = np.sort(rng.choice(n - 1, 4, replace=False))
        rows = rows[remain.by(side).counts[rows] > 0]
        now = state.model
        rise = state.move(side, rows, now.table(side).numpy()[rows] + rng.normal(0, 0.1, (len(rows), 5)))
        change = state.model.loss(remain) - now.loss(remain)
        assert rise.whole == pytest.approx(change, rel=1e-8 if dtype is torch.float64 else 1e-4)
        if dtype is torch.float32:
            assert abs(rise.whole - change) < 4 * rise.rounding + 1e-6

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
    state = AffectedRows(model, data, training_gap=0.0)
    mask = rng.random(len(data)) < 0.1
    remain = data.without(mask)
    state.delete(*some_pairs(data, mask))
    state.call_in_debts()
    for side in Side:
        rows = remain.by(side).occupied
        now = state.model
        rise = state.move(side, rows, now.table(side).numpy()[rows] + rng.normal(0, 0.1, (len(rows), 19)))
        assert rise.new == pytest.approx(rise.whole, rel=1e-8)  # all was called in
        assert rise.whole == pytest.approx(state.model.loss(remain) - now.loss(remain), rel=1e-8)
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
@both_precisions
def test_steps_end_where_training_ends(
    enmf: bool, objective: Objective, dtype: torch.dtype, random_data: Any, small_model: Any
) -> None:
    data = random_data(60, 40, seed=2, density=0.2)
    start = small_model(data, dim=4, objective=objective, enmf=enmf)
    exact = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(switch_below=1e-3))
    optimum = fit(start, data, trainer=exact).model
    original = optimum.with_parameters(
        {name: value.to(dtype) for name, value in optimum.parameters().items()}
    )
    users = np.array([3, 17, 30])
    mask = np.isin(data.users, users) & (np.random.default_rng(0).random(len(data)) < 0.6)
    remain = data.without(mask)
    wanted = fit(optimum, remain, trainer=exact).model.loss(remain)
    state = AffectedRows(original, data)
    state.delete(*some_pairs(data, mask))
    opened = original.loss(remain) - wanted
    settled = state.settle(users, tolerance=1e-4, max_steps=50)
    assert settled.converged
    # Here passes converge slowly: what rows can only do together is several times what they tell one by one.
    assert state.model.loss(remain) - wanted < 5e-4 * opened
    assert -sum(rise.whole for rise in settled.rises) == pytest.approx(
        original.loss(remain) - state.model.loss(remain), rel=1e-8 if dtype is torch.float64 else 1e-4
    )


@every_kind
@every_objective
@both_precisions
@pytest.mark.parametrize("passes", [0, 1, 3])
def test_from_an_original_far_from_its_optimum_no_step_raises_the_loss(
    enmf: bool, objective: Objective, dtype: torch.dtype, passes: int, random_data: Any, small_model: Any
) -> None:
    """Steps lower the loss apart from what the original was short of, and still never raise the loss itself."""
    data = random_data(60, 40, seed=2, density=0.2)
    start = small_model(data, dim=12, objective=objective, enmf=enmf, dtype=dtype)
    original = fit(start, data, trainer=ALS(max_passes=passes, tolerance=0.0, acceleration=None)).model
    state, rng, mask = (
        AffectedRows(original, data),
        np.random.default_rng(0),
        np.zeros(len(data), dtype=np.bool_),
    )
    for turn in range(6):
        users = rng.choice(60, 4, replace=False)
        now = np.isin(data.users, users) & (rng.random(len(data)) < 0.6) & ~mask
        mask |= now
        remain, before = data.without(mask), state.model
        state.delete(*some_pairs(data, now))
        settled = state.settle(users, tolerance=1e-3) if turn < 5 else state.settle_all(tolerance=1e-3)
        rounding = 1e-12 if dtype is torch.float64 else 1e-6
        assert state.model.loss(remain) <= before.loss(remain) * (1 + rounding)
        assert all(rise.whole <= rise.rounding for rise in settled.rises)


def test_a_loose_tolerance_leaves_most_rows_alone(random_data: Any, small_model: Any) -> None:
    data = random_data(400, 200, seed=3, density=0.03)
    exact = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(switch_below=1e-3))
    original = fit(small_model(data, dim=4, objective=PLAIN, enmf=False), data, trainer=exact).model
    mask = data.users == 7
    mask[mask.nonzero()[0][:2]] = False
    state = AffectedRows(original, data)
    state.delete(*some_pairs(data, mask))
    settled = state.settle(np.array([7]), tolerance=0.6)
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


def test_a_refused_deletion_changes_nothing(random_data: Any, small_model: Any) -> None:
    """Also where only the last of several pairs is not there."""
    data = random_data(12, 9, density=0.2)
    state, untouched = (
        AffectedRows(small_model(data, dim=3, objective=PLAIN, enmf=False), data) for _ in range(2)
    )
    absent = np.argwhere(~np.isin(np.arange(12 * 9), data.users * 9 + data.items))[0, 0]
    users, items = np.append(data.users[:2], absent // 9), np.append(data.items[:2], absent % 9)
    with pytest.raises(ValueError, match="1 of 3 pairs"):
        state.delete(users.astype(np.int64), items.astype(np.int64), np.full(3, -1, np.float32))
    for each in (state, untouched):
        each.delete(*some_pairs(data, data.users == 5))
        each.settle(np.array([5]), tolerance=0.01)
    assert torch.equal(state.model.users, untouched.model.users)
    assert torch.equal(state.model.items, untouched.model.items)


def test_to_ask_changes_nothing(random_data: Any, small_model: Any) -> None:
    """Between a deletion and its steps, too: what is asked is then the same, and so is what the steps do."""
    data = random_data(30, 20)
    model = small_model(data, dim=3, objective=PLAIN, enmf=True)
    asked, silent = (AffectedRows(model, data, training_gap=0.5) for _ in range(2))
    for each in (asked, silent):
        each.delete(*some_pairs(data, (data.users == 5) & (data.items > 3)))
    answers = [
        (asked.drift(), asked.gradient_norm(), asked.residual(Side.ITEMS, np.arange(20)).tolist())
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    for each in (asked, silent):
        each.settle(np.array([5]), tolerance=0.01)
    assert torch.equal(asked.model.users, silent.model.users)
    assert torch.equal(asked.model.items, silent.model.items)
    assert asked.drift() == silent.drift()


def test_a_step_that_is_broken_off_can_be_made_again(
    random_data: Any, small_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random_data(30, 20)
    model = small_model(data, dim=3, objective=PLAIN, enmf=False)
    broken, whole = AffectedRows(model, data), AffectedRows(model, data)
    for each in (broken, whole):
        each.delete(*some_pairs(data, (data.users == 5) & (data.items > 3)))
    some, others = ({side: np.arange(begin, 20, 2) for side in Side} for begin in (0, 1))

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(NewtonSystem, "solve", interrupted)
        with pytest.raises(KeyboardInterrupt):
            broken.step(some)
    for each in (broken, whole):
        each.step(others)
    assert torch.equal(broken.model.users, whole.model.users)
    assert torch.equal(broken.model.items, whole.model.items)


def test_without_missing_entries_all_is_finite(random_data: Any, small_model: Any) -> None:
    """w0 = 0: Ĝ of the users is zero. Tables of zeros: so are both."""
    data = random_data(30, 20)
    objective = Objective(w0=0.0, l2=0.3, l2_scaling=0.0)
    trained = fit(small_model(data, dim=3, objective=objective), data, trainer=ALS(tolerance=1e-12)).model
    nothing = trained.with_parameters({name: value * 0 for name, value in trained.parameters().items()})
    mask = (data.users == 5) & (data.items > 3)
    for model in (trained, nothing):
        state = AffectedRows(model, data)
        state.delete(*some_pairs(data, mask))
        settled = state.settle(np.array([5]), tolerance=1e-3)
        assert settled.converged
        assert np.isfinite(state.drift()).all()
        best = fit(state.model, data.without(mask), trainer=ALS(tolerance=1e-13)).model.loss(
            data.without(mask)
        )
        opened = model.loss(data.without(mask)) - best
        assert state.model.loss(data.without(mask)) - best <= 0.01 * opened + 1e-9


@pytest.mark.parametrize("weight", [1e6, 1e8, 1e10])
def test_weights_that_single_precision_cannot_follow_are_refused(
    weight: float, build: Any, small_model: Any
) -> None:
    """In double precision they are followed: the heavy pair is forgotten, or another beside it."""
    matrix = np.random.default_rng(3).random((30, 20)) < 0.3
    users, items = np.nonzero(matrix)
    weights = np.ones(matrix.shape)
    weights[users[7], items[7]] = weight
    data = build(matrix, weights)
    for dtype in (torch.float32, torch.float64):
        start = small_model(data, dim=3, objective=Objective(w0=0.3, l2=0.05), dtype=dtype)
        model = fit(start, data, trainer=ALS(max_passes=2000, tolerance=1e-14)).model
        if dtype is torch.float32:
            with pytest.raises(SettingError, match=r"double precision.*--precision double"):
                AffectedRows(model, data)
            continue
        for pair in (7, 40):
            mask = np.arange(len(data)) == pair
            state, remain = AffectedRows(model, data), data.without(mask)
            state.delete(*some_pairs(data, mask))
            assert state.settle(data.users[mask].astype(np.int64), tolerance=1e-3).converged
            best = fit(state.model, remain, trainer=ALS(max_passes=2000, tolerance=1e-14)).model.loss(remain)
            assert state.model.loss(remain) - best < 0.01 * (model.loss(remain) - best)


@pytest.mark.parametrize("w0", [0.0, 0.3])
def test_a_direction_that_somebody_uses_is_not_empty(w0: float, random_data: Any, small_model: Any) -> None:
    """Also where missing entries weigh nothing, or where users alone have something in it."""
    data = random_data(30, 20)
    model = small_model(data, dim=4, objective=Objective(w0=w0, l2=0.1))
    assert AffectedRows(model, data)._spare == []
    narrow = model.items.clone()
    narrow[:, 2] = 0
    assert AffectedRows(model.with_parameters({"users": model.users, "items": narrow}), data)._spare == []
    users = model.users.clone()
    users[:, 2] = 0
    (spare,) = AffectedRows(model.with_parameters({"users": users, "items": narrow}), data)._spare
    assert np.abs(spare.vector).tolist() == pytest.approx([0, 0, 1, 0])
    assert abs(spare.weight) == pytest.approx(1)
