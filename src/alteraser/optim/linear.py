"""How a Newton direction is found from gradient and curvature: by factorising, or by products alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

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
        direction = torch.zeros_like(here.gradient)
        residual = -here.gradient
        search = residual.clone()
        tiny = torch.finfo(residual.dtype).tiny
        norm = residual.square().sum(1)
        goal = norm * self.tolerance**2
        active = norm > goal
        for _ in range(self.max_products):
            if not active.any():
                break
            curved = here.product(search) + damping[:, None] * search
            curvature = (search * curved).sum(1)
            fresh = active & (direction == 0).all(1) & (curvature <= 0)
            direction = torch.where(fresh[:, None], residual, direction)
            active = active & (curvature > 0)
            length = torch.where(active, norm / curvature.clamp_min(tiny), 0)[:, None]
            direction = direction + length * search
            residual = residual - length * curved
            new_norm = residual.square().sum(1)
            search = residual + (new_norm / norm.clamp_min(tiny))[:, None] * search
            norm = torch.where(active, new_norm, norm)
            active = active & (norm > goal)
        return direction
