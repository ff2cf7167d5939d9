"""Gauss-Newton: its matrix against the Jacobian written out, where it is the Hessian, and where it cannot be had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from alteraser.data.interactions import Side
from alteraser.errors import SettingError
from alteraser.models.objective import Objective
from alteraser.optim.curvature import GaussNewton, Hessian
from alteraser.optim.linear import CG
from alteraser.optim.minimize import Status, minimize
from alteraser.optim.newton import Newton, gauss_newton
from alteraser.optim.problem import RowProblem
from alteraser.optim.search import Backtracking


class Growths(RowProblem):
    """Σ (exp(Xy) − t)² of each row: squares of residuals that bend."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.matrix = torch.from_numpy(rng.normal(0, 0.5, (4, 12, 3)))
        self.target = torch.from_numpy(rng.uniform(0.5, 2.0, (4, 12)))

    def value(self, x: Tensor) -> Tensor:
        return self.residuals(x).square().sum(1)

    def residuals(self, x: Tensor) -> Tensor:
        return torch.einsum("bnd,bd->bn", self.matrix, x).exp() - self.target


class NoSquares(RowProblem):
    def value(self, x: Tensor) -> Tensor:
        return x.cosh().sum(1)


def test_products_and_matrix_are_those_of_the_jacobian_not_of_the_hessian() -> None:
    problem = Growths()
    x = torch.from_numpy(np.random.default_rng(0).normal(0, 0.3, (4, 3)))
    vectors = torch.from_numpy(np.random.default_rng(1).normal(size=(4, 3)))
    here = GaussNewton().expand(problem, x)
    jacobian = problem.matrix * (problem.residuals(x) + problem.target)[:, :, None]
    wanted = 2 * jacobian.mT @ jacobian
    torch.testing.assert_close(here.matrix(), wanted)
    torch.testing.assert_close(here.product(vectors), (wanted @ vectors[:, :, None])[:, :, 0])
    exact = Hessian().expand(problem, x)
    assert not torch.allclose(exact.matrix(), wanted, rtol=1e-2)
    assert torch.equal(here.value, exact.value)
    torch.testing.assert_close(here.gradient, exact.gradient)
    assert not here.matrix().requires_grad


@pytest.mark.parametrize(
    "solver",
    [gauss_newton, Newton(CG(), Backtracking(), curvature=GaussNewton())],
    ids=["factors", "products"],
)
def test_reaches_the_least_squares_of_scipy(solver: Newton) -> None:
    problem = Growths()
    solution = minimize(problem, torch.zeros(4, 3, dtype=torch.float64), solver=solver)
    assert solution.status is Status.CONVERGED
    for row in range(4):
        x, t = problem.matrix[row].numpy(), problem.target[row].numpy()
        best = scipy.optimize.least_squares(lambda y, x=x, t=t: np.exp(x @ y) - t, np.zeros(3), gtol=1e-12).x
        np.testing.assert_allclose(solution.value[row].numpy(), best, atol=1e-4)


@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
def test_on_a_model_row_it_is_the_hessian_and_the_squares_over_all_columns(
    side: Side, random_data: Any, transposed: Any, small_model: Any, dense: Any, missing_and_l2: Any
) -> None:
    data = random_data(confidences=True, seed=4)
    model = small_model(data, objective=Objective(w0=0.4, l2=0.2, l2_scaling=0.5))
    towards = data if side is Side.USERS else transposed(data)
    positive, weights = dense(towards)
    missing, l2, _ = missing_and_l2(towards, model.objective)
    rows = np.array([3, 0, 5])
    problem = model.row_problems(side, data).block(rows)
    x = model.table(side)[torch.from_numpy(rows)]
    here = GaussNewton().expand(problem, x)
    jacobian = model.table(side.other).numpy()  # of the scores of a row
    for place, row in enumerate(rows):
        confidence = np.where(positive[row], weights[row], missing[row])
        wanted = 2 * (jacobian.T * confidence) @ jacobian + 2 * l2[row] * np.eye(jacobian.shape[1])
        np.testing.assert_allclose(here.matrix()[place].numpy(), wanted, rtol=1e-10)
        np.testing.assert_allclose(here.product(x)[place].numpy(), wanted @ x[place].numpy(), rtol=1e-10)


def test_a_function_that_is_no_sum_of_squares_is_refused() -> None:
    with pytest.raises(SettingError, match="sum of squares, which NoSquares"):
        minimize(NoSquares(), torch.ones(2, 2), solver=gauss_newton)
