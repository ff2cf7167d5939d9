"""What a model promises to whoever asks for scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError
from alteraser.models.base import Recommender, Similar
from alteraser.testing.base import (
    Contract,
    promise,
    promise_close,
    promise_refused,
    same_bytes,
    small_data,
)
from alteraser.testing.memory import held_data


class RecommenderContract(Contract):
    """The promises of `Recommender`; `make(data)` returns a model for that data."""

    @abstractmethod
    def make(self, data: Interactions) -> Recommender: ...

    def test_has_the_abilities_of_a_recommender(self) -> None:
        promise(isinstance(self.make(small_data()), Recommender), "The model is no `Recommender`")

    def test_has_a_row_for_each_user_and_item(self) -> None:
        data = small_data()
        model = self.make(data)
        found = model.n_users, model.n_items
        promise(found == (13, 11), f"n_users and n_items are {found}; the data has 13 and 11")
        model.check_belongs(data)

    def test_pair_scores_are_those_of_scores(self) -> None:
        model = self.make(small_data())
        users = np.array([4, 0, 12, 4])
        scores = model.scores(users)
        promise(
            tuple(scores.shape) == (4, 11), f"`scores` has shape {tuple(scores.shape)}; (4, 11) is wanted"
        )
        promise(same_bytes(scores[0], scores[3]), "`scores` differs for the same user asked twice")
        promise(not scores.requires_grad, "`scores` carries a graph for autograd")
        items = np.array([3, 10, 0, 3], np.int32)
        pairs = model.pair_scores(users.astype(np.int32), items)
        promise_close(
            pairs, scores[torch.arange(4), torch.tensor(items).long()], 1e-5, "`pair_scores` is not `scores`"
        )

    def test_data_of_another_size_is_refused(self) -> None:
        model = self.make(small_data())
        for size in ((14, 11), (13, 12), (11, 13)):
            what = (
                f"`check_belongs` of a model with 13 users and 11 items and data with {size[0]} and {size[1]}"
            )
            promise_refused(MismatchError, what, model.check_belongs, small_data(*size))

    def test_holds_no_interactions(self) -> None:
        """A deleted interaction must not survive in a model, a cache of it included."""
        data = small_data()
        model = self.make(data)
        self.use(model, data)
        found = held_data(model, data)
        promise(not found, f"The model holds what looks like interactions: {', '.join(found)}")

    def use(self, model: Any, data: Interactions) -> None:
        """Everything that might leave something of the data in the model."""
        model.scores(np.arange(model.n_users))
        model.check_belongs(data)


class SimilarContract(RecommenderContract):
    """The promises of `Similar`."""

    @abstractmethod
    def make(self, data: Interactions) -> Similar: ...

    def test_similarities_are_symmetric_and_greatest_of_a_row_to_itself(self) -> None:
        model = self.make(small_data())
        promise(isinstance(model, Similar), "The model is not `Similar`")
        for side, n in ((Side.USERS, 13), (Side.ITEMS, 11)):
            found = model.similarities(side, np.arange(n))
            promise(
                tuple(found.shape) == (n, n),
                f"`similarities` of {side.value} have shape {tuple(found.shape)}",
            )
            promise_close(found, found.T, 1e-5, f"`similarities` of {side.value} are not symmetric")
            promise((found.abs() <= 1 + 1e-5).all(), f"A similarity of {side.value} is below -1 or above 1")
            itself = found.diagonal() >= found.amax(1) - 1e-5
            promise(itself.all(), f"One of the {side.value} is more similar to another than to itself")
            some = model.similarities(side, np.array([4, 2]))
            promise_close(some, found[[4, 2]], 1e-6, "`similarities` of some rows are others than among all")
