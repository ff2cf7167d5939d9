"""How far to go along a direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from alteraser.optim.problem import Expansion, RowProblem


class Search(Protocol):
    """Step lengths [B] along a block of directions."""

    def length(self, problem: RowProblem, x: Tensor, here: Expansion, direction: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class FullStep:
    """The whole direction; exact where the function is quadratic."""

    def length(self, problem: RowProblem, x: Tensor, here: Expansion, direction: Tensor) -> Tensor:
        del problem, here, direction
        return torch.ones(len(x), dtype=x.dtype)


@dataclass(frozen=True)
class Backtracking:
    """The first of 1, ½, ¼ … that lowers a row's value enough (Armijo); 0 where none does, so that no row rises."""

    slope: float = 1e-4
    max_halvings: int = 20

    def length(self, problem: RowProblem, x: Tensor, here: Expansion, direction: Tensor) -> Tensor:
        length = torch.ones(len(x), dtype=x.dtype)
        descent = (here.gradient * direction).sum(1)
        # Near the minimum the fall is lost in the rounding of the value itself.
        slack = 8 * torch.finfo(x.dtype).eps * here.value.abs()
        for _ in range(self.max_halvings):
            reached = problem.value(x + length[:, None] * direction)
            short = ~(reached <= here.value + self.slope * length * descent + slack)
            if not short.any():
                return length
            length = torch.where(short, length / 2, length)
        return torch.where(short, 0, length)
