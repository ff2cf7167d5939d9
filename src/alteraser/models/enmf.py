"""ENMF: ŷ_uv = hᵀ(p_u ⊙ q_v), with h kept at root mean square 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import ModelError
from alteraser.models.bilinear import Bilinear, named_exactly, tables_for
from alteraser.models.objective import Objective
from alteraser.models.registry import register


@register
@final
@dataclass(frozen=True, eq=False, repr=False)
class ENMF(Bilinear):
    """h = √dim · eta / ‖eta‖: left free, h would undo the penalty, since (a·p, a·q, h/a²) scores the same."""

    kind: ClassVar[str] = "enmf"
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

    def tensors(self) -> dict[str, Tensor]:
        """The tables and h, which is all that scores know of eta."""
        return {**super().tensors(), "h": self.h}

    @classmethod
    def _parameters_of(cls, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        named = named_exactly(cls.kind, tensors, ["users", "items", "h"])
        return {"eta": named.pop("h"), **named}

    def _shared_gradients(self, of_h: Tensor) -> dict[str, Tensor]:
        """Through the normalisation: what of the gradient is along eta does not count."""
        direction = self.eta / self.eta.norm()
        across = of_h - (of_h @ direction) * direction
        return {"eta": across * (self.dim**0.5 / self.eta.norm())}

    def _growth_of_h(self, dimensions: Tensor) -> float:
        return float(len(dimensions) ** 0.5 / self.h[dimensions].norm())

    def _shared_with(self, dimensions: Tensor, h: Tensor) -> dict[str, Tensor]:
        eta = self.h.clone()
        eta[dimensions] = h
        return {"eta": eta}

    def solve_shared(self, data: Interactions) -> Self:
        """The model with the best h for its tables, the scale of h absorbed by them; itself if L would rise.

        As √s·p and √s·q score with h what p and q score with s·h, L as a function of an h of any norm is
        hᵀMh − 2bᵀh + (‖h‖/√dim)·penalty: convex, and its gradient is zero where (M + c/‖h‖·I) h = b with
        c = penalty / (2√dim).
        """
        double = self.with_parameters({name: value.double() for name, value in self.parameters().items()})
        matrix, side = double._quadratic_in_h(data)
        penalty = double._penalty(self.weigh(data))
        h = _smallest(matrix, side, penalty / (2 * self.dim**0.5))
        if h is None:
            return self
        scale = h.norm() / self.dim**0.5
        solved = replace(
            self,
            users=(double.users * scale.sqrt()).to(self.dtype),
            items=(double.items * scale.sqrt()).to(self.dtype),
            eta=(h / scale).to(self.dtype),
        )
        return solved if solved.loss(data) < self.loss(data) else self

    def _quadratic_in_h(self, data: Interactions) -> tuple[Tensor, Tensor]:
        """M and b of L = hᵀMh − 2bᵀh + …, with both tables fixed and g = p_u ⊙ q_v:

        M = (Σ_u m_u p_u p_uᵀ) ∘ (Σ_v b_v q_v q_vᵀ) + Σ_R (w − m_u b_v) g gᵀ,  b = Σ_R w g.
        """
        by_user = data.by(Side.USERS)
        missing = {side: torch.from_numpy(values) for side, values in self.weigh(data).missing.items()}
        users, items = self.users, self.items
        matrix = ((users * missing[Side.USERS][:, None]).T @ users) * (
            (items * missing[Side.ITEMS][:, None]).T @ items
        )
        side = torch.zeros(self.dim, dtype=users.dtype)
        owner = by_user.owners()
        for start in range(0, len(owner), 65536):  # a slice of entries at a time, to bound the memory
            part = slice(start, start + 65536)
            user, item = torch.from_numpy(owner[part]), torch.from_numpy(by_user.columns[part]).long()
            weight = torch.from_numpy(by_user.weights[part]).to(users.dtype)
            product = users[user] * items[item]
            excess = weight - missing[Side.USERS][user] * missing[Side.ITEMS][item]
            matrix += (product * excess[:, None]).T @ product
            side += weight @ product
        return matrix, side


def _smallest(matrix: Tensor, side: Tensor, c: float) -> Tensor | None:
    """The h ≠ 0 with (matrix + c/‖h‖·I) h = side; None if the minimum is at zero or c is not above 0.

    In the eigenvectors of the matrix the norm t solves Σ_i (side_i / (m_i t + c))² = 1, whose left side falls with t.
    """
    values, vectors = torch.linalg.eigh(matrix)
    values, along = values.clamp_min(0), vectors.T @ side

    def excess(t: float) -> float:
        return float((along / (values * t + c)).square().sum()) - 1

    if not (c > 0 and excess(0) > 0):
        return None
    upper = 1.0
    while excess(upper) > 0:
        upper *= 2
        if upper > 1e12:
            return None
    t = float(brentq(excess, 0, upper, xtol=1e-14, rtol=1e-14))
    h: Tensor = vectors @ (along / (values + c / t))
    return h
