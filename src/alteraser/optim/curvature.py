"""Which matrix stands for the curvature of a row's function in a Newton step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from alteraser.optim.problem import Expansion, RowProblem


class Curvature(Protocol):
    """Values, gradients and curvature of a block near a point."""

    def expand(self, problem: RowProblem, x: Tensor) -> Expansion: ...


@dataclass(frozen=True)
class Hessian:
    """The second derivatives: Newton's method proper."""

    def expand(self, problem: RowProblem, x: Tensor) -> Expansion:
        return problem.expand(x)


@dataclass(frozen=True)
class GaussNewton:
    """2JᵀJ of a sum of squares: never negative, and the Hessian itself where the residuals are linear."""

    def expand(self, problem: RowProblem, x: Tensor) -> Expansion:
        return problem.expand_gauss_newton(x)
