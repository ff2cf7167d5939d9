"""How much is added to the curvature so that a Newton step stays where the quadratic picture holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from alteraser.errors import SettingError
from alteraser.optim.problem import Expansion

Amount = TypeVar("Amount", float, Tensor)
"""A number, or one for each row of a block."""

# Of what a step promised: where it keeps more than the first, it may go further, where less than the second, it must
# not. The usual values of trust-region methods (Nocedal and Wright, Numerical Optimization, algorithm 4.1).
KEPT_WELL, KEPT_BADLY = 0.75, 0.25


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
    """Starts at a share of the curvature along the gradient; falls while steps keep their promise, else rises.

    The one damping rule of every Newton here. Where the damping is a multiple not of the identity but of a
    preconditioner's inverse, which stands for the curvature, it starts at `share` itself. It falls no lower than
    `floor`. The defaults are usual values, tuned on no data.
    """

    share: float = 1e-3
    fall: float = 0.1
    rise: float = 4.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not (self.share > 0 and 0 < self.fall <= 1 <= self.rise and self.floor >= 0):
            raise SettingError(
                f"share is {self.share}, fall {self.fall}, rise {self.rise} and floor {self.floor}; wanted: above 0, "
                f"from 0 to 1, from 1 up, from 0 up."
            )

    def first(self, here: Expansion) -> Tensor:
        norm = here.gradient.square().sum(1)
        curvature = (here.gradient * here.product(here.gradient)).sum(1).abs()
        return torch.where(norm > 0, self.share * curvature / norm.clamp_min(torch.finfo(norm.dtype).tiny), 0)

    def next(self, damping: Amount, *, predicted: Amount, actual: Amount) -> Amount:
        """As in `Damping`, of single numbers too."""
        well, badly = actual > KEPT_WELL * predicted, actual < KEPT_BADLY * predicted
        if isinstance(damping, Tensor):
            raised = torch.where(torch.as_tensor(badly), self.raised(damping), damping)
            return torch.where(torch.as_tensor(well), self.lowered(damping), raised)
        return self.lowered(damping) if well else self.raised(damping) if badly else damping

    def lowered(self, damping: Amount) -> Amount:
        """After a step that kept its promise, or was at least no mistake."""
        lowered = damping * self.fall
        return lowered.clamp_min(self.floor) if isinstance(lowered, Tensor) else max(lowered, self.floor)

    def raised(self, damping: Amount) -> Amount:
        """After a step that did not, or was refused."""
        return damping * self.rise
