"""Refinement ends where training ends, moves no more rows than it has to, and never raises the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alteraser import ALS, AffectedRows, AllRows, JointNewton, Objective, Passes, fit
from alteraser.data.changes import Change
from alteraser.data.interactions import Side
from alteraser.live.newton_system import NewtonSystem
from alteraser.live.openings import EmptyDirections
from alteraser.live.refine import Refined, Refiner
from alteraser.live.scopes import Scope
from alteraser.live.state import LiveState
from alteraser.live.steps import Steps
from tests.live.cases import PLAIN, both_precisions, deletion, every_kind, every_objective

EXACT = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(switch_below=1e-3))


def forget(refiner: Refiner[Any], change: Change, scope: Scope) -> Refined:
    return refiner.refine(change, scope, emptied=refiner.apply(change))


def in_precision(dtype: torch.dtype, model: Any) -> Any:
    return model.with_parameters({name: value.to(dtype) for name, value in model.parameters().items()})


@every_kind
@every_objective
@both_precisions
@pytest.mark.parametrize("scope", [AffectedRows(1e-4, 50), AllRows(1e-4, 50)], ids=["affected", "all"])
def test_steps_end_where_training_ends(
    enmf: bool, objective: Objective, dtype: torch.dtype, scope: Scope, random_data: Any, small_model: Any
) -> None:
    data = random_data(60, 40, seed=2, density=0.2)
    optimum = fit(small_model(data, dim=4, objective=objective, enmf=enmf), data, trainer=EXACT).model
    original = in_precision(dtype, optimum)
    mask = np.isin(data.users, [3, 17, 30]) & (np.random.default_rng(0).random(len(data)) < 0.6)
    remain = data.without(mask)
    wanted = fit(optimum, remain, trainer=EXACT).model.loss(remain)
    refiner = Refiner(LiveState(original, data))
    opened = original.loss(remain) - wanted
    refined = forget(refiner, deletion(data, mask), scope)
    assert refined.converged
    # Here passes converge slowly: what rows can only do together is several times what they tell one by one.
    reached = refiner.state.model.loss(remain)
    assert reached - wanted < 5e-4 * opened
    fall = -sum(change.whole for change in refined.changes)
    assert fall == pytest.approx(
        original.loss(remain) - reached, rel=1e-8 if dtype is torch.float64 else 1e-4
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
    refiner, rng = Refiner(LiveState(original, data)), np.random.default_rng(0)
    remain, rounding = data, 1e-12 if dtype is torch.float64 else 1e-6
    scopes: list[Scope] = [AffectedRows(1e-3), AllRows(1e-3), Passes(tolerance=1e-3)]
    for turn in range(7):
        users, before, full = rng.choice(60, 4, replace=False), refiner.state.model, remain
        mask = np.isin(full.users, users) & (rng.random(len(full)) < 0.6)
        remain = full.without(mask)
        if turn < 6:
            refined = forget(refiner, deletion(full, mask), scopes[turn % 3])
        else:
            remain, refined = full, refiner.refine_all(tolerance=1e-3)
        assert refiner.state.model.loss(remain) <= before.loss(remain) * (1 + rounding)
        assert all(change.whole <= change.rounding for change in refined.changes)


def test_a_loose_tolerance_leaves_most_rows_alone(random_data: Any, small_model: Any) -> None:
    data = random_data(400, 200, seed=3, density=0.03)
    original = fit(small_model(data, dim=4, objective=PLAIN, enmf=False), data, trainer=EXACT).model
    mask = data.users == 7
    mask[mask.nonzero()[0][:2]] = False
    refiner = Refiner(LiveState(original, data))
    assert forget(refiner, deletion(data, mask), AffectedRows(0.6)).converged
    changed = (refiner.state.model.users != original.users).any(1)
    assert changed[7]
    assert changed.sum() < 200


def test_to_ask_changes_nothing(random_data: Any, small_model: Any) -> None:
    """Between a deletion and its steps, too: what is asked is then the same, and so is what the steps do."""
    data = random_data(30, 20)
    model = small_model(data, dim=3, objective=PLAIN, enmf=True)
    asked, silent = (Refiner(LiveState(model, data, training_gap=0.5)) for _ in range(2))
    change, every = deletion(data, (data.users == 5) & (data.items > 3)), np.arange(20)
    for each in (asked, silent):
        each.apply(change)
    state = asked.state
    answers = [
        (
            asked.drift(),
            state.gradient_norm(),
            state.residual(Side.ITEMS, every).tolist(),
            state.whole_residual(Side.ITEMS, every).tolist(),
        )
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    for each in (asked, silent):
        each.refine(change, AffectedRows(0.01))
    assert torch.equal(asked.state.model.users, silent.state.model.users)
    assert torch.equal(asked.state.model.items, silent.state.model.items)
    assert asked.drift() == silent.drift()


def test_a_step_that_is_broken_off_can_be_made_again(
    random_data: Any, small_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random_data(30, 20)
    model = small_model(data, dim=3, objective=PLAIN, enmf=False)
    broken, whole = LiveState(model, data), LiveState(model, data)
    for each in (broken, whole):
        each.apply(deletion(data, (data.users == 5) & (data.items > 3)))
    some, others = ({side: np.arange(begin, 20, 2) for side in Side} for begin in (0, 1))

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(NewtonSystem, "product", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Steps(broken).step(some)
    for each in (broken, whole):
        Steps(each).step(others)
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
        refiner, remain = Refiner(LiveState(model, data)), data.without(mask)
        assert forget(refiner, deletion(data, mask), AffectedRows(1e-3)).converged
        drift, now = refiner.drift(), refiner.state.model
        assert np.isfinite([drift.gradient_norm, drift.loss_gap]).all()
        best = fit(now, remain, trainer=ALS(tolerance=1e-13)).model.loss(remain)
        assert now.loss(remain) - best <= 0.01 * (model.loss(remain) - best) + 1e-9


@pytest.mark.parametrize("weight", [1e6, 1e8, 1e10])
def test_a_weight_that_towers_above_the_others_is_followed_in_double_precision(
    weight: float, build: Any, small_model: Any
) -> None:
    """The heavy pair is forgotten, or another beside it."""
    matrix = np.random.default_rng(3).random((30, 20)) < 0.3
    users, items = np.nonzero(matrix)
    weights = np.ones(matrix.shape)
    weights[users[7], items[7]] = weight
    data, exact = build(matrix, weights), ALS(max_passes=2000, tolerance=1e-14)
    model = fit(small_model(data, dim=3, objective=Objective(w0=0.3, l2=0.05)), data, trainer=exact).model
    for pair in (7, 40):
        mask = np.arange(len(data)) == pair
        refiner, remain = Refiner(LiveState(model, data)), data.without(mask)
        assert forget(refiner, deletion(data, mask), AffectedRows(1e-3)).converged
        now = refiner.state.model
        best = fit(now, remain, trainer=exact).model.loss(remain)
        assert now.loss(remain) - best < 0.01 * (model.loss(remain) - best)


@pytest.mark.parametrize("w0", [0.0, 0.3])
def test_a_direction_that_somebody_uses_is_not_empty(w0: float, random_data: Any, small_model: Any) -> None:
    """Also where missing entries weigh nothing, or where users alone have something in it."""
    data = random_data(30, 20)
    model = small_model(data, dim=4, objective=Objective(w0=w0, l2=0.1))
    assert EmptyDirections(LiveState(model, data)).free == []
    narrow = model.items.clone()
    narrow[:, 2] = 0
    some_use_it = model.with_parameters({"users": model.users, "items": narrow})
    assert EmptyDirections(LiveState(some_use_it, data)).free == []
    users = model.users.clone()
    users[:, 2] = 0
    nobody_uses_it = model.with_parameters({"users": users, "items": narrow})
    (free,) = EmptyDirections(LiveState(nobody_uses_it, data)).free
    assert np.abs(free.vector).tolist() == pytest.approx([0, 0, 1, 0])
    assert abs(free.weight) == pytest.approx(1)
