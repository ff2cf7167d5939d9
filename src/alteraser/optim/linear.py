"""How a Newton direction is found from gradient and curvature: by factorising, or by products alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from alteraser.optim.problem import Expansion, RowProblem


class Linear(Protocol):
    """Solves (H + damping·I) direction = −gradient, row by row of a block."""

    def direction(self, problem: RowProblem, x: Tensor, here: Expansion, damping: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Cholesky:
    """Factorises the Hessian of every row; a row whose Hessian is not positive definite descends its gradient."""

    def direction(self, problem: RowProblem, x: Tensor, here: Expansion, damping: Tensor) -> Tensor:
        hessian = problem.hessian(x)
        hessian = hessian + damping[:, None, None] * torch.eye(x.shape[1], dtype=x.dtype)
        factor, failed = torch.linalg.cholesky_ex(hessian)
        direction = -torch.cholesky_solve(here.gradient[:, :, None], factor)[:, :, 0]
        return torch.where((failed == 0)[:, None], direction, -here.gradient)


@dataclass(frozen=True)
class CG:
    """Conjugate gradients on Hessian products, all rows at once; stops a row at its own relative residual.

    Where a row meets negative curvature it keeps the direction found so far, as in Martens' Hessian-free method.
    """

    tolerance: float = 1e-4
    max_products: int = 200

    def direction(self, problem: RowProblem, x: Tensor, here: Expansion, damping: Tensor) -> Tensor:
        del problem
        direction = torch.zeros_like(x)
        residual = -here.gradient
        search = residual.clone()
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
            length = torch.where(active, norm / curvature.clamp_min(torch.finfo(x.dtype).tiny), 0)[:, None]
            direction = direction + length * search
            residual = residual - length * curved
            new_norm = residual.square().sum(1)
            search = residual + (new_norm / norm.clamp_min(torch.finfo(x.dtype).tiny))[:, None] * search
            norm = torch.where(active, new_norm, norm)
            active = active & (norm > goal)
        return direction
