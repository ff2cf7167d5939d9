"""ENMF: ŷ_uv = hᵀ(p_u ⊙ q_v), with h kept at root mean square 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
import torch
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import ModelError
from alteraser.models.bilinear import Bilinear, tables_for
from alteraser.models.objective import Objective


@final
@dataclass(frozen=True, eq=False)
class ENMF(Bilinear):
    """h = √dim · eta / ‖eta‖: left free, h would undo the penalty, since (a·p, a·q, h/a²) scores the same."""

    eta: Tensor  # [dim]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta.shape != (self.dim,) or not self.eta.any():
            raise ModelError(
                f"An eta of shape {tuple(self.eta.shape)} came; [{self.dim}] is wanted, not all of it zero."
            )

    @classmethod
    def sized_for(
        cls,
        data: Interactions,
        *,
        dim: int = 64,
        objective: Objective | None = None,
        rng: np.random.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Self:
        """An untrained model with a random row for each user and item of `data`, and h at ones."""
        tables = tables_for(data, dim, rng, dtype)
        return cls(*tables, (objective or Objective()).scaled_to(data), torch.ones(dim, dtype=dtype))

    @property
    def h(self) -> Tensor:
        scale = float(self.dim**0.5 / self.eta.norm())
        # An eta that is an h already, as one that was read from a file, stays itself to the last bit.
        return self.eta if abs(scale - 1) < 16 * torch.finfo(self.dtype).eps else self.eta * scale

    def _weighed(self, table: Tensor) -> Tensor:
        return table * self.h

    def parameters(self) -> dict[str, Tensor]:
        return {"users": self.users, "items": self.items, "eta": self.eta}

    def _other_gradients(self, of_h: Tensor) -> dict[str, Tensor]:
        """Through the normalisation: what of the gradient is along eta does not count."""
        direction = self.eta / self.eta.norm()
        across = of_h - (of_h @ direction) * direction
        return {"eta": across * (self.dim**0.5 / self.eta.norm())}

    def with_other_parameters_solved(self, data: Interactions) -> Self:
        """The model with the h that minimises L given both tables, its scale absorbed by them; itself if L would rise.

        With both tables fixed L is quadratic in h: gradient and Hessian at any h give its minimum.
        """
        double = self.with_parameters({name: value.double() for name, value in self.parameters().items()})
        h = double._best_h(data)
        scale = h.norm() / self.dim**0.5
        if not (torch.isfinite(scale) and scale > 0):
            return self
        root = scale.sqrt()
        solved = replace(
            self,
            users=(double.users * root).to(self.dtype),
            items=(double.items * root).to(self.dtype),
            eta=(h / scale).to(self.dtype),
        )
        return solved if solved.loss(data) < self.loss(data) else self

    def _best_h(self, data: Interactions) -> Tensor:
        """argmin over h of Σ_R w(1 − hᵀg)² − m_u b_v (hᵀg)² + hᵀ[(Σ m_u p pᵀ) ∘ (Σ b_v q qᵀ)]h with g = p_u ⊙ q_v."""
        weights = self.weigh(data)
        by_user = data.by(Side.USERS)
        missing = {side: torch.from_numpy(values) for side, values in weights.missing.items()}
        users, items = self.users, self.items
        matrix = ((users * missing[Side.USERS][:, None]).T @ users) * (
            (items * missing[Side.ITEMS][:, None]).T @ items
        )
        side = torch.zeros(self.dim, dtype=users.dtype)
        owner = np.repeat(np.arange(self.n_users), by_user.counts)
        for start in range(0, len(owner), 65536):  # a slice of entries at a time, to bound the memory
            part = slice(start, start + 65536)
            user, item = torch.from_numpy(owner[part]), torch.from_numpy(by_user.columns[part]).long()
            weight = torch.from_numpy(by_user.weights[part]).to(users.dtype)
            product = users[user] * items[item]
            lift = weight - missing[Side.USERS][user] * missing[Side.ITEMS][item]
            matrix += (product * lift[:, None]).T @ product
            side += weight @ product
        best: Tensor = torch.linalg.lstsq(matrix, side, driver="gelsd").solution
        return best
