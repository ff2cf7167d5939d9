"""How a Newton direction is found from gradient and curvature: by factorising, or by products alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from alteraser.optim.conjugate_gradients import Stopping, conjugate_gradients
from alteraser.optim.problem import Expansion


class Linear(Protocol):
    """Solves (H + damping·I) direction = −gradient, row by row of a block; H is the curvature in `here`."""

    def direction(self, here: Expansion, damping: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Cholesky:
    """Factorises the matrix of every row; a row whose matrix is not positive definite descends its gradient."""

    def direction(self, here: Expansion, damping: Tensor) -> Tensor:
        identity = torch.eye(here.gradient.shape[1], dtype=here.gradient.dtype)
        factor, failed = torch.linalg.cholesky_ex(here.matrix() + damping[:, None, None] * identity)
        direction = -torch.cholesky_solve(here.gradient[:, :, None], factor)[:, :, 0]
        return torch.where((failed == 0)[:, None], direction, -here.gradient)


@dataclass(frozen=True)
class CG:
    """Conjugate gradients on products, all rows at once; stops a row at its own relative residual.

    Where a row meets negative curvature it keeps the direction found so far, as in Martens' Hessian-free method.
    """

    tolerance: float = 1e-4
    max_products: int = 200

    def direction(self, here: Expansion, damping: Tensor) -> Tensor:
        stopping = Stopping(relative_residual=self.tolerance, max_products=self.max_products)
        return conjugate_gradients(
            -here.gradient, lambda search, _: here.product(search), stopping=stopping, damping=damping
        ).solution
