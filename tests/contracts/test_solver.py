"""Every built-in solver keeps the promises of solvers; and what only some of them promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from alteraser.data.interactions import Side
from alteraser.models.objective import Objective
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.optim.linear import Cholesky
from alteraser.optim.minimize import Solver, minimize
from alteraser.optim.newton import Newton, ah_newton
from alteraser.optim.search import Backtracking
from alteraser.optim.solvers import SOLVERS as NAMED
from alteraser.testing import SolverContract
from alteraser.testing.solver import Wells

DAMPED = Newton(Cholesky(), Backtracking(), LevenbergMarquardt())
SOLVERS: dict[str, Solver] = {**NAMED, "damped": DAMPED}
NEWTONS = ("ah-newton", "hf-newton", "damped")
BY_SCIPY = ("newton-cg", "trust-ncg", "trust-krylov", "bfgs", "l-bfgs", "cg")
# How near to the answer (relative to its norm) a solver must come; AdamW and AdaHessian have a fixed number of steps.
NEARNESS = (
    {"ah-newton": 1e-10, "gauss-newton": 1e-10, "hf-newton": 1e-5, "damped": 1e-5}
    | {"adahessian": 1e-3, "adamw": 1e-3}
    | dict.fromkeys(BY_SCIPY, 1e-4)
)
NEARNESS_ELSEWHERE = {"gauss-newton": None, "adamw": 1e-2, "adahessian": 1e-3}
FEW_STEPS = {"adamw": 3, "adahessian": 3, **dict.fromkeys(BY_SCIPY, 2)}


class TestSolver(SolverContract):
    @pytest.fixture(params=SOLVERS, autouse=True)
    def _solver(self, request: pytest.FixtureRequest) -> None:
        self.name = name = request.param
        self.nearness, self.nearness_elsewhere = NEARNESS[name], NEARNESS_ELSEWHERE.get(name, 2e-5)
        self.converges = name not in ("adamw", "adahessian")
        self.descends = name not in ("ah-newton", "gauss-newton")

    def make(self) -> Solver:
        return SOLVERS[self.name]

    def make_short(self) -> Solver:
        solver: Any = SOLVERS[self.name]
        short: Solver = replace(solver, max_steps=FEW_STEPS.get(self.name, 1))
        return short


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
def test_reaches_the_dense_answer_of_a_model_row_whatever_its_weights(
    name: str, enmf: bool, side: Side, random_data: Any, transposed: Any, small_model: Any, dense_rows: Any
) -> None:
    data = random_data(confidences=True, seed=3)
    model = small_model(data, objective=Objective(w0=0.4, l2=0.2, l2_scaling=0.5), enmf=enmf)
    towards = data if side is Side.USERS else transposed(data)
    answer = torch.from_numpy(
        dense_rows(towards, model.objective, model.table(side.other).numpy(), model.h.numpy())
    )
    rows = np.array([4, 1, 2, 0])
    picked = torch.from_numpy(rows)
    problem = model.row_problems(side, data).block(rows)
    solution = minimize(problem, model.table(side)[picked], solver=SOLVERS[name])
    assert float((solution.value - answer[picked]).norm() / answer[picked].norm()) < NEARNESS[name]


@pytest.mark.parametrize("name", [*NEWTONS, "gauss-newton", *BY_SCIPY])
def test_agrees_with_the_exact_answer_of_the_kernel(name: str, random_data: Any, small_model: Any) -> None:
    data = random_data(30, 20, confidences=True)
    model = small_model(data, dim=8)
    problem = model.row_problems(Side.USERS, data).block(np.arange(30))
    exact, found = (minimize(problem, model.users, solver=each).value for each in (ah_newton, SOLVERS[name]))
    assert float((found - exact).norm() / exact.norm()) < NEARNESS[name]


@pytest.mark.parametrize("name", ["trust-ncg", "trust-krylov"])
@pytest.mark.parametrize("seed", range(3))
def test_a_trust_region_leaves_negative_curvature_for_a_minimum(name: str, seed: int) -> None:
    start = torch.from_numpy(np.random.default_rng(seed).uniform(-0.5, 0.5, (6, 3)))
    solution = minimize(Wells(), start, solver=SOLVERS[name])
    torch.testing.assert_close(solution.value.abs(), torch.ones_like(start), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["hf-newton", "damped"])
@pytest.mark.parametrize("seed", range(5))
def test_negative_curvature_raises_no_value(name: str, seed: int) -> None:
    problem = Wells()
    x = torch.from_numpy(np.random.default_rng(seed).uniform(-0.5, 0.5, (6, 3)))
    assert (torch.linalg.eigvalsh(problem.hessian(x)) < 0).any()
    memory, value = None, problem.value(x)
    for _ in range(60):
        step = SOLVERS[name].step(problem, x, memory)
        x, memory, before = step.x, step.memory, value
        value = problem.value(x)
        assert (value <= before + 1e-14).all()
    torch.testing.assert_close(x.abs(), torch.ones_like(x), rtol=0, atol=1e-4)
