"""Newton's method on a block of rows, assembled from a curvature, a linear solver, a search and a damping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alteraser.optim.curvature import Curvature, GaussNewton, Hessian
from alteraser.optim.damping import Damping, LevenbergMarquardt, Undamped
from alteraser.optim.linear import CG, Cholesky, Linear
from alteraser.optim.minimize import Status, Step
from alteraser.optim.problem import RowProblem
from alteraser.optim.search import Backtracking, FullStep, Search


@dataclass(frozen=True)
class Newton:
    """Converged when the step at hand promises every row a fall below `tolerance` of its value."""

    linear: Linear
    search: Search
    damping: Damping = Undamped()
    curvature: Curvature = Hessian()
    tolerance: float = 1e-10
    max_steps: int = 20

    @property
    def exact_on_quadratics(self) -> bool:
        return self._plain and isinstance(self.linear, Cholesky)

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        # The minimum of a quadratic, or where products lead, may be known to the problem without a stored Hessian.
        if self.exact_on_quadratics and (exact := problem.minimum()) is not None:
            return Step(exact, memory, Status.CONVERGED)
        if self._plain and isinstance(self.linear, CG):
            nearer = self._descended(self.linear, problem, x)
            if nearer is not None:
                return Step(nearer, memory, None)
        here = self.curvature.expand(problem, x)
        damping = self.damping.first(here) if memory is None else memory
        direction = self.linear.direction(here, damping)
        predicted = -(here.gradient * direction).sum(1) / 2
        length = self.search.length(problem, x, here, direction)
        reached = x + length[:, None] * direction
        actual = here.value - problem.value(reached).detach()
        # Below the rounding of the value the two cannot be told apart: the promise counts as kept.
        visible = predicted > 32 * torch.finfo(x.dtype).eps * here.value.abs()
        damping = self.damping.next(
            damping, predicted=predicted, actual=torch.where(visible, actual, predicted)
        )
        promised = predicted <= self.tolerance * (1 + here.value.abs())
        return Step(reached, damping, Status.CONVERGED if bool(promised.all()) else None)

    @property
    def _plain(self) -> bool:
        """Whether a step is the whole of Newton's own, neither shortened nor damped."""
        return (self.search, self.damping, self.curvature) == (FullStep(), Undamped(), Hessian())

    @staticmethod
    def _descended(linear: CG, problem: RowProblem, x: Tensor) -> Tensor | None:
        return problem.descended(x, tolerance=linear.tolerance, max_products=linear.max_products)


ah_newton = Newton(linear=Cholesky(), search=FullStep())
hf_newton = Newton(linear=CG(), search=Backtracking(), damping=LevenbergMarquardt())
cg_newton = Newton(linear=CG(tolerance=0.05), search=FullStep(), max_steps=1)
gauss_newton = Newton(linear=Cholesky(), search=Backtracking(), curvature=GaussNewton())
