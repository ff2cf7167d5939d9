"""How much is added to the curvature so that a Newton step stays where the quadratic picture holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from alteraser.optim.problem import Expansion


class Damping(Protocol):
    """The multiple of the identity that is added to each row's Hessian, [B]."""

    def first(self, here: Expansion) -> Tensor: ...

    def next(self, damping: Tensor, *, predicted: Tensor, actual: Tensor) -> Tensor:
        """After a step for which the quadratic picture promised a fall `predicted`, and the value fell by `actual`."""
        ...


@dataclass(frozen=True)
class Undamped:
    """Plain Newton."""

    def first(self, here: Expansion) -> Tensor:
        return torch.zeros_like(here.value)

    def next(self, damping: Tensor, *, predicted: Tensor, actual: Tensor) -> Tensor:
        del predicted, actual
        return damping


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Starts at a share of the curvature along the gradient; falls while steps keep their promise, else rises."""

    share: float = 1e-3
    fall: float = 0.1
    rise: float = 4.0

    def first(self, here: Expansion) -> Tensor:
        norm = here.gradient.square().sum(1)
        curvature = (here.gradient * here.product(here.gradient)).sum(1).abs()
        return torch.where(norm > 0, self.share * curvature / norm.clamp_min(torch.finfo(norm.dtype).tiny), 0)

    def next(self, damping: Tensor, *, predicted: Tensor, actual: Tensor) -> Tensor:
        factor = torch.ones_like(damping)
        factor[actual > 0.75 * predicted] = self.fall
        factor[actual < 0.25 * predicted] = self.rise
        return damping * factor
