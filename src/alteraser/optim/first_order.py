"""First-order methods on the same row problems, for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alteraser.optim.minimize import Step
from alteraser.optim.problem import RowProblem


@dataclass(eq=False)
class _Memory:
    point: Tensor
    optimizer: torch.optim.Optimizer
    best: Tensor  # of each row the point where its value was lowest, and that value
    lowest: Tensor
    steps: int = 0


@dataclass(frozen=True)
class AdamWSteps:
    """AdamW on the rows of a block; the step size falls linearly to zero, so that it settles instead of circling.

    Its first steps are as long however near the minimum is, so that each row keeps the best point it has seen.
    """

    learning_rate: float = 0.05
    max_steps: int = 200
    tolerance: float = 1e-10

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        if memory is None:
            point = x.detach().clone().requires_grad_()
            optimizer = torch.optim.AdamW([point], lr=self.learning_rate, weight_decay=0.0)
            lowest = torch.full((len(x),), torch.inf, dtype=x.dtype)
            memory = _Memory(point, optimizer, x.detach().clone(), lowest)
        for group in memory.optimizer.param_groups:
            group["lr"] = self.learning_rate * (1 - memory.steps / self.max_steps)
        value = problem.value(memory.point)
        (gradient,) = torch.autograd.grad(value.sum(), memory.point)
        value = value.detach()
        better = value < memory.lowest
        memory.lowest = torch.where(better, value, memory.lowest)
        memory.best = torch.where(better[:, None], memory.point.detach(), memory.best)
        settled = gradient.square().sum(1) <= self.tolerance * (1 + value.abs())
        if bool(settled.all()):
            return Step(memory.best, memory, converged=True)
        memory.point.grad = gradient
        memory.optimizer.step()
        memory.steps += 1
        return Step(memory.best, memory, converged=False)


adamw = AdamWSteps()
