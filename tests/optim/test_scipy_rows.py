"""scipy's methods on rows: each row for itself, by one rule, and honest about how it ended."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from alteraser.data.interactions import Side
from alteraser.errors import SettingError
from alteraser.optim.minimize import Status, minimize
from alteraser.optim.problem import RowProblem
from alteraser.optim.scipy import Method, ScipyRows, bfgs, trust_ncg

every_method = pytest.mark.parametrize("method", get_args(Method))


class Bowls(RowProblem):
    """cosh of the distance to the row's own centre."""

    def __init__(self, centres: Tensor) -> None:
        self.centres = centres

    def value(self, x: Tensor) -> Tensor:
        return (x - self.centres).cosh().sum(1)


class Kink(RowProblem):
    """|y|: at the minimum there is no small gradient, so that no method can meet the rule."""

    def value(self, x: Tensor) -> Tensor:
        return x.abs().sum(1)


def centres(n_rows: int = 3) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(n_rows, 2)))


@every_method
def test_ends_by_the_rule_and_not_later(method: Method) -> None:
    problem = Bowls(centres())
    for tolerance in (1e-2, 1e-8):
        solution = minimize(problem, torch.zeros_like(problem.centres), solver=ScipyRows(method, tolerance))
        here = problem.expand(solution.value)
        assert (here.gradient.square().sum(1) <= tolerance * (1 + here.value)).all()
        assert solution.status is Status.CONVERGED
    rough = minimize(problem, torch.zeros_like(problem.centres), solver=ScipyRows(method, 1e-2))
    assert rough.steps < solution.steps


@every_method
def test_a_row_that_meets_the_rule_is_not_touched(method: Method) -> None:
    problem = Bowls(centres())
    start = problem.centres.clone()
    start[1] += 1
    solution = minimize(problem, start, solver=ScipyRows(method))
    assert torch.equal(solution.value[[0, 2]], start[[0, 2]])
    assert (solution.value[1] - problem.centres[1]).norm() < 1e-4


@pytest.mark.parametrize("method", ["BFGS", "CG", "L-BFGS-B"])
def test_says_when_it_gets_no_further(method: Method) -> None:
    start = torch.tensor([[0.3, 1.0]], dtype=torch.float64)
    solution = minimize(Kink(), start, solver=ScipyRows(method))
    assert solution.status is Status.STALLED
    assert Kink().value(solution.value) < Kink().value(start)


def test_a_value_that_is_no_number_leaves_the_row_as_it_was() -> None:
    class Cliff(RowProblem):
        def value(self, x: Tensor) -> Tensor:
            return torch.where(x > 0.9, x, torch.nan).sum(1)

    start = torch.ones(1, 1, dtype=torch.float64)
    solution = minimize(Cliff(), start, solver=bfgs)
    assert torch.equal(solution.value, start)
    assert solution.status is not Status.CONVERGED


def test_a_row_alone_is_the_row_among_others(random_data: Any, small_model: Any) -> None:
    data = random_data(confidences=True)
    model = small_model(data)
    block = model.row_problems(Side.USERS, data).block(np.array([5, 2, 7]))
    x = model.users[[5, 2, 7]]
    together, others = block.expand(x), torch.ones_like(x)
    for place in range(3):
        for alone in (block.alone(place, others), RowProblem.alone(block, place, others)):
            here, row = alone.expand(x[place, None]), slice(place, place + 1)
            torch.testing.assert_close(here.value, together.value[row])
            torch.testing.assert_close(here.gradient, together.gradient[row])
            torch.testing.assert_close(here.matrix(), together.matrix()[row])


def test_the_two_ways_to_a_row_agree(random_data: Any, small_model: Any) -> None:
    """A quadratic from its matrix, and the same function by automatic differentiation."""

    class Opaque(RowProblem):
        def __init__(self, block: RowProblem) -> None:
            self.block = block

        def value(self, x: Tensor) -> Tensor:
            return self.block.value(x)

    data = random_data(confidences=True)
    model = small_model(data)
    block = model.row_problems(Side.ITEMS, data).block(np.arange(4))
    known, differentiated = (
        minimize(each, model.items[:4], solver=trust_ncg) for each in (block, Opaque(block))
    )
    torch.testing.assert_close(known.value, differentiated.value, rtol=1e-8, atol=1e-10)
    assert known.steps == differentiated.steps


@pytest.mark.parametrize(
    "settings", [{"method": "bfgs"}, {"method": "BFGS", "max_steps": 0}, {"method": "BFGS", "tolerance": 0}]
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        ScipyRows(**settings)
