"""Where a request should lead: in double precision, from the original, by Newton's method over all rows together.

The reference of a request is the point next to the original at which the gradient of the loss on what remains is what
the original's was on all of the data: zero for an original at its optimum, whose reference is the optimum that remains,
and what it was short of for any other. Rows that lose their last interaction are zero, and so is their target.

Newton's equations are solved by MINRES, which needs no positive definite Hessian, with the inverse Hessians of the
original's rows as preconditioner. Where a full step does not come nearer, what the request has changed of the gradient
is removed in smaller parts, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, minres
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.models.base import RowFactors
from alteraser.models.mf import MF
from benchmarks.formula import Formula, Pairs

Floats = NDArray[np.float64]
SIDES = (Side.USERS, Side.ITEMS)
MAX_STEPS, MAX_PRODUCTS = 20, 500
# An equation is solved until so much of its right side is left; steps end when so much of the first residual is left:
# a gap goes with the square of the residual, so that of the gap a hundred millionth is left or so.
FORCING, PRECISION = 3e-3, 1e-4


@dataclass(frozen=True, eq=False)
class Reference:
    """The model that a request should lead to, and what is left of the gradient that the request has changed."""

    model: MF
    residual_left: float
    products: int


class References:
    """Finds the references of requests of one original; its rows' Hessians are factorised once."""

    def __init__(self, original: MF, full: Interactions, *, at_optimum: bool) -> None:
        self.original = in_double(original)
        problems = {side: self.original.row_problems(side, full) for side in SIDES}
        factors = {side: each.factorised() for side, each in problems.items()}
        self._factors: dict[Side, RowFactors] = {
            side: each for side, each in factors.items() if each is not None
        }
        residuals = [problems[side].residual(self.original.table(side)) for side in SIDES]
        self._own = torch.zeros(1) if at_optimum else torch.cat(residuals)

    def find(self, remain: Interactions, *, precision: float = PRECISION) -> Reference:
        """The reference on the data that remains, beginning with the original whose emptied rows are zero."""
        model = self.original.without_empty_rows(remain)
        target = self._own * torch.cat([_occupied(side, remain) for side in SIDES])
        left = _residual(model, remain) - target
        opened, size, products = float(left.norm()), 1.0, 0
        for _ in range(MAX_STEPS):
            if float(left.norm()) <= precision * opened:
                break
            step, n_products = self._newton_step(model, remain, left)
            products += n_products
            while size > 1 / 64:
                moved = _moved(model, size * step)
                after = _residual(moved, remain) - target
                if after.norm() <= (1 - size / 4) * left.norm():
                    model, left, size = moved, after, min(2 * size, 1.0)
                    break
                size /= 2
            else:
                break
        return Reference(model, float(left.norm()) / max(opened, 1e-300), products)

    def _newton_step(self, model: MF, remain: Interactions, residual: Tensor) -> tuple[Tensor, int]:
        """The step that would remove a residual if half the Hessian stayed what it is here."""
        (p, q), products = (model.table(side) for side in SIDES), 0
        of_users, of_items = (model.row_problems(side, remain) for side in SIDES)
        at_zero = [each.residual(torch.zeros_like(own)) for each, own in ((of_users, p), (of_items, q))]
        shape, n = residual.shape, model.n_users

        def product(flat: Floats) -> Floats:
            nonlocal products
            products += 1
            vectors = torch.from_numpy(np.ascontiguousarray(flat)).reshape(shape)
            a, b = vectors[:n], vectors[n:]
            # With the other side fixed a residual is linear in its rows: r(y) = r(0) − A·y.
            users = at_zero[0] - of_users.residual(a) + of_users.cross(p, b)
            items = at_zero[1] - of_items.residual(b) + of_items.cross(q, a)
            return torch.cat([users, items]).numpy().ravel()

        def precondition(flat: Floats) -> Floats:
            vectors = torch.from_numpy(np.ascontiguousarray(flat)).reshape(shape)
            parts = self._factors[Side.USERS].solve(vectors[:n]), self._factors[Side.ITEMS].solve(vectors[n:])
            return torch.cat(parts).numpy().ravel()

        operators = (
            LinearOperator((residual.numel(),) * 2, matvec=each, dtype=np.float64)
            for each in (product, precondition)
        )
        hessian, preconditioner = operators
        solution, _ = minres(
            hessian, residual.numpy().ravel(), M=preconditioner, rtol=FORCING, maxiter=MAX_PRODUCTS
        )
        return torch.from_numpy(solution).reshape(shape), products


def in_double(model: MF) -> MF:
    return model.with_parameters({name: value.double() for name, value in model.parameters().items()})


def zeroed(original: MF, remain: Interactions) -> MF:
    """The original whose emptied rows are zero, in double precision: where nothing else was done."""
    return in_double(original).without_empty_rows(remain)


def loss(model: MF, remain: Interactions) -> float:
    """L by a formula that shares no code with the package."""
    return Formula(model, Pairs.of(remain)).loss


def _residual(model: MF, data: Interactions) -> Tensor:
    return torch.cat([model.row_problems(side, data).residual(model.table(side)) for side in SIDES])


def _moved(model: MF, step: Tensor) -> MF:
    n = model.n_users
    return model.with_parameters({"users": model.users + step[:n], "items": model.items + step[n:]})


def _occupied(side: Side, data: Interactions) -> Tensor:
    return torch.from_numpy(data.by(side).counts > 0).double()[:, None]
