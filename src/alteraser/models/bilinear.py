"""What MF and ENMF share: scores ŷ_uv = hᵀ(p_u ⊙ q_v), the objective, and rows with a closed form."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError, ModelError, ModelFileError, SettingError
from alteraser.kernels.entries import batch_gradients, row_losses
from alteraser.kernels.sparse import FixedFactors
from alteraser.models.base import BatchTrainable, Quadratic, Similar, Storable
from alteraser.models.blocks import BLOCK_ROWS, SumBlocks, blocks_of, sum_here
from alteraser.models.objective import Objective, Weights
from alteraser.models.ridge import RidgeSide, RidgeTerms, sparse_rows, weighted_gram

INITIAL_SCALE = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class Bilinear(BatchTrainable, Quadratic, Storable, Similar):
    """Tables of user and item vectors with an objective; `h` weighs the dimensions of their product."""

    users: Tensor  # [n_users, dim]
    items: Tensor  # [n_items, dim]
    objective: Objective

    sides: ClassVar[tuple[Side, ...]] = (Side.USERS, Side.ITEMS)

    def __post_init__(self) -> None:
        if self.users.ndim != 2 or self.items.ndim != 2 or self.users.shape[1] != self.items.shape[1]:
            raise ModelError(
                f"Tables of shape {tuple(self.users.shape)} and {tuple(self.items.shape)} came; "
                f"[n_users, dim] and [n_items, dim] with the same dim are wanted."
            )
        kinds = {value.dtype for value in self.parameters().values()}
        if kinds not in ({torch.float32}, {torch.float64}):
            raise ModelError(
                f"Numbers of type {', '.join(sorted(map(str, kinds)))} came; float32 or float64 is wanted, the same "
                f"for all."
            )

    def __repr__(self) -> str:
        # A representation ends up in logs and tracebacks, where nobody's vector belongs.
        size = f"{len(self.users)} users, {len(self.items)} items, dim {self.dim}"
        return f"{type(self).__name__}({size}, {self.objective})"

    @abstractmethod
    def _weighed(self, table: Tensor) -> Tensor:
        """Scales the factors of a table: h ⊙ each row."""

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def dim(self) -> int:
        return self.users.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.users.dtype

    def table(self, side: Side) -> Tensor:
        return self.users if side is Side.USERS else self.items

    def with_rows(self, side: Side, rows: NDArray[np.int64], vectors: Tensor) -> Self:
        vectors = vectors.to(self.dtype)
        if np.array_equal(rows, np.arange(len(self.table(side)))):
            return self.with_parameters({**self.parameters(), side.value: vectors})
        table = self.table(side).clone()
        table[torch.from_numpy(rows)] = vectors
        return self.with_parameters({**self.parameters(), side.value: table})

    def empty_row(self, side: Side) -> Tensor:
        """Zero, where all scores are: a row without interactions has only missing entries and a penalty."""
        return self.table(side).new_zeros(self.dim)

    def with_parameters(self, parameters: dict[str, Tensor]) -> Self:
        changes: dict[str, Any] = dict(parameters)
        return replace(self, **changes)

    def fresh(self, rng: np.random.Generator) -> Self:
        tables = {
            side.value: _random_table(len(self.table(side)), self.dim, rng, self.dtype) for side in self.sides
        }
        shared = {
            name: torch.ones_like(value) for name, value in self.parameters().items() if name not in tables
        }
        return self.with_parameters(tables | shared)

    def scores(self, users: NDArray[np.int64]) -> Tensor:
        return self.users[torch.from_numpy(users)] @ self._weighed(self.items).T

    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> Tensor:
        scaled = self._weighed(self.items)[torch.tensor(items)]
        return (self.users[torch.tensor(users)] * scaled).sum(1)

    def similarities(self, side: Side, rows: NDArray[np.int64]) -> Tensor:
        """The cosine between the vectors of some rows of a side and of all, [len(rows), n]; 0 where one is zero."""
        directions = torch.nn.functional.normalize(self._weighed(self.table(side)), dim=1)
        return directions[torch.from_numpy(rows)] @ directions.T

    def row_problems(self, side: Side, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> RidgeSide:
        self.check_belongs(data)
        weights = self.weigh(data)
        # w0 stands with the users' weights; as a factor of both terms it may stand with either.
        missing = {key: torch.from_numpy(value).to(self.dtype) for key, value in weights.missing.items()}
        fixed = self._weighed(self.table(side.other)).contiguous()
        terms = RidgeTerms(
            fixed=fixed,
            missing_row=missing[side],
            missing_column=missing[side.other],
            l2=torch.from_numpy(weights.l2[side]).to(self.dtype),
            h=self.h,
            gram=weighted_gram(fixed, missing[side.other], self.dtype, sum_blocks),
        )
        return terms.on(data.by(side))

    def weigh(self, data: Interactions) -> Weights:
        return self.objective.weigh(data)

    def row_weights(
        self, side: Side, counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of rows of a side that hold so many interactions, the weight in a missing entry and the penalty."""
        return self.objective.weights_of_rows(side, counts, len(self.table(side.other)))

    def loss(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> float:
        self.check_belongs(data)
        weights = self.weigh(data)
        missing = [torch.from_numpy(weights.missing[side]) for side in self.sides]
        tables = self.users.contiguous(), self._weighed(self.items).contiguous()
        positives = sum_blocks(
            _loss_of_positives, blocks_of(self.n_users), data.by(Side.USERS), *tables, *missing
        )
        users, items = (
            weighted_gram(table, weight, torch.float64, sum_blocks)
            for table, weight in zip(tables, missing, strict=True)
        )
        return positives + float((users * items).sum()) + self._penalty(weights, sum_blocks)

    def _penalty(self, weights: Weights, sum_blocks: SumBlocks) -> float:
        """Σ λ‖·‖² over all rows."""
        return sum(
            sum_blocks(
                _penalty_of_block,
                blocks_of(len(self.table(side))),
                self.table(side),
                torch.from_numpy(weights.l2[side]),
            )
            for side in self.sides
        )

    def gradient_norm(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> float:
        squares = []
        for side in self.sides:
            table, terms = self.table(side), self.row_problems(side, data, sum_blocks=sum_blocks).terms
            squares.append(sum_blocks(_squared_residual, blocks_of(len(table)), data.by(side), terms, table))
        return 2 * math.sqrt(sum(squares))

    def batch_gradients(
        self, users: NDArray[np.int64], data: Interactions, weights: Weights
    ) -> tuple[float, dict[str, Tensor]]:
        """As in `Factored`: a batch carries its users' penalties and its share, by number, of the items'."""
        scaled = self._weighed(self.items).contiguous()
        missing = {key: torch.from_numpy(value).to(self.dtype) for key, value in weights.missing.items()}
        l2 = {key: torch.from_numpy(value).to(self.dtype) for key, value in weights.l2.items()}
        loss, own_slopes, scaled_slopes = batch_gradients(
            users,
            sparse_rows(data.by(Side.USERS)),
            self.users.contiguous().numpy(),
            FixedFactors(scaled.numpy(), missing[Side.ITEMS].numpy()),
            missing[Side.USERS].numpy(),
        )
        rows = torch.from_numpy(users)
        own, share = self.users[rows], len(users) / self.n_users
        # Missing entries: Σ_u m_u p_uᵀ G p_u with G = Σ_v b_v x_v x_vᵀ, the same as Σ_v b_v x_vᵀ S x_v.
        gram = weighted_gram(scaled, missing[Side.ITEMS], self.dtype)
        weighed = own * missing[Side.USERS][rows][:, None]
        spread = weighted_gram(own, missing[Side.USERS][rows], self.dtype)
        own_penalty, item_penalty = (
            l2[Side.USERS][rows][:, None] * own,
            share * l2[Side.ITEMS][:, None] * self.items,
        )
        loss += float((gram * spread).sum() + (own_penalty * own).sum() + (item_penalty * self.items).sum())
        table = torch.zeros_like(self.users)
        table[rows] = torch.from_numpy(own_slopes) + 2 * (weighed @ gram + own_penalty)
        of_scaled = torch.from_numpy(scaled_slopes).addmm_(
            scaled * missing[Side.ITEMS][:, None], spread, alpha=2
        )
        gradients = {Side.USERS.value: table, Side.ITEMS.value: self._weighed(of_scaled) + 2 * item_penalty}
        return loss, gradients | self._shared_gradients((of_scaled * self.items).sum(0))

    def _shared_gradients(self, of_h: Tensor) -> dict[str, Tensor]:
        """The gradients of parameters that belong to no row, from that in h."""
        del of_h
        return {}

    def active_dimensions(self) -> Tensor:
        """The dimensions in which the items, and what they give to scores, are more than rounding errors.

        An exact pass leaves zeros in the others.
        """
        scaled = self._weighed(self.items).abs().amax(0)
        given = scaled * self.users.abs().amax(0)
        eps = torch.finfo(self.dtype).eps
        lost = (scaled <= eps * scaled.max()) & (given <= eps * given.max())
        if lost.all() or not given.isfinite().all():
            lost = torch.zeros_like(lost)
        return (~lost).nonzero().flatten()

    def restrict(self, dimensions: Tensor) -> Self:
        # Over fewer dimensions h is normalised to a norm c times as large; p and q smaller by √c score the same, and
        # a penalty c times as large makes them cost the same.
        growth = self._growth_of_h(dimensions)
        tables = {side.value: self.table(side)[:, dimensions] / growth**0.5 for side in self.sides}
        shared = {name: value[dimensions] for name, value in self.parameters().items() if name not in tables}
        small = self.with_parameters(tables | shared)
        return replace(small, objective=replace(self.objective, l2=self.objective.l2 * growth))

    def with_dimensions(self, dimensions: Tensor, model: Self) -> Self:
        growth = self._growth_of_h(dimensions)
        tables = {}
        for side in self.sides:
            table = torch.zeros_like(self.table(side))
            table[:, dimensions] = model.table(side) * growth**0.5
            tables[side.value] = table
        return self.with_parameters(tables | self._shared_with(dimensions, model.h / growth))

    def _growth_of_h(self, dimensions: Tensor) -> float:
        """By how much h grows when the model is cut to these dimensions."""
        del dimensions
        return 1.0

    def _shared_with(self, dimensions: Tensor, h: Tensor) -> dict[str, Tensor]:
        """The parameters that belong to no row, with this h in these dimensions."""
        del dimensions, h
        return {}

    def tensors(self) -> dict[str, Tensor]:
        return {side.value: self.table(side) for side in self.sides}

    def settings(self) -> dict[str, Any]:
        return {"dim": self.dim, **self.objective.to_dict()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any]) -> Self:
        named, objective = cls._parameters_of(tensors), dict(settings)
        dim = objective.pop("dim", None)
        model = cls(objective=Objective(**objective), **named)
        if model.dim != dim:
            raise ModelFileError(
                f"Vectors of {model.dim} numbers came; {dim!r} are wanted by the settings. Take it from a backup."
            )
        return model

    @classmethod
    def _parameters_of(cls, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """The parameters that `tensors` stand for."""
        return named_exactly(cls.kind, tensors, [side.value for side in cls.sides])

    def keep_rows(self, kept: Mapping[Side, NDArray[np.bool_]]) -> Self:
        """As in `Storable`: a zero row scores nothing and costs nothing, so that only the penalty has to be kept.

        A constant of it that followed the number of rows is written out with the number there was (w0 times the rows,
        in full), while one of two digits stays as it is.
        """
        tables = {side.value: self.table(side)[torch.from_numpy(rows)] for side, rows in kept.items()}
        return self.with_fixed_penalties().with_parameters({**self.parameters(), **tables})

    def with_fixed_penalties(self) -> Self:
        objective = replace(
            self.objective,
            c_users=self.objective.penalty_constant(Side.USERS, self.n_items),
            c_items=self.objective.penalty_constant(Side.ITEMS, self.n_users),
        )
        return replace(self, objective=objective)

    def check_belongs(self, data: Interactions) -> None:
        """Raises unless the data has a row for each of the model's users and items."""
        if (data.n_users, data.n_items) != (self.n_users, self.n_items):
            raise MismatchError(
                f"The model has {self.n_users} users and {self.n_items} items, the data {data.n_users} and "
                f"{data.n_items}. Give the data the model was trained on, or what remained of it."
            )


def tables_for(
    data: Interactions, dim: int, rng: np.random.Generator, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Random tables with a row for each user and item of `data`."""
    if dim < 1:
        raise SettingError(f"dim is {dim}; a whole number from 1 up is wanted.")
    return _random_table(data.n_users, dim, rng, dtype), _random_table(data.n_items, dim, rng, dtype)


def named_exactly(kind: str, tensors: Mapping[str, Tensor], wanted: list[str]) -> dict[str, Tensor]:
    """The tensors, if they are those that are wanted."""
    if set(tensors) != set(wanted):
        raise ModelFileError(
            f"A model {kind!r} with tensors {', '.join(sorted(tensors))} came; {', '.join(wanted)} are wanted. Take it "
            f"from a backup; if a newer version of alteraser wrote it, use that."
        )
    return dict(tensors)


def _random_table(rows: int, dim: int, rng: np.random.Generator, dtype: torch.dtype) -> Tensor:
    table = torch.empty((rows, dim), dtype=dtype)
    for begin in range(0, rows, BLOCK_ROWS):
        block = table[begin : begin + BLOCK_ROWS]
        block.copy_(torch.from_numpy(rng.normal(0, INITIAL_SCALE, tuple(block.shape))))
    return table


def _loss_of_positives(
    rows: slice, data: CSR, own: Tensor, fixed: Tensor, missing_row: Tensor, missing_column: Tensor
) -> float:
    """The loss of the entries of some rows, against having them missing."""
    missing = missing_row[rows].numpy(), missing_column.numpy()
    losses = row_losses(sparse_rows(data, rows), own[rows].numpy(), fixed.numpy(), *missing)
    return float(losses.sum())


def _penalty_of_block(rows: slice, table: Tensor, l2: Tensor) -> float:
    return float(l2[rows] @ table[rows].double().square().sum(1))


def _squared_residual(rows: slice, data: CSR, terms: RidgeTerms, own: Tensor) -> float:
    return float(terms.on(data).residual(own, rows).double().square().sum())
