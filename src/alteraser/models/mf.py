"""Matrix factorisation: ŷ_uv = p_u · q_v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np
import torch
from torch import Tensor

from alteraser.data.interactions import Interactions
from alteraser.models.bilinear import Bilinear, tables_for
from alteraser.models.defaults import DIM
from alteraser.models.objective import Objective
from alteraser.models.registry import register


@register
@final
@dataclass(frozen=True, eq=False, repr=False)
class MF(Bilinear):
    """Every dimension weighs the same."""

    kind: ClassVar[str] = "mf"

    @classmethod
    def sized_for(
        cls,
        data: Interactions,
        *,
        dim: int = DIM,
        objective: Objective | None = None,
        rng: np.random.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Self:
        """An untrained model with a random row for each user and item of `data`."""
        return cls(
            *tables_for(data, dim, rng, dtype), (objective or Objective.for_data(data)).scaled_to(data)
        )

    @property
    def h(self) -> Tensor:
        return torch.ones(self.dim, dtype=self.dtype)

    def _weighed(self, table: Tensor) -> Tensor:
        return table

    def parameters(self) -> dict[str, Tensor]:
        return {"users": self.users, "items": self.items}
