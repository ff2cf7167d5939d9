"""The parts a Newton step is made of, each against an answer worked out by hand or by plain linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from alteraser.optim.damping import LevenbergMarquardt, Undamped
from alteraser.optim.linear import CG, Cholesky, Linear
from alteraser.optim.problem import RowProblem
from alteraser.optim.search import Backtracking, FullStep


class Quadratic(RowProblem):
    """½ yᵀHy + gᵀy of each row."""

    def __init__(self, hessians: Tensor, gradients: Tensor) -> None:
        self.hessians, self.gradients = hessians, gradients

    def value(self, x: Tensor) -> Tensor:
        return torch.einsum("bi,bij,bj->b", x, self.hessians, x) / 2 + (self.gradients * x).sum(1)


def positive_quadratic(n_rows: int = 4, dim: int = 5) -> Quadratic:
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(n_rows, dim, dim))
    hessians = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(dim)
    return Quadratic(torch.from_numpy(hessians), torch.from_numpy(rng.normal(size=(n_rows, dim))))


def test_the_hessian_built_from_products_is_the_hessian() -> None:
    problem = positive_quadratic()
    torch.testing.assert_close(problem.hessian(torch.ones(4, 5, dtype=torch.float64)), problem.hessians)


def test_a_problem_without_closed_form_offers_no_minimum() -> None:
    assert positive_quadratic().minimum() is None


@pytest.mark.parametrize(
    ("linear", "tolerance"), [(Cholesky(), 1e-10), (CG(), 1e-4), (CG(tolerance=1e-9), 1e-7)], ids=repr
)
@pytest.mark.parametrize("damping", [0.0, 3.0])
def test_directions_solve_the_damped_equations(linear: Linear, tolerance: float, damping: float) -> None:
    problem = positive_quadratic()
    x = torch.ones(4, 5, dtype=torch.float64)
    here = problem.expand(x)
    found = linear.direction(here, torch.full((4,), damping, dtype=torch.float64))
    for row in range(4):
        matrix = problem.hessians[row].numpy() + damping * np.eye(5)
        gradient = here.gradient[row].numpy()
        residual = matrix @ found[row].numpy() + gradient
        assert np.linalg.norm(residual) <= tolerance * np.linalg.norm(gradient)


@pytest.mark.parametrize("linear", [Cholesky(), CG()], ids=repr)
def test_a_row_of_negative_curvature_still_descends_and_spares_its_neighbour(linear: Linear) -> None:
    hessians = torch.stack([-torch.eye(2), 2 * torch.eye(2)]).double()
    problem = Quadratic(hessians, torch.tensor([[1.0, 2.0], [4.0, 0.0]], dtype=torch.float64))
    x = torch.zeros(2, 2, dtype=torch.float64)
    found = linear.direction(problem.expand(x), torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([[-1.0, -2.0], [-2.0, 0.0]], dtype=torch.float64))


def test_cg_keeps_what_it_found_before_meeting_negative_curvature() -> None:
    problem = Quadratic(
        torch.tensor([[[1.0, 0.0], [0.0, -0.5]]], dtype=torch.float64),
        torch.tensor([[3.0, 0.1]], dtype=torch.float64),
    )
    x = torch.zeros(1, 2, dtype=torch.float64)
    here = problem.expand(x)
    found = CG().direction(here, torch.zeros(1, dtype=torch.float64))
    # One step along −g, of length gᵀg / gᵀHg; the next search direction has negative curvature.
    g = np.array([3.0, 0.1])
    np.testing.assert_allclose(found[0].numpy(), -g * (g @ g) / (9 - 0.5 * 0.01), rtol=1e-12)


def test_cg_needs_no_more_products_than_it_is_allowed() -> None:
    problem = positive_quadratic()
    x = torch.ones(4, 5, dtype=torch.float64)
    here = problem.expand(x)
    found = CG(max_products=1).direction(here, torch.zeros(4, dtype=torch.float64))
    g, h = here.gradient.numpy(), problem.hessians.numpy()
    for row in range(4):
        length = g[row] @ g[row] / (g[row] @ h[row] @ g[row])
        np.testing.assert_allclose(found[row].numpy(), -length * g[row], rtol=1e-12)


def test_cg_of_a_zero_gradient_is_zero() -> None:
    problem = positive_quadratic()
    problem.gradients = torch.zeros(4, 5, dtype=torch.float64)
    x = torch.zeros(4, 5, dtype=torch.float64)
    found = CG().direction(problem.expand(x), torch.zeros(4, dtype=torch.float64))
    assert (found == 0).all()


def test_backtracking_halves_until_the_value_falls_enough() -> None:
    problem = Quadratic(torch.ones(4, 1, 1, dtype=torch.float64), torch.zeros(4, 1, dtype=torch.float64))
    x = torch.ones(4, 1, dtype=torch.float64)
    # From 1 on y²/2: a step of −1 is the minimum; −3 overshoots to −2, half of it to −½; −9 needs ⅛... of 1, ½, ¼, ⅛.
    direction = torch.tensor([[-1.0], [-3.0], [-9.0], [1.0]], dtype=torch.float64)
    lengths = Backtracking().length(problem, x, problem.expand(x), direction)
    assert lengths.tolist() == [1.0, 0.5, 0.125, 0.0]  # uphill: no length lowers the value, so none is gone


def test_backtracking_never_accepts_a_value_that_is_not_a_number() -> None:
    class Root(RowProblem):
        def value(self, x: Tensor) -> Tensor:
            return -x.sum(1).sqrt()

    x = torch.ones(1, 1, dtype=torch.float64)
    problem = Root()
    lengths = Backtracking().length(problem, x, problem.expand(x), -4 * torch.ones(1, 1, dtype=torch.float64))
    assert lengths.tolist() == [0.0]


def test_a_full_step_is_whole() -> None:
    x = torch.ones(3, 1, dtype=torch.float64)
    problem = Quadratic(torch.ones(3, 1, 1, dtype=torch.float64), x)
    assert FullStep().length(problem, x, problem.expand(x), x).tolist() == [1, 1, 1]


def test_damping_follows_how_well_steps_keep_their_promise() -> None:
    rule = LevenbergMarquardt(share=0.1, fall=0.1, rise=4.0)
    problem = Quadratic(
        2 * torch.eye(2, dtype=torch.float64).expand(3, 2, 2), torch.ones(3, 2, dtype=torch.float64)
    )
    here = problem.expand(torch.zeros(3, 2, dtype=torch.float64))
    first = rule.first(here)
    torch.testing.assert_close(
        first, torch.full((3,), 0.2, dtype=torch.float64)
    )  # a tenth of the curvature 2
    promised = torch.ones(3, dtype=torch.float64)
    after = rule.next(first, predicted=promised, actual=torch.tensor([1.0, 0.5, -1.0], dtype=torch.float64))
    torch.testing.assert_close(after, torch.tensor([0.02, 0.2, 0.8], dtype=torch.float64))


def test_damping_at_a_minimum_is_a_number() -> None:
    problem = Quadratic(torch.eye(2, dtype=torch.float64)[None], torch.zeros(1, 2, dtype=torch.float64))
    here = problem.expand(torch.zeros(1, 2, dtype=torch.float64))
    assert LevenbergMarquardt().first(here).tolist() == [0.0]
    assert Undamped().first(here).tolist() == [0.0]
