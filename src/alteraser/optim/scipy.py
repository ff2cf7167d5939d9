"""The methods of scipy.optimize.minimize on the same row problems, one row after another: they know no blocks.

All get value, gradient and Hessian products in the same way, in double precision, and all end a row by one rule, that
of the other solvers, so that what differs between them is the method. scipy's own tolerances end no row before that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.errors import SettingError
from alteraser.optim.minimize import Status, Step
from alteraser.optim.problem import Expansion, RowProblem

Method = Literal["BFGS", "L-BFGS-B", "CG", "Newton-CG", "trust-ncg", "trust-krylov"]
Vector: TypeAlias = NDArray[np.float64]

_BY_PRODUCTS = ("Newton-CG", "trust-ncg", "trust-krylov")


@dataclass(frozen=True)
class ScipyRows:
    """Each row from where it is until ‖gradient‖² ≤ tolerance·(1 + |value|), or `max_steps` iterations of scipy.

    A row whose value scipy would raise stays as it was. The block counts as converged if every row met the rule.
    """

    method: Method
    tolerance: float = 1e-10
    max_steps: int = 200
    exact_on_quadratics: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise SettingError(f"method is {self.method!r}; one of {', '.join(get_args(Method))} is wanted.")
        if self.max_steps < 1 or not self.tolerance > 0:
            raise SettingError(
                f"max_steps is {self.max_steps} and tolerance {self.tolerance}; both must be above 0."
            )

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        function_of = _functions(problem, x)
        solved = x.detach().clone()
        statuses, steps = set(), 1
        for place, start in enumerate(x.detach().double().numpy()):
            reached, status, taken = self._minimum(function_of(place), start)
            solved[place] = torch.from_numpy(reached)
            statuses.add(status)
            steps = max(steps, taken)
        worst = (each for each in (Status.MAX_STEPS, Status.STALLED) if each in statuses)
        return Step(solved, memory, next(worst, Status.CONVERGED), steps)

    def _minimum(self, function: _Function, start: Vector) -> tuple[Vector, Status, int]:
        from scipy.optimize import minimize  # slow to import, and most runs need none of this

        def converged(y: Vector) -> bool:
            value, gradient = function.slope(y)
            return bool(gradient @ gradient <= self.tolerance * (1 + abs(value)))

        def watch(intermediate_result: Any) -> None:  # scipy goes by this name
            if converged(intermediate_result.x):
                raise StopIteration

        if converged(start):
            return start, Status.CONVERGED, 0
        result = minimize(
            function.slope,
            start,
            jac=True,
            hessp=function.product if self.method in _BY_PRODUCTS else None,
            method=self.method,
            callback=watch,
            options={"maxiter": self.max_steps, **self._own_tolerances(len(start))},
        )
        reached = result.x if result.fun <= function.slope(start)[0] else start
        if converged(reached):
            return reached, Status.CONVERGED, result.nit
        return reached, Status.MAX_STEPS if result.nit >= self.max_steps else Status.STALLED, result.nit

    def _own_tolerances(self, dim: int) -> dict[str, float]:
        """A norm of the gradient that meets the rule whatever the value; some line searches want to know it."""
        gtol = self.tolerance**0.5
        match self.method:
            case "BFGS" | "CG":
                return {"gtol": gtol, "norm": 2}
            case "L-BFGS-B":
                return {"gtol": gtol / dim**0.5, "ftol": 0.0}  # of the largest component
            case "Newton-CG":
                return {"xtol": 0.0}
            case "trust-ncg" | "trust-krylov":
                return {"gtol": gtol}


class _Function(Protocol):
    """One row's function, in numpy."""

    def slope(self, y: Vector) -> tuple[float, Vector]:
        """Its value and gradient."""
        ...

    def product(self, y: Vector, vector: Vector) -> Vector:
        """Its Hessian at y times a vector."""
        ...


def _functions(problem: RowProblem, x: Tensor) -> Callable[[int], _Function]:
    if not problem.quadratic:
        return lambda place: _Differentiated(problem.alone(place, x), x.dtype)
    # A quadratic is known everywhere from its value, gradient and Hessian at one point.
    origin = torch.zeros_like(x)
    here = problem.expand(origin, products=False)
    matrices = here.matrix()
    return lambda place: _Quadratic(
        float(here.value[place]), here.gradient[place].double().numpy(), matrices[place].double().numpy()
    )


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """constant + slopeᵀy + ½ yᵀHy."""

    constant: float
    linear: Vector
    hessian: Vector

    def slope(self, y: Vector) -> tuple[float, Vector]:
        curved = self.hessian @ y
        return self.constant + float((self.linear + curved / 2) @ y), self.linear + curved

    def product(self, y: Vector, vector: Vector) -> Vector:
        del y
        product: Vector = self.hessian @ vector
        return product


class _Differentiated:
    """By automatic differentiation; what was found at a point serves until another is asked for."""

    def __init__(self, problem: RowProblem, dtype: torch.dtype) -> None:
        self._problem, self._dtype = problem, dtype
        self._last: tuple[Vector, Expansion] | None = None

    def slope(self, y: Vector) -> tuple[float, Vector]:
        here = self._expand(y)
        return float(here.value[0]), here.gradient[0].double().numpy()

    def product(self, y: Vector, vector: Vector) -> Vector:
        result: Vector = self._expand(y).product(self._row(vector))[0].double().numpy()
        return result

    def _expand(self, y: Vector) -> Expansion:
        if self._last is None or not np.array_equal(self._last[0], y):
            self._last = y.copy(), self._problem.expand(self._row(y))
        return self._last[1]

    def _row(self, y: Vector) -> Tensor:
        return torch.from_numpy(np.array(y)).to(self._dtype)[None]


bfgs = ScipyRows("BFGS")
l_bfgs = ScipyRows("L-BFGS-B")
cg = ScipyRows("CG")
newton_cg = ScipyRows("Newton-CG")
trust_ncg = ScipyRows("trust-ncg")
trust_krylov = ScipyRows("trust-krylov")
