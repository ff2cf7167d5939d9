"""Passes: no half raises the loss, each row ends at its minimum, and rows not visited are not touched."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from alteraser.data.interactions import Side
from alteraser.errors import SettingError
from alteraser.models.enmf import ENMF
from alteraser.models.objective import Objective
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.optim.first_order import Descent
from alteraser.optim.linear import Cholesky
from alteraser.optim.minimize import Solver
from alteraser.optim.newton import Newton, ah_newton, hf_newton
from alteraser.optim.scipy import ScipyRows
from alteraser.optim.search import Backtracking
from alteraser.optim.solvers import SOLVERS as NAMED
from alteraser.sweep.accelerate import Anderson
from alteraser.sweep.joint import JointNewton
from alteraser.sweep.sweep import Rows, Sweeper, repeat

SOLVERS: dict[str, Solver] = {
    **NAMED,
    "damped": Newton(Cholesky(), Backtracking(), LevenbergMarquardt()),
}
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=list(SOLVERS))


@every_solver
@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_no_half_pass_raises_the_loss(
    solver: Solver, enmf: bool, dtype: torch.dtype, random_data: Any, small_model: Any
) -> None:
    data = random_data(16, 12, confidences=True, density=0.2)
    objective = Objective(w0=0.3, l2=0.1, item_popularity=0.5, mean_item_count=4.0)
    model = small_model(data, enmf=enmf, dtype=dtype, objective=objective)
    sweeper, rows = Sweeper(solver, block_rows=16), Rows.occupied(data)
    slack = 1e-12 if dtype is torch.float64 else 1e-6
    losses = [model.loss(data)]
    for _ in range(2):
        for side in model.sides:
            model = sweeper.half(model, data, rows, side)
            losses.append(model.loss(data))
    assert all(after <= before * (1 + slack) for before, after in pairwise(losses))
    assert losses[1] < losses[0]


@every_solver
def test_a_pass_over_some_rows_solves_users_then_items_and_touches_no_other(
    solver: Solver, random_data: Any, transposed: Any, small_model: Any, dense_rows: Any
) -> None:
    data = random_data(confidences=True)
    model = small_model(data, enmf=True)
    users, items = np.array([1, 4, 11]), np.array([0, 8])
    swept = Sweeper(solver).sweep(model, data, Rows({Side.USERS: users, Side.ITEMS: items}))

    other_users = np.setdiff1d(np.arange(data.n_users), users)
    other_items = np.setdiff1d(np.arange(data.n_items), items)
    assert torch.equal(swept.users[other_users], model.users[other_users])
    assert torch.equal(swept.items[other_items], model.items[other_items])
    assert torch.equal(swept.eta, model.eta)
    tolerance = {Descent: 1e-3, ScipyRows: 1e-4}.get(type(solver), 1e-5)
    h = model.h.numpy()
    # Users at their minimum given the items as they were; items given the users as they now are.
    wanted = dense_rows(data, model.objective, model.items.numpy(), h)[users]
    np.testing.assert_allclose(swept.users[users].numpy(), wanted, rtol=0, atol=tolerance)
    wanted = dense_rows(transposed(data), model.objective, swept.users.numpy(), h)[items]
    np.testing.assert_allclose(swept.items[items].numpy(), wanted, rtol=0, atol=tolerance)


@every_solver
@pytest.mark.parametrize("objective", [Objective(w0=0.3, l2=0.01), Objective(w0=0.0, l2=0.1)], ids=["w0", "no w0"])
def test_a_visited_row_without_interactions_becomes_zero_to_the_last_bit(
    solver: Solver, objective: Objective, random_data: Any, small_model: Any
) -> None:
    """Even the signs of a forgotten row would be a trace of it."""
    data = random_data(empty=True)
    model = small_model(data, objective=objective)
    rows = Rows({Side.USERS: np.arange(data.n_users), Side.ITEMS: np.arange(data.n_items)})
    swept = Sweeper(solver, block_rows=5).sweep(model, data, rows)
    assert not swept.users[-1].numpy().view(np.uint64).any()
    assert not swept.items[-1].numpy().view(np.uint64).any()
    assert (swept.users[:-1] != 0).any(1).all()


@pytest.mark.parametrize("solver", [ah_newton, hf_newton], ids=["ah_newton", "hf_newton"])
def test_the_size_of_a_block_does_not_change_the_answer(
    solver: Solver, random_data: Any, small_model: Any
) -> None:
    data = random_data(30, 20)
    model = small_model(data)
    whole = Sweeper(solver, block_rows=4096).sweep(model, data, Rows.occupied(data))
    for block_rows in (1, 7, 30):
        swept = Sweeper(solver, block_rows=block_rows).sweep(model, data, Rows.occupied(data))
        if solver is ah_newton:
            assert torch.equal(swept.users, whole.users)
            assert torch.equal(swept.items, whole.items)
        torch.testing.assert_close(swept.items, whole.items, rtol=1e-4, atol=1e-5)


def test_rows_and_their_blocks(random_data: Any) -> None:
    data = random_data(12, 9, empty=True)
    rows = Rows.occupied(data)
    assert rows.of(Side.USERS).tolist() == list(range(11))
    assert rows.of(Side.ITEMS).tolist() == list(range(8))
    assert len(rows) == 19
    assert [block.tolist() for block in rows.blocks(Side.ITEMS, 3)] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_an_empty_side_is_left_alone(random_data: Any, small_model: Any) -> None:
    data = random_data()
    model = small_model(data)
    none = np.array([], dtype=np.int64)
    swept = Sweeper(ah_newton).sweep(model, data, Rows({Side.USERS: none, Side.ITEMS: none}))
    assert torch.equal(swept.users, model.users)
    assert torch.equal(swept.items, model.items)


def test_passes_stop_at_the_first_that_lowers_the_loss_by_less_than_the_tolerance(
    random_data: Any, small_model: Any
) -> None:
    data = random_data(30, 20)
    model = small_model(data)
    curve = repeat(Sweeper(ah_newton), model, data, max_passes=40, tolerance=0.0).losses
    assert curve[0] == model.loss(data)
    for tolerance in (0.5, 1e-2, 1e-3, 1e-4):
        falls = [(before - after) / before for before, after in pairwise(curve)]
        stop = next(place for place, fall in enumerate(falls, start=1) if fall < tolerance)
        passes = repeat(Sweeper(ah_newton), model, data, max_passes=40, tolerance=tolerance)
        assert passes.converged
        assert passes.n_passes == stop
        assert passes.losses == curve[: stop + 1]
        assert passes.model.loss(data) == passes.losses[-1]
        short = repeat(Sweeper(ah_newton), model, data, max_passes=stop - 1, tolerance=tolerance)
        assert not short.converged
        assert short.n_passes == stop - 1


@pytest.mark.parametrize("acceleration", [None, Anderson(), JointNewton()], ids=repr)
@pytest.mark.parametrize("in_time", [0, 1, 3])
def test_no_pass_begins_when_time_is_out(
    in_time: int, acceleration: Any, random_data: Any, small_model: Any
) -> None:
    """Those that began in time are as they would have been, and they have not met the tolerance."""
    data = random_data(30, 20)
    model, sweeper = small_model(data), Sweeper(ah_newton)
    clock = iter([False] * in_time + [True])
    passes = repeat(
        sweeper,
        model,
        data,
        max_passes=5,
        tolerance=0.0,
        acceleration=acceleration,
        out_of_time=lambda: next(clock),
    )
    wanted = repeat(sweeper, model, data, max_passes=in_time, tolerance=0.0, acceleration=acceleration)
    assert passes.n_passes == in_time
    assert passes.losses == wanted.losses
    assert not passes.converged
    assert torch.equal(passes.model.users, wanted.model.users)
    assert torch.equal(passes.model.items, wanted.model.items)


def test_progress_hears_of_every_pass(random_data: Any, small_model: Any) -> None:
    data = random_data()
    heard: list[tuple[int, int, float]] = []
    passes = repeat(
        Sweeper(ah_newton),
        small_model(data),
        data,
        max_passes=3,
        tolerance=0.0,
        progress=lambda *news: heard.append(news),
    )
    assert heard == [(done, 3, passes.losses[done]) for done in (1, 2, 3)]


@pytest.mark.parametrize(("max_passes", "tolerance"), [(-1, 0.1), (1, -0.1), (1, float("nan"))])
def test_a_rule_out_of_range_is_refused(
    max_passes: int, tolerance: float, random_data: Any, small_model: Any
) -> None:
    data = random_data()
    with pytest.raises(SettingError):
        repeat(Sweeper(ah_newton), small_model(data), data, max_passes=max_passes, tolerance=tolerance)


@pytest.mark.parametrize(
    "acceleration", [None, Anderson(), JointNewton()], ids=["plain", "Anderson", "joint"]
)
def test_a_pass_that_raises_the_loss_is_taken_back_and_is_no_convergence(
    acceleration: Any, random_data: Any
) -> None:
    """With next to no penalty single precision does not do: somewhere the loss rises by more than rounding."""
    data = random_data(30, 20, density=0.3)
    objective = Objective(w0=0.3, l2=1e-7)
    model = ENMF.sized_for(data, dim=50, objective=objective, rng=np.random.default_rng(0))
    settings: Any = {"tolerance": 1e-5, "acceleration": acceleration}
    passes = repeat(Sweeper(ah_newton), model, data, max_passes=200, **settings)
    assert all(after <= before for before, after in pairwise(passes.losses))
    assert passes.model.loss(data) == passes.losses[-1]
    assert not passes.converged
