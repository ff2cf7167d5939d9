"""Newton's method on all rows together, where alternating passes would take many.

With the users always solved anew, the loss is a function of the items alone, f(Q) = min_P L(P, Q). Its Hessian is
S = A_Q − C A_P⁻¹ Cᵀ, where A_P and A_Q are the row Hessians and C says how the items' gradient moves with the users:
nothing larger than a row is ever factorised. A step solves (S + damping·A_Q)·step = −∇f by conjugate gradients with
A_Q⁻¹ as preconditioner, so that with a great damping it is the step of an alternating pass, cut short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.kernels.tiles import padded
from alteraser.models.base import Quadratic, RowFactors
from alteraser.optim.newton import ah_newton
from alteraser.sweep.accelerate import Anderson, Extrapolated
from alteraser.sweep.executors import Serial
from alteraser.sweep.sweep import Advance, Model, Sweeper

QuadraticModel = TypeVar("QuadraticModel", bound=Quadratic)
MAX_REFUSALS = 6
SLOW = 0.25  # a step that gains more than this share of what the step before gained calls for new factors


@dataclass(frozen=True)
class JointNewton:
    """Steps of Newton's method over all rows, one in the place of each pass.

    Far from the optimum passes are cheaper: those of `fallback` come first, until one lowers the loss by less than
    `switch_below` of it (infinity: none of them). `damping` is where the damping starts; it falls while steps keep
    their promise and rises when they do not. A step ends when a product adds less than `forcing` of what it
    promises, or after `max_products`. The factors of all rows are kept: where they need more than `max_bytes`, with
    models that are not `Quadratic`, solvers other than AH-Newton and where blocks run elsewhere, `fallback` takes over.
    """

    switch_below: float = math.inf
    damping: float = 0.1
    forcing: float = 0.03
    max_products: int = 100
    max_bytes: int = 2**31
    fallback: Anderson = Anderson()

    def __post_init__(self) -> None:
        if not (
            self.switch_below > 0 and self.damping > 0 and 0 < self.forcing < 1 and self.max_products >= 1
        ):
            raise SettingError(
                f"switch_below is {self.switch_below}, damping {self.damping}, forcing {self.forcing}, max_products "
                f"{self.max_products}; wanted: two numbers above 0, one between 0 and 1, a whole number from 1 up."
            )

    def begin(self, sweeper: Sweeper, model: Model, data: Interactions) -> Advance[Model]:
        tables = [model.table(side) for side in model.sides]
        size = sum(len(table) * padded(table.shape[1]) ** 2 * table.element_size() for table in tables)
        here = sweeper.solver == ah_newton and type(sweeper.executor) is Serial
        if not isinstance(model, Quadratic) or not here or len(tables) != 2 or size > self.max_bytes:
            return self.fallback.begin(sweeper, model, data)
        passes = Extrapolated(self.fallback.window, sweeper, data)
        # Of any model that is Quadratic, as this one is: a type for "Model and Quadratic" does not exist.
        joint: Advance[Any] = _Joint(self, passes, data, self.damping, near=self.switch_below == math.inf)
        return joint


@dataclass(frozen=True, eq=False)
class _Step:
    """A step of both tables, and how much it promises to lower the loss by."""

    of_first: Tensor
    of_last: Tensor
    promised: float


@dataclass(eq=False)
class _Joint:
    """What lasts from step to step: the damping, and the factors, which serve until a step breaks its promise."""

    settings: JointNewton
    fallback: Extrapolated
    data: Interactions
    damping: float
    near: bool
    fall: float = math.inf  # of the step before
    factors: dict[Side, RowFactors] = field(default_factory=dict)
    space: dict[Side, NDArray[Any]] = field(default_factory=dict)

    def __call__(self, model: QuadraticModel, loss: float) -> tuple[QuadraticModel, float]:
        if not self.near:
            end, reached = self.fallback(model, loss)
            self.near = loss - reached < self.settings.switch_below * loss
            return end, reached
        start, here, fresh = model, loss, False
        for _ in range(MAX_REFUSALS):
            if not self.factors:
                factorised = self._factorise(start)
                if factorised is None:
                    break
                start, here, fresh = factorised, factorised.loss(self.data), True
            step = self._step(start)
            end = self._after(start, step)
            reached = end.loss(self.data)
            kept = (here - reached) / step.promised if step.promised > 0 else 1.0
            if reached <= min(here, loss):
                self.damping *= 0.25 if kept > 0.75 else 4.0 if kept < 0.25 else 1.0
                if not 0.5 < kept < 2 or here - reached > SLOW * self.fall:
                    self.factors.clear()
                self.fall = here - reached
                return end, reached
            if not fresh:
                self.factors.clear()
            elif step.promised <= torch.finfo(step.of_last.dtype).eps * here:
                return (start, here) if here <= loss else (model, loss)  # the loss could not show more
            else:
                self.damping *= 4
        self.factors.clear()
        return self.fallback(model, loss)

    def _factorise(self, model: QuadraticModel) -> QuadraticModel | None:
        """The model with its first side solved, the factors of both sides now in place; None if a row has none."""
        model = model.without_empty_rows(self.data)
        for side in model.sides:
            problems, table = model.row_problems(side, self.data), model.table(side)
            factors = problems.factorised(self.space.get(side))
            if factors is None:
                self.factors.clear()
                return None
            self.factors[side], self.space[side] = factors, factors.space
            if side is model.sides[0]:
                solved = table + factors.solve(problems.residual(table))
                model = model.with_parameters({**model.parameters(), side.value: solved})
        return model

    def _after(self, model: QuadraticModel, step: _Step) -> QuadraticModel:
        """The model after a step, its first side solved anew as well as the factors at hand allow."""
        first, last = model.sides
        tables = {
            first.value: model.table(first) + step.of_first,
            last.value: model.table(last) + step.of_last,
        }
        model = model.with_parameters({**model.parameters(), **tables})
        residual = model.row_problems(first, self.data).residual(model.table(first))
        tables[first.value] = model.table(first) + self.factors[first].solve(residual)
        return model.with_parameters({**model.parameters(), **tables})

    def _step(self, model: QuadraticModel) -> _Step:
        (first, last), (p, q) = model.sides, (model.table(side) for side in model.sides)
        of_first, of_last = (model.row_problems(side, self.data) for side in (first, last))
        solve_first, solve_last = self.factors[first].solve, self.factors[last].solve
        dp, dq, promised = torch.zeros_like(p), torch.zeros_like(q), 0.0
        residual = of_last.residual(q)
        search = solve_last(residual)
        # A_Q times the search direction, kept by the same recurrence as the direction itself.
        weighed, norm = residual, _dot(residual, search)
        for _ in range(self.settings.max_products):
            response = solve_first(of_first.cross(p, search))
            curved = (1 + self.damping) * weighed - of_last.cross(q, response)
            curvature = _dot(search, curved)
            if not curvature > self.damping / 2 * _dot(search, weighed):
                break  # hardly curved, or the wrong way: the picture does not hold that far
            length = norm / curvature
            dq, dp = dq + length * search, dp - length * response
            promised += length * norm
            if length * norm < self.settings.forcing * promised:
                break
            residual = residual - length * curved
            nearer = solve_last(residual)
            norm, before = _dot(residual, nearer), norm
            search = nearer + norm / before * search
            weighed = residual + norm / before * weighed
        if promised == 0:  # the step of a plain pass
            return _Step(-solve_first(of_first.cross(p, search)), search, norm)
        return _Step(dp, dq, promised)


def _dot(a: Tensor, b: Tensor) -> float:
    return float(torch.dot(a.flatten().double(), b.flatten().double()))
