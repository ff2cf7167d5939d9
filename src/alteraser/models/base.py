"""What the other rooms may ask of a model, by capability: a function names the smallest protocol that it uses.

    Recommender          scores items for users
    ├── Similar          knows which items, and which users, are alike
    └── Factored         its loss splits by row once the other side is fixed: passes, ALS, AltEraser
        ├── BatchTrainable   its loss splits by user, with gradients: AdamW
        ├── Quadratic        its rows are ridge regressions: joint Newton, a live model
        └── Storable         can be written to a folder and read again: `registry`, `checkpoint`

A class need not inherit from a protocol; one that does gets what follows from the rest, as `without_empty_rows`. An
ability is asked for with `isinstance(model, Quadratic)`. `alteraser.testing` has a suite for each protocol.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.models.blocks import SumBlocks, sum_here

if TYPE_CHECKING:
    from torch import Tensor

    from alteraser.optim.problem import RowProblem


@runtime_checkable
class Recommender(Protocol):
    """A model that scores items for users; it holds parameters, never interactions."""

    @property
    @abstractmethod
    def n_users(self) -> int: ...

    @property
    @abstractmethod
    def n_items(self) -> int: ...

    @abstractmethod
    def scores(self, users: NDArray[np.int64]) -> Tensor:
        """The scores of all items for some users, [len(users), n_items]."""
        ...

    @abstractmethod
    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> Tensor:
        """The score of each pair."""
        ...

    @abstractmethod
    def check_belongs(self, data: Interactions) -> None:
        """Raises `MismatchError` unless the data has a row for each of the model's users and items."""
        ...


@runtime_checkable
class Similar(Recommender, Protocol):
    """A model that says itself how much alike the rows of a side are."""

    @abstractmethod
    def similarities(self, side: Side, rows: NDArray[np.int64]) -> Tensor:
        """Of some rows to all of their side, [len(rows), n]: from -1 to 1, and 0 where nothing is known."""
        ...


class RowTerms(Protocol):
    """What the row problems of one side are made of besides its interactions, which are placed once and for all.

    It can be pickled.
    """

    @abstractmethod
    def on(self, data: CSR) -> RowProblems: ...


class RowProblems(Protocol):
    """The row problems of one side while all else is fixed, to be taken in blocks."""

    @property
    @abstractmethod
    def terms(self) -> RowTerms: ...

    @abstractmethod
    def block(self, rows: NDArray[np.int64]) -> RowProblem: ...


class RowFactors(Protocol):
    """The factorised matrices A of all rows of a side, A being half a row's Hessian."""

    @property
    @abstractmethod
    def space(self) -> NDArray[Any]:
        """What they take, a row each."""
        ...

    @abstractmethod
    def solve(self, vectors: Tensor) -> Tensor:
        """A⁻¹ of each row times its vector."""
        ...


class QuadraticRows(RowProblems, Protocol):
    """Row problems that are quadratics: in blocks, or all together, halved."""

    @abstractmethod
    def residual(self, own: Tensor) -> Tensor:
        """Half of minus the gradient of L in this side's table, where it is `own`."""
        ...

    @abstractmethod
    def cross(self, own: Tensor, change: Tensor) -> Tensor:
        """Half the change of that gradient as the other side's table moves along `change`."""
        ...

    @abstractmethod
    def factorised(self, space: NDArray[Any] | None = None) -> RowFactors | None:
        """A of all rows, in `space` if given, which then no longer serves whom it served; None if a row has none."""
        ...


@runtime_checkable
class Factored(Recommender, Protocol):
    """A model with a table of vectors on each side, whose loss L splits by row once the other sides are fixed.

    What is a sum over many rows may be made by `sum_blocks`: here, unless an executor brings another way.
    """

    @property
    @abstractmethod
    def sides(self) -> tuple[Side, ...]:
        """In the order in which a pass visits them."""
        ...

    @abstractmethod
    def table(self, side: Side) -> Tensor:
        """The vectors of one side, [n_rows, dim]."""
        ...

    @abstractmethod
    def parameters(self) -> dict[str, Tensor]:
        """Every tensor by name; the table of a side is called `side.value`."""
        ...

    @abstractmethod
    def with_parameters(self, parameters: dict[str, Tensor]) -> Self: ...

    @abstractmethod
    def with_rows(self, side: Side, rows: NDArray[np.int64], vectors: Tensor) -> Self: ...

    @abstractmethod
    def empty_row(self, side: Side) -> Tensor:
        """What a row without interactions becomes, [dim]: the minimum of its problem, whatever the other side is."""
        ...

    @abstractmethod
    def row_problems(
        self, side: Side, data: Interactions, *, sum_blocks: SumBlocks = sum_here
    ) -> RowProblems: ...

    @abstractmethod
    def loss(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> float:
        """L, in double precision."""
        ...

    @abstractmethod
    def fresh(self, rng: np.random.Generator) -> Self:
        """A model of the same settings and size with new random rows."""
        ...

    def solve_shared(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> Self:
        """The model with the parameters that belong to no row (Φ) at their best, or as they were if L would rise.

        Here the model itself: it has none.
        """
        del data, sum_blocks
        return self

    def gradient_norm(self, data: Interactions, *, sum_blocks: SumBlocks = sum_here) -> float:
        """The norm of the gradient of L in all rows, as exact as the tables' own precision."""
        total = 0.0
        for side in self.sides:
            table = self.table(side)
            problem = self.row_problems(side, data, sum_blocks=sum_blocks).block(np.arange(len(table)))
            total += float(problem.expand(table, products=False).gradient.double().square().sum())
        return math.sqrt(total)

    def without_empty_rows(self, data: Interactions) -> Self:
        """The model with the rows that have no interactions at `empty_row`."""
        model = self
        for side in self.sides:
            empty = np.flatnonzero(data.by(side).counts == 0)
            if len(empty):
                model = model.with_rows(side, empty, self.empty_row(side).expand(len(empty), -1))
        return model


@runtime_checkable
class BatchTrainable(Factored, Protocol):
    """A model whose loss splits by user, for gradient descent in batches."""

    @abstractmethod
    def weigh(self, data: Interactions) -> Any:
        """What every batch needs of the data, made once and handed to each: a trainer does not look into it."""
        ...

    @abstractmethod
    def batch_gradients(
        self, users: NDArray[np.int64], data: Interactions, weights: Any
    ) -> tuple[float, dict[str, Tensor]]:
        """A batch's share of L and its gradient in each of `parameters`; over all users the shares sum to L."""
        ...


@runtime_checkable
class Quadratic(Factored, Protocol):
    """A model whose scores are hᵀ(p_u ⊙ q_v) and whose loss is the weighted squares of `objective`:

    L = Σ_{(u,v)∈R} w_uv (1 − ŷ_uv)² + Σ_{(u,v)∉R} m_u m_v ŷ_uv² + Σ_r λ_r ‖y_r‖², with m and λ by `row_weights`.

    A row is then a ridge regression, and the minimum of an empty one is zero: `empty_row` is zero here.
    """

    @property
    @abstractmethod
    def h(self) -> Tensor:
        """What each dimension weighs in a score, [dim]."""
        ...

    @abstractmethod
    def row_problems(
        self, side: Side, data: Interactions, *, sum_blocks: SumBlocks = sum_here
    ) -> QuadraticRows: ...

    @abstractmethod
    def row_weights(
        self, side: Side, counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of rows of a side that hold so many interactions, the weight m in a missing entry and the penalty λ."""
        ...

    def with_fixed_penalties(self) -> Self:
        """The model whose `row_weights` stay what they are when rows are appended; here they always do."""
        return self

    @abstractmethod
    def active_dimensions(self) -> Tensor:
        """The dimensions that take part in scores; regularisation may have emptied the others."""
        ...

    @abstractmethod
    def restrict(self, dimensions: Tensor) -> Self:
        """The model in these dimensions alone."""
        ...

    @abstractmethod
    def with_dimensions(self, dimensions: Tensor, model: Self) -> Self:
        """This model with `model` in these dimensions and nothing in the others."""
        ...


@runtime_checkable
class Storable(Factored, Protocol):
    """A model that can be written to a folder and made again of what stands there; `registry.register` its class."""

    kind: ClassVar[str]
    """The name of the class in a manifest and for the command."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What is written, by name: floating numbers, all of them finite."""
        ...

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All else that makes the model, as plain JSON; never anything of the data but what may stay when it goes."""
        ...

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any]) -> Self:
        """The model of what `tensors` and `settings` gave; raises `ModelError` where they make none."""
        ...

    @abstractmethod
    def keep_rows(self, kept: Mapping[Side, NDArray[np.bool_]]) -> Self:
        """The model without the rows that are not kept, all of them empty: what the others score and cost stays."""
        ...


def lacking(model: object, ability: type, *, wanted_by: str, instead: str) -> SettingError:
    """The error that says which ability a model lacks, who wants it and what to do instead."""
    missing = [name for name in dir(ability) if not (name.startswith("_") or hasattr(model, name))]
    return SettingError(
        f"{wanted_by} needs a model that is {ability.__name__}; {type(model).__name__} is not, as it has no "
        f"{', '.join(missing)}. {instead}"
    )
