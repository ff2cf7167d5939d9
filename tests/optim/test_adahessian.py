"""AdaHessian: it draws from nobody else's generator, and its absence is explained."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from alteraser.errors import MissingExtra
from alteraser.optim.first_order import adahessian, adamw
from alteraser.optim.minimize import minimize
from alteraser.optim.problem import RowProblem


class Valley(RowProblem):
    """½ yᵀHy with an H that is not diagonal, so that the estimate of its diagonal depends on what is drawn."""

    def value(self, x: Tensor) -> Tensor:
        matrix = torch.tensor([[5.0, 1.0], [1.0, 1.0]], dtype=x.dtype)
        return ((x @ matrix) * x).sum(1) / 2


START = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)


def test_the_seed_alone_decides_what_is_drawn() -> None:
    state = torch.get_rng_state()
    first = minimize(Valley(), START, solver=replace(adahessian, max_steps=10)).value
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    again = minimize(Valley(), START, solver=replace(adahessian, max_steps=10)).value
    torch.set_rng_state(state)
    assert torch.equal(first, again)
    other = minimize(Valley(), START, solver=replace(adahessian, max_steps=10, seed=1)).value
    assert not torch.equal(first, other)


def test_one_step_on_a_diagonal_hessian_is_a_share_of_the_newton_step() -> None:
    class Diagonal(RowProblem):
        def value(self, x: Tensor) -> Tensor:
            return (torch.tensor([100.0, 0.01], dtype=x.dtype) * x.square()).sum(1) / 2

    solver = replace(adahessian, learning_rate=0.25, max_steps=2)
    first = solver.step(Diagonal(), START, None)
    torch.testing.assert_close(first.memory.point.detach(), 0.75 * START)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    with pytest.raises(MissingExtra, match=r"pip install 'alteraser\[solvers\]'"):
        minimize(Valley(), START, solver=adahessian)
    minimize(Valley(), START, solver=replace(adamw, max_steps=2))


def test_nobody_waits_for_packages_that_other_solvers_need() -> None:
    code = "import sys, alteraser.optim.solvers; print({'pytorch_optimizer', 'scipy.optimize'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
