"""Newton's method on all rows together, where alternating passes would take many.

With the users always solved anew, the loss is a function of the items alone, f(Q) = min_P L(P, Q). Its Hessian is
S = A_Q − C A_P⁻¹ Cᵀ, where A_P and A_Q are the row Hessians and C says how the items' gradient moves with the users:
nothing larger than a row is ever factorised. A step solves (S + damping·A_Q)·step = −∇f by conjugate gradients with
A_Q⁻¹ as preconditioner, so that with a great damping it is the step of an alternating pass, cut short.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.models.base import RowCurvature
from alteraser.optim.newton import ah_newton
from alteraser.sweep.accelerate import Anderson, Extrapolated
from alteraser.sweep.sweep import Advance, Model, Sweeper

MAX_REFUSALS = 6


@dataclass(frozen=True)
class JointNewton:
    """Steps of Newton's method over all rows, one in the place of each pass.

    `damping` is where the damping starts; it falls while steps keep their promise and rises when they do not. A step
    ends when a product adds less than `forcing` to what it promises, or after `max_products`. The factors of all rows
    are kept: where they need more than `max_bytes`, and with solvers other than AH-Newton, `otherwise` takes over.
    """

    damping: float = 0.1
    forcing: float = 0.03
    max_products: int = 100
    max_bytes: int = 2**31
    otherwise: Anderson = Anderson()

    def __post_init__(self) -> None:
        if not (self.damping > 0 and 0 < self.forcing < 1 and self.max_products >= 1):
            raise SettingError(
                f"damping is {self.damping}, forcing {self.forcing} and max_products {self.max_products}; a number "
                f"above 0, one between 0 and 1 and a whole number from 1 up are wanted."
            )

    def begin(self, sweeper: Sweeper, model: Model, data: Interactions) -> Advance[Model]:
        size = sum(table.shape[0] * table.shape[1] ** 2 * table.element_size() for table in _tables(model))
        if sweeper.solver != ah_newton or len(model.sides) != 2 or size > self.max_bytes:
            return self.otherwise.begin(sweeper, model, data)
        return _Joint(self, Extrapolated(self.otherwise.window, sweeper, data), data, self.damping)


def _tables(model: Model) -> list[Tensor]:
    return [model.table(side) for side in model.sides]


@dataclass(eq=False)
class _Joint(Generic[Model]):
    """What lasts from step to step: the damping, and the model whose first side was just solved, with its factors."""

    settings: JointNewton
    fallback: Extrapolated
    data: Interactions
    damping: float
    space: dict[Side, NDArray[Any]] = field(default_factory=dict)
    solved: tuple[Model, RowCurvature] | None = None

    def __call__(self, model: Model, loss: float) -> tuple[Model, float]:
        first, last = model.sides
        at = self.solved if self.solved is not None and self.solved[0] is model else self._solve(model, first)
        for _ in range(MAX_REFUSALS):
            curvature = None if at is None else self._curvature(at[0], last)
            if at is None or curvature is None:
                break
            here = loss if at[0] is model else at[0].loss(self.data)
            step, promised = self._step(at[0].table(first), at[0].table(last), at[1], curvature)
            start = at[0].with_parameters({**at[0].parameters(), last.value: at[0].table(last) + step})
            there = self._solve(start, first)
            reached = torch.inf if there is None else there[0].loss(self.data)
            kept = (here - reached) / promised if promised > 0 else 1.0
            self.damping *= 0.25 if kept > 0.75 else 4.0 if kept < 0.25 else 1.0
            if there is not None and reached <= min(here, loss):
                self.solved = there
                return there[0], reached
            if promised <= torch.finfo(step.dtype).eps * here:
                break  # below what the loss can show
            at = self._solve(model, first)  # its factors were overwritten
        self.solved = None
        return self.fallback(model, loss)

    def _solve(self, model: Model, side: Side) -> tuple[Model, RowCurvature] | None:
        """The model with this side at its minimum, and the factors; None if there are none."""
        curvature = self._curvature(model, side)
        if curvature is None:
            return None
        table = model.table(side) + curvature.solve(curvature.residual)
        return model.with_parameters({**model.parameters(), side.value: table}), curvature

    def _curvature(self, model: Model, side: Side) -> RowCurvature | None:
        curvature = model.row_curvature(side, self.data, self.space.get(side))
        if curvature is not None:
            self.space[side] = curvature.factors
        return curvature

    def _step(
        self, fixed: Tensor, own: Tensor, first: RowCurvature, last: RowCurvature
    ) -> tuple[Tensor, float]:
        """The step for the last side's table `own`, and how much it promises to lower the loss by."""
        step, promised = torch.zeros_like(own), 0.0
        residual = last.residual
        search = last.solve(residual)
        # A_Q times the search direction, kept by the same recurrence as the direction itself.
        weighed, norm = residual, _dot(residual, search)
        for _ in range(self.settings.max_products):
            bent = last.cross(own, first.solve(first.cross(fixed, search)))
            curved = (1 + self.damping) * weighed - bent
            curvature = _dot(search, curved)
            if not curvature > self.damping / 2 * _dot(search, weighed):
                break  # hardly curved, or the wrong way: the picture does not hold that far
            length = norm / curvature
            step = step + length * search
            residual = residual - length * curved
            promised += length * norm
            if length * norm < self.settings.forcing * promised:
                break
            nearer = last.solve(residual)
            norm, before = _dot(residual, nearer), norm
            search = nearer + norm / before * search
            weighed = residual + norm / before * weighed
        if promised == 0:
            return search, norm
        return step, promised


def _dot(a: Tensor, b: Tensor) -> float:
    return float(torch.dot(a.flatten().double(), b.flatten().double()))
