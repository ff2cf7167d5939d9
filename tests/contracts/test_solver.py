"""What every solver of row problems promises."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from alteraser.data.interactions import Side
from alteraser.models.objective import Objective
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.optim.first_order import AdaHessianRule, Descent
from alteraser.optim.linear import Cholesky
from alteraser.optim.minimize import Solver, Status, minimize
from alteraser.optim.newton import Newton, ah_newton
from alteraser.optim.problem import RowProblem
from alteraser.optim.scipy import Method, ScipyRows
from alteraser.optim.search import Backtracking
from alteraser.optim.solvers import SOLVERS as NAMED

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

every_solver = pytest.mark.parametrize("name", SOLVERS)


class Ridges(RowProblem):
    """‖X_b y − t_b‖² + l2 ‖y‖² of each row: autograd only, no closed form offered."""

    def __init__(self, n_rows: int = 5, dim: int = 4, l2: float = 0.5) -> None:
        rng = np.random.default_rng(0)
        self.matrix = torch.from_numpy(rng.normal(size=(n_rows, 30, dim)))
        self.target = torch.from_numpy(rng.normal(size=(n_rows, 30)))
        self.l2 = l2

    def value(self, x: Tensor) -> Tensor:
        return self.residuals(x).square().sum(1)

    def residuals(self, x: Tensor) -> Tensor:
        misses = torch.einsum("bnd,bd->bn", self.matrix, x) - self.target
        return torch.cat([misses, self.l2**0.5 * x], dim=1)

    def answer(self) -> Tensor:
        rows = [
            np.linalg.solve(x.T @ x + self.l2 * np.eye(x.shape[1]), x.T @ t)
            for x, t in zip(self.matrix.numpy(), self.target.numpy(), strict=True)
        ]
        return torch.from_numpy(np.stack(rows))


class Logistic(RowProblem):
    """Σ log(1 + exp(−t·Xy)) + l2 ‖y‖²: convex, but no quadratic and no sum of squares; bounded curvature."""

    def __init__(self) -> None:
        ridges = Ridges()
        self.matrix, self.target, self.l2 = ridges.matrix, ridges.target.sign(), ridges.l2

    def value(self, x: Tensor) -> Tensor:
        margin = torch.einsum("bnd,bd->bn", self.matrix, x) * self.target
        return torch.nn.functional.softplus(-margin).sum(1) + self.l2 * x.square().sum(1)

    def best_by_scipy(self, row: int) -> Any:
        x, sign = self.matrix[row].numpy(), self.target[row].numpy()

        def value(y: Any) -> float:
            return float(np.logaddexp(0, -sign * (x @ y)).sum() + self.l2 * y @ y)

        return scipy.optimize.minimize(value, np.zeros(x.shape[1]), method="BFGS", options={"gtol": 1e-8}).x


class Wells(RowProblem):
    """Σ (y² − 1)²/4 of each row, with 2 minima per axis; at 0 every curvature is negative and 1/√3 has none."""

    def value(self, x: Tensor) -> Tensor:
        return ((x.square() - 1).square() / 4).sum(1)


@every_solver
@pytest.mark.parametrize("start", [0.0, 1.0, -1.0])  # not further: the steps of AdamW are bounded
def test_reaches_the_ridge_answer(name: str, start: float) -> None:
    problem = Ridges()
    answer = problem.answer()
    solution = minimize(problem, torch.full_like(answer, start), solver=SOLVERS[name])
    assert float((solution.value - answer).norm() / answer.norm()) < NEARNESS[name]
    assert 1 <= solution.steps <= SOLVERS[name].max_steps
    if name not in ("adamw", "adahessian"):
        assert solution.status is Status.CONVERGED


@every_solver
@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
def test_reaches_the_dense_answer_of_a_model_row(
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


@every_solver
def test_stays_at_the_answer(name: str) -> None:
    problem = Ridges()
    answer = problem.answer()
    solution = minimize(problem, answer, solver=SOLVERS[name])
    assert solution.status is Status.CONVERGED
    torch.testing.assert_close(solution.value, answer, rtol=1e-7, atol=1e-9)


@every_solver
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_no_row_rises_though_its_neighbours_have_far_to_go(
    name: str, dtype: torch.dtype, random_data: Any, small_model: Any
) -> None:
    """A block holds rows at their minimum and rows far from it; none may pay for the others."""
    data = random_data(20, 9, seed=5)
    model = small_model(data, dtype=dtype)
    problem = model.row_problems(Side.USERS, data).block(np.arange(20))
    start = minimize(problem, model.users, solver=ah_newton).value
    start[::2] += 1.0
    before = problem.value(start)
    after = problem.value(minimize(problem, start, solver=SOLVERS[name]).value)
    assert (after <= before + 16 * torch.finfo(dtype).eps * before.abs()).all()


@pytest.mark.parametrize("name", [*NEWTONS, *BY_SCIPY])
def test_reaches_the_minimum_of_a_function_that_is_not_quadratic(name: str) -> None:
    problem = Logistic()
    solution = minimize(problem, torch.zeros(5, 4, dtype=torch.float64), solver=SOLVERS[name])
    assert solution.status is Status.CONVERGED
    assert solution.steps > 1
    for row in range(5):
        np.testing.assert_allclose(solution.value[row].numpy(), problem.best_by_scipy(row), atol=2e-5)


@pytest.mark.parametrize(("name", "nearness"), [("adamw", 1e-2), ("adahessian", 1e-3)])
def test_comes_near_the_minimum_of_a_function_that_is_not_quadratic(name: str, nearness: float) -> None:
    problem = Logistic()
    solution = minimize(problem, torch.zeros(5, 4, dtype=torch.float64), solver=SOLVERS[name])
    for row in range(5):
        np.testing.assert_allclose(solution.value[row].numpy(), problem.best_by_scipy(row), atol=nearness)


@pytest.mark.parametrize("name", [*BY_SCIPY, "adamw", "adahessian"])
@pytest.mark.parametrize("seed", range(3))
def test_no_row_ends_above_its_start_where_curvature_is_negative(name: str, seed: int) -> None:
    problem = Wells()
    start = torch.from_numpy(np.random.default_rng(seed).uniform(-0.5, 0.5, (6, 3)))
    solution = minimize(problem, start, solver=SOLVERS[name])
    assert (problem.value(solution.value) <= problem.value(start)).all()
    if name.startswith("trust"):
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


@every_solver
def test_the_start_is_left_as_it_was(name: str) -> None:
    problem = Ridges()
    start = torch.ones(5, 4, dtype=torch.float64)
    minimize(problem, start, solver=SOLVERS[name])
    assert (start == 1).all()
    assert not start.requires_grad


@every_solver
def test_the_answer_carries_no_graph(name: str) -> None:
    solution = minimize(Ridges(), torch.ones(5, 4, dtype=torch.float64), solver=SOLVERS[name])
    assert not solution.value.requires_grad


@pytest.mark.parametrize(
    "solver",
    [
        Descent(max_steps=3),
        Descent(AdaHessianRule(), max_steps=3),
        Newton(Cholesky(), Backtracking(), max_steps=1),
        *(ScipyRows(method, max_steps=2) for method in get_args(Method)),
    ],
    ids=repr,
)
def test_says_when_it_ran_out_of_steps(solver: Solver) -> None:
    solution = minimize(Logistic(), torch.full((5, 4), 2.0, dtype=torch.float64), solver=solver)
    assert solution.status is Status.MAX_STEPS
    assert solution.steps == solver.max_steps
