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
from alteraser.optim.conjugate_gradients import Stopping, conjugate_gradients
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.sweep.accelerate import Anderson, Extrapolated
from alteraser.sweep.sweep import Advance, Model, Sweeper

QuadraticModel = TypeVar("QuadraticModel", bound=Quadratic)

# Usual values; no record tells that they were tuned on data.
MAX_REFUSALS = 6
SLOW = 0.25  # a step that gains more than this share of what the step before gained calls for new factors
FALL, RISE = 0.25, 4.0  # of the damping


@dataclass(frozen=True)
class JointNewton:
    """Steps of Newton's method over all rows, one in the place of each pass.

    Far from the optimum passes are cheaper: those of `fallback` come first, until one lowers the loss by less than
    `switch_below` of it (infinity: none of them). `damping` is where the damping starts; it falls while steps keep
    their promise and rises when they do not. A step ends when a product adds less than `forcing` of what it
    promises, or after `max_products`. The factors of all rows are kept: where they need more than `max_bytes`, with
    models that are not `Quadratic` and with solvers that are not exact, `fallback` takes over. They are kept in this
    process: an executor that runs blocks elsewhere is refused. The defaults are usual values; no record tells that they
    were tuned on data.
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
        if not sweeper.executor.in_process:
            raise SettingError(
                f"JointNewton keeps the factors of all rows in this process, but blocks are run elsewhere by "
                f"{type(sweeper.executor).__name__}. Take acceleration=Anderson() or None with it, or executor=Local()."
            )
        tables = [model.table(side) for side in model.sides]
        size = sum(len(table) * padded(table.shape[1]) ** 2 * table.element_size() for table in tables)
        exact = isinstance(model, Quadratic) and sweeper.solver.exact_on_quadratics
        if not exact or len(tables) != 2 or size > self.max_bytes:
            return self.fallback.begin(sweeper, model, data)
        passes = Extrapolated(self.fallback.window, sweeper, data)
        rule = LevenbergMarquardt(share=self.damping, fall=FALL, rise=RISE)
        near = self.switch_below == math.inf
        # Of any model that is Quadratic, as this one is: a type for "Model and Quadratic" does not exist.
        joint: Advance[Any] = _Joint(self, sweeper, passes, data, rule, rule.share, near=near)
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
    sweeper: Sweeper
    fallback: Extrapolated
    data: Interactions
    rule: LevenbergMarquardt
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
                start, here, fresh = factorised, self.sweeper.loss(factorised, self.data), True
            step = self._step(start)
            end = self._after(start, step)
            reached = self.sweeper.loss(end, self.data)
            fall = here - reached
            if reached <= min(here, loss):
                self.damping = self.rule.next(self.damping, predicted=step.promised, actual=fall)
                if not step.promised / 2 <= fall <= 2 * step.promised or fall > SLOW * self.fall:
                    self.factors.clear()
                self.fall = fall
                return end, reached
            if not fresh:
                self.factors.clear()
            elif step.promised <= torch.finfo(step.of_last.dtype).eps * here:
                return (start, here) if here <= loss else (model, loss)  # the loss could not show more
            else:
                self.damping = self.rule.raised(self.damping)
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

        def response(change: Tensor) -> Tensor:
            """Minus how the first side's rows move along when the last side's do."""
            return solve_first(of_first.cross(p, change))

        def product(search: Tensor, a_search: Tensor) -> Tensor:
            return a_search - of_last.cross(q, response(search[0]))[None]

        settings = self.settings
        solved = conjugate_gradients(
            of_last.residual(q)[None],
            product,
            precondition=lambda residual: solve_last(residual[0])[None],
            damping=self.damping,
            stopping=Stopping(forcing=settings.forcing, max_products=settings.max_products),
        )
        step = solved.solution[0]
        return _Step(-response(step), step, float(solved.decrease[0]))
