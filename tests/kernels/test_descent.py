"""Passes by conjugate gradients: down to the minimum of the exact kernel, as far as asked, from where a row is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alteraser import ALS, Objective, ah_newton, cg_newton, fit
from alteraser.data.interactions import Interactions, Side
from alteraser.models.ridge import RidgeRows, RidgeSide
from alteraser.optim.linear import CG
from alteraser.optim.newton import Newton
from alteraser.optim.search import FullStep
from alteraser.sweep.sweep import Rows, Sweeper
from alteraser.testing.solver import Ridges

OBJECTIVE = Objective(
    w0=0.6,
    l2=0.3,
    l2_scaling=0.5,
    user_activity=0.3,
    item_popularity=0.6,
    mean_user_count=9,
    mean_item_count=7,
)


@pytest.fixture(scope="module")
def data(random_data: Any) -> Interactions:
    found: Interactions = random_data(80, 60, density=0.25, confidences=True, seed=4)
    return found


@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
@pytest.mark.parametrize("dim", [3, 24])  # rows of few dimensions are solved exactly
def test_a_tight_tolerance_gives_the_minimum(
    enmf: bool, side: Side, dim: int, data: Interactions, small_model: Any
) -> None:
    model = small_model(data, dim=dim, objective=OBJECTIVE, enmf=enmf)
    rows = data.by(side).occupied
    problems = model.row_problems(side, data).block(rows)
    found = problems.descended(model.table(side)[torch.from_numpy(rows)], tolerance=1e-10, max_products=500)
    torch.testing.assert_close(found, problems.minimum(), rtol=1e-7, atol=1e-9)


def test_a_row_stops_on_its_own_residual(data: Interactions, small_model: Any) -> None:
    model = small_model(data, dim=24, objective=OBJECTIVE)
    rows = data.by(Side.USERS).occupied
    side: RidgeSide = model.row_problems(Side.USERS, data)
    start = model.users[torch.from_numpy(rows)]
    found = RidgeRows(side, rows).descended(start, tolerance=0.1, max_products=500)
    before, after = (side.residual(model.with_rows(Side.USERS, rows, own).users) for own in (start, found))
    share = after.norm(dim=1) / before.norm(dim=1)
    assert share.max() < 0.5  # the norms differ a little from those in which it is measured
    assert share.min() > 1e-4  # and no row goes on to its minimum
    at_minimum = RidgeRows(side, rows).minimum()
    there = RidgeRows(side, rows).descended(at_minimum, tolerance=0.1, max_products=500)
    torch.testing.assert_close(there, at_minimum, rtol=1e-9, atol=1e-12)


def test_single_precision_follows_double(data: Interactions, small_model: Any) -> None:
    model = small_model(data, dim=24, objective=OBJECTIVE)
    single = model.with_parameters({name: value.float() for name, value in model.parameters().items()})
    sweeper, rows = Sweeper(cg_newton), Rows.occupied(data)
    for _ in range(3):
        model, single = (sweeper.sweep(each, data, rows) for each in (model, single))
    assert single.users.dtype == torch.float32
    assert single.loss(data) == pytest.approx(model.loss(data), rel=1e-5)


def test_passes_of_it_end_where_exact_passes_end(data: Interactions, small_model: Any) -> None:
    start = small_model(data, dim=24, objective=OBJECTIVE)
    losses = [
        fit(
            start, data, trainer=ALS(max_passes=400, tolerance=1e-11, acceleration=None, solver=solver)
        ).losses
        for solver in (ah_newton, cg_newton)
    ]
    assert losses[1][-1] == pytest.approx(losses[0][-1], rel=1e-5)
    assert all(np.diff(losses[1]) <= 1e-9)


def test_problems_without_the_quick_way_take_the_long_one() -> None:
    ridges = Ridges()
    solver = Newton(linear=CG(tolerance=1e-8), search=FullStep())
    step = solver.step(ridges, torch.zeros(5, 4, dtype=torch.float64), None)
    torch.testing.assert_close(step.x, ridges.answer(), rtol=1e-5, atol=1e-6)
