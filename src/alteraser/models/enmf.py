"""ENMF: ŷ_uv = hᵀ(p_u ⊙ q_v), with h kept at root mean square 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from torch import Tensor

from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import ModelError
from alteraser.models.bilinear import Bilinear, named_exactly, tables_for
from alteraser.models.blocks import SumBlocks, blocks_of, sum_here
from alteraser.models.defaults import DIM
from alteraser.models.objective import Objective
from alteraser.models.registry import register
from alteraser.models.ridge import weighted_gram

# Entries whose products g are in memory at a time: 32 MiB where d = 64, in double precision.
BLOCK_ENTRIES = 2**16


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
        dim: int = DIM,
        objective: Objective | None = None,
        rng: np.random.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Self:
        """An untrained model with a random row for each user and item of `data`, and h at ones."""
        tables = tables_for(data, dim, rng, dtype)
        return cls(
            *tables, (objective or Objective.for_data(data)).scaled_to(data), torch.ones(dim, dtype=dtype)
        )

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

    def solve_shared(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> Self:
        """The model with the best h for its tables, the scale of h absorbed by them; itself if L would rise.

        As √s·p and √s·q score with h what p and q score with s·h, L as a function of an h of any norm is
        hᵀMh − 2bᵀh + (‖h‖/√dim)·penalty: convex, and its gradient is zero where (M + c/‖h‖·I) h = b with
        c = penalty / (2√dim).
        """
        double = self.with_parameters({name: value.double() for name, value in self.parameters().items()})
        matrix, side = double._quadratic_in_h(data, sum_blocks)
        penalty = double._penalty(self.weigh(data), sum_blocks)
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
        loss = self.loss(data, sum_blocks=sum_blocks)
        return solved if solved.loss(data, sum_blocks=sum_blocks) < loss else self

    def _quadratic_in_h(self, data: Interactions, sum_blocks: SumBlocks) -> tuple[Tensor, Tensor]:
        """M and b of L = hᵀMh − 2bᵀh + …, with both tables fixed and g = p_u ⊙ q_v:

        M = (Σ_u m_u p_u p_uᵀ) ∘ (Σ_v b_v q_v q_vᵀ) + Σ_R (w − m_u b_v) g gᵀ,  b = Σ_R w g.
        """
        by_user, weights, tables = data.by(Side.USERS), self.weigh(data), (self.users, self.items)
        missing = [torch.from_numpy(weights.missing[side]) for side in self.sides]
        users, items = (
            weighted_gram(table, weight, self.dtype, sum_blocks)
            for table, weight in zip(tables, missing, strict=True)
        )
        blocks = blocks_of(by_user.n_entries, BLOCK_ENTRIES)
        of_entries = sum_blocks(_quadratic_of_entries, blocks, by_user, *tables, *missing)
        return users * items + of_entries[:-1], of_entries[-1]


def _quadratic_of_entries(
    entries: slice, data: CSR, users: Tensor, items: Tensor, missing_user: Tensor, missing_item: Tensor
) -> Tensor:
    """Σ (w − m_u b_v) g gᵀ over some entries, and in one more row Σ w g."""
    owners = np.searchsorted(data.starts, np.arange(entries.start, entries.stop), side="right") - 1
    user, item = torch.from_numpy(owners), torch.from_numpy(data.columns[entries]).long()
    weight = torch.from_numpy(data.weights[entries]).to(users.dtype)
    product = users[user] * items[item]
    excess = weight - missing_user[user] * missing_item[item]
    return torch.cat([(product * excess[:, None]).T @ product, (weight @ product)[None]])


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
    from scipy.optimize import brentq  # slow to import, and seldom needed

    t = float(brentq(excess, 0, upper, xtol=1e-14, rtol=1e-14))
    h: Tensor = vectors @ (along / (values + c / t))
    return h
