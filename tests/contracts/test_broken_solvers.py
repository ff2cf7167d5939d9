"""Solvers that break a promise each, and are found out by their suite."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from torch import Tensor

from alteraser.optim.minimize import Status, Step
from alteraser.optim.newton import ah_newton
from alteraser.optim.problem import RowProblem
from alteraser.testing import (
    SolverContract,
)


@dataclass(frozen=True)
class TooSoon:
    """Says that it has converged after a step half as long as it should be."""

    max_steps: int = 5
    exact_on_quadratics: bool = False

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        there = ah_newton.step(problem, x, memory).x
        return Step((x + there) / 2, None, Status.CONVERGED)


@dataclass(frozen=True)
class Averaging:
    """Gives every row of a block a little of the others."""

    max_steps: int = 20
    exact_on_quadratics: bool = False

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        step = ah_newton.step(problem, x, memory)
        return replace(step, x=step.x + 1e-3 * step.x.mean(0))


@dataclass(frozen=True)
class InPlace:
    max_steps: int = 20
    exact_on_quadratics: bool = False

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        step = ah_newton.step(problem, x, memory)
        x.copy_(step.x)
        return replace(step, x=x)


@dataclass(frozen=True)
class NeverDone:
    """Claims convergence when it runs out of steps."""

    max_steps: int = 20
    exact_on_quadratics: bool = False

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        step = ah_newton.step(problem, x, memory)
        return replace(step, status=Status.CONVERGED if self.max_steps == 1 else step.status)


@pytest.mark.parametrize(
    ("solver", "test"),
    [
        (TooSoon(), "test_converged_is_said_only_at_the_minimum"),
        (TooSoon(), "test_reaches_the_ridge_answer"),
        (TooSoon(exact_on_quadratics=True), "test_what_is_exact_is_exact"),
        (Averaging(), "test_rows_of_a_block_do_not_know_of_each_other"),
        (InPlace(), "test_the_start_is_left_as_it_was_and_the_answer_carries_no_graph"),
        (NeverDone(), "test_says_when_it_ran_out_of_steps"),
    ],
    ids=repr,
)
def test_a_solver_that_breaks_its_promise_is_found_out(solver: Any, test: str) -> None:
    class Checked(SolverContract):
        descends = False

        def make(self) -> Any:
            return solver

    assert test in Checked().broken()
