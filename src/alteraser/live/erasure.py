"""`Erasure`: what every way to forget gives back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from alteraser.data.changes import Change, RequestCounts
from alteraser.data.interactions import Interactions

Forgetful = TypeVar("Forgetful")


@dataclass(frozen=True)
class Cost:
    """What forgetting took.

    `seconds` run from the request to the new rows in memory, indexing included; measuring is left out. A step moves
    chosen rows once; the first of them is that of the request's own rows, before the steps that a scope limits. A pass
    is a step that visits every row.
    """

    seconds: float
    steps: int
    passes: int
    rows_visited: int


@dataclass(frozen=True)
class Drift:
    """How far a model is from where it should be: the norm of the gradient that is left, and the optimality gap.

    Both leave out what the original itself was short of its optimum, as far as that is to be kept. The gap is
    estimated, on the safe side: usually it is several times smaller. It is not a number where nothing is known of it,
    as after retraining; nor is the norm after a request to a live model, whose `drift` tells it.
    """

    gradient_norm: float
    loss_gap: float


@dataclass(frozen=True, eq=False, repr=False)
class Erasure(Generic[Forgetful]):
    """What was forgotten, by whom it was asked for, and what became of the model.

    A live model, for which learning is the same thing with new events, gives it back for both; `n_learned` tells them.

    `model` is the one that has forgotten: a new model, or the live model that took the request. `losses` are those on
    the remaining data: of the original, and after each step; a live model does not measure them. `converged` says
    that the stopping rule was met. `cleaned_up` says that what earlier requests left came to too much in a live
    model, and that it was refined, too.
    """

    model: Forgetful
    change: Change
    requests: RequestCounts
    cost: Cost
    converged: bool
    losses: tuple[float, ...]
    drift: Drift
    remaining: Callable[[], Interactions]
    cleaned_up: bool = False
    n_learned: int = 0

    def __repr__(self) -> str:
        met = "converged" if self.converged else "not converged"
        return f"Erasure({self.model!r}, {self.change!r}, {self.requests!r}, {self.cost}, {met})"

    @property
    def loss_before(self) -> float:
        """The loss of the original on the remaining data; not a number where none was measured, as by a live model."""
        return self.losses[0] if self.losses else math.nan

    @property
    def loss_after(self) -> float:
        """The loss of the model on the remaining data, likewise."""
        return self.losses[-1] if self.losses else math.nan

    @property
    def remain(self) -> Interactions:
        """The data that remains; an id that lost its last interaction is a tombstone there.

        Of a live model it is the data that remains now, and is put together when asked for.
        """
        return self.remaining()
