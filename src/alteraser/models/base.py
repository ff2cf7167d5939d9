"""What the other rooms may ask of a model."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.models.blocks import SumBlocks, sum_here
from alteraser.models.objective import Weights
from alteraser.models.ridge import RidgeSide
from alteraser.optim.problem import RowProblem


class Recommender(Protocol):
    """A model that scores items for users; it holds parameters, never interactions."""

    @property
    def n_users(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    def scores(self, users: NDArray[np.int64]) -> Tensor:
        """The scores of all items for some users, [len(users), n_items]."""
        ...

    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> Tensor:
        """The score of each pair."""
        ...

    def check_belongs(self, data: Interactions) -> None:
        """Raises unless the data has a row for each of the model's users and items."""
        ...


class RowFactors(Protocol):
    """The factorised matrices A of all rows of a side, A being half a row's Hessian."""

    @property
    def space(self) -> NDArray[Any]:
        """What they take, a row each."""
        ...

    def solve(self, vectors: Tensor) -> Tensor:
        """A⁻¹ of each row times its vector."""
        ...


class RowTerms(Protocol):
    """What the row problems of one side are made of besides its interactions, which are placed once and for all.

    It can be pickled.
    """

    def on(self, data: CSR) -> RowProblems: ...


class RowProblems(Protocol):
    """The row problems of one side while all else is fixed, to be taken in blocks; or all together, halved."""

    @property
    def terms(self) -> RowTerms: ...

    def block(self, rows: NDArray[np.int64]) -> RowProblem: ...

    def residual(self, own: Tensor) -> Tensor:
        """Half of minus the gradient of L in this side's table, where it is `own`."""
        ...

    def cross(self, own: Tensor, change: Tensor) -> Tensor:
        """Half the change of that gradient as the other side's table moves along `change`."""
        ...

    def factorised(self, space: NDArray[Any] | None = None) -> RowFactors | None:
        """A of all rows, in `space` if given, which then no longer serves whom it served; None if a row has none."""
        ...


class Factored(Recommender, Protocol):
    """A model whose loss splits by row once the other sides are fixed, and by user for gradient descent.

    What is a sum over many rows is made by `sum_blocks`, here unless an executor brings another.
    """

    @property
    def sides(self) -> tuple[Side, ...]:
        """In the order in which a pass visits them."""
        ...

    def table(self, side: Side) -> Tensor: ...

    def with_rows(self, side: Side, rows: NDArray[np.int64], vectors: Tensor) -> Self: ...

    def row_problems(
        self, side: Side, data: Interactions, *, sum_blocks: SumBlocks = sum_here
    ) -> RowProblems: ...

    def solve_shared(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> Self:
        """The model with the parameters that belong to no row (Φ) at their best, or as they were if L would rise."""
        ...

    def fresh(self, rng: np.random.Generator) -> Self:
        """A model of the same settings and size with new random rows."""
        ...

    def loss(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> float:
        """L, in double precision."""
        ...

    def gradient_norm(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> float:
        """The norm of the gradient of L in all rows, as exact as the tables' own precision."""
        ...

    def active_dimensions(self) -> Tensor:
        """The dimensions that take part in scores; regularisation may have emptied the others."""
        ...

    def restrict(self, dimensions: Tensor) -> Self:
        """The model in these dimensions alone."""
        ...

    def with_dimensions(self, dimensions: Tensor, model: Self) -> Self:
        """This model with `model` in these dimensions and rows of zeros in the others."""
        ...

    def with_openings(
        self,
        full: Interactions,
        remain: Interactions,
        users: NDArray[np.int64],
        *,
        sum_blocks: SumBlocks = sum_here,
    ) -> Self:
        """The model with an empty direction opened for those users who are worth one since a deletion; or itself."""
        ...

    def without_empty_rows(self, data: Interactions) -> Self:
        """The model with the rows that have no interactions at zero, where their minimum is."""
        ...

    def parameters(self) -> dict[str, Tensor]: ...

    def with_parameters(self, parameters: dict[str, Tensor]) -> Self: ...

    def weigh(self, data: Interactions) -> Weights: ...

    def batch_gradients(
        self, users: NDArray[np.int64], data: Interactions, weights: Weights
    ) -> tuple[float, dict[str, Tensor]]:
        """A batch's share of L and its gradient in each of `parameters`; over all users the shares sum to L."""
        ...


@runtime_checkable
class Quadratic(Factored, Protocol):
    """A factored model whose rows are ridge problems, so that residuals and Hessians follow changes in closed form."""

    @property
    def h(self) -> Tensor:
        """The weight of each dimension in a score, [dim]."""
        ...

    def row_problems(
        self, side: Side, data: Interactions, *, sum_blocks: SumBlocks = sum_here
    ) -> RidgeSide: ...

    def row_weights(
        self, side: Side, counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of rows of a side that hold so many interactions, the weight in a missing entry and the penalty."""
        ...
