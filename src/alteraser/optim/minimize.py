"""The one loop that every solver runs in, and what comes out of it. Failures are values, not exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from torch import Tensor

from alteraser.optim.problem import RowProblem


class Status(Enum):
    """How an iteration ended."""

    CONVERGED = "converged"
    MAX_STEPS = "max_steps"
    STALLED = "stalled"  # not converged, and the method says that it gets no further


@dataclass(frozen=True, eq=False)
class Solution:
    """The rows a solver arrived at, [B, d], how it ended and after how many steps."""

    value: Tensor
    status: Status
    steps: int


@dataclass(frozen=True, eq=False)
class Step:
    """Where a step led, what the solver wants to remember, and how it ended, if it did.

    A method that brings its own loop answers with one step; `steps` says how many of its own that was.
    """

    x: Tensor
    memory: Any
    status: Status | None
    steps: int = 1


class Solver(Protocol):
    """One way to answer a block of row problems; its settings are its fields."""

    @property
    def max_steps(self) -> int: ...

    @property
    def exact_on_quadratics(self) -> bool:
        """Whether it leads to the very minimum of a quadratic, up to rounding, so that factors may stand for it."""
        ...

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        """One step from x; `memory` is None the first time, then what the step before returned."""
        ...


def minimize(problem: RowProblem, start: Tensor, *, solver: Solver) -> Solution:
    """The block's minimum as far as the solver gets within its own `max_steps`."""
    x, memory, steps = start, None, 0
    while steps < solver.max_steps:
        step = solver.step(problem, x, memory)
        x, memory, steps = step.x, step.memory, steps + step.steps
        if step.status is not None:
            return Solution(x, step.status, steps)
    return Solution(x, Status.MAX_STEPS, steps)
