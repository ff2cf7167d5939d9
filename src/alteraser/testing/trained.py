"""What a model promises to whoever trains it in batches, or writes it down."""

from __future__ import annotations

import json
from abc import abstractmethod
from functools import partial

import numpy as np
import torch

from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.errors import ModelError
from alteraser.models.base import BatchTrainable, Storable
from alteraser.models.registry import registered
from alteraser.testing.base import (
    promise,
    promise_close,
    promise_refused,
    same_bytes,
    slopes,
    small_data,
)
from alteraser.testing.factored import BY_DIFFERENCES, FactoredContract, loss_with


class BatchTrainableContract(FactoredContract):
    """The promises of `BatchTrainable`."""

    @abstractmethod
    def make(self, data: Interactions) -> BatchTrainable: ...

    def test_the_gradient_of_all_users_is_that_of_the_loss(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        promise(isinstance(model, BatchTrainable), "The model is not `BatchTrainable`")
        loss, found = model.batch_gradients(np.arange(13), data, model.weigh(data))
        promise(
            abs(loss - model.loss(data)) <= 1e-10 * abs(loss),
            "`batch_gradients` of all users has not the loss L",
        )
        parameters = model.parameters()
        promise(
            set(found) == set(parameters),
            f"There are gradients of {set(found)}, parameters {set(parameters)}",
        )
        for name, value in parameters.items():
            wanted = slopes(partial(loss_with, model, data, name), value)
            promise_close(found[name], wanted, BY_DIFFERENCES, f"The gradient in {name!r} is not that of L")

    def test_batches_sum_to_the_whole(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        weights, order = model.weigh(data), np.random.default_rng(0).permutation(13)
        whole_loss, whole = model.batch_gradients(np.arange(13), data, weights)
        parts = [model.batch_gradients(part, data, weights) for part in (order[:1], order[1:6], order[6:])]
        total = sum(loss for loss, _ in parts)
        promise(
            abs(total - whole_loss) <= 1e-10 * abs(whole_loss), "The losses of the batches do not sum to L"
        )
        for name in whole:
            summed = torch.stack([gradients[name] for _, gradients in parts]).sum(0)
            promise_close(
                summed, whole[name], 1e-10, f"The batches' gradients in {name!r} do not sum to the whole"
            )


class StorableContract(FactoredContract):
    """The promises of `Storable`; the class is registered."""

    @abstractmethod
    def make(self, data: Interactions) -> Storable: ...

    def test_what_is_written_makes_the_same_model(self) -> None:
        data = small_data()
        model = self.make(data)
        promise(isinstance(model, Storable), "The model is not `Storable`")
        promise(registered(model.kind) is type(model), f"Another class is registered as {model.kind!r}")
        settings, tensors = json.loads(json.dumps(model.settings())), model.tensors()
        promise(
            settings == model.settings(), "`settings` are not plain JSON: they come back as something else"
        )
        again = type(model).from_tensors({name: value.clone() for name, value in tensors.items()}, settings)
        users = np.arange(model.n_users)
        promise(
            same_bytes(again.scores(users), model.scores(users)),
            "A model made of its tensors has other scores",
        )
        promise(again.loss(data) == model.loss(data), "A model made of its tensors has another loss")
        promise(
            set(again.tensors()) == set(tensors), "A model made of its tensors has tensors of other names"
        )
        for name, value in again.tensors().items():
            promise(same_bytes(value, tensors[name]), f"The tensor {name!r} comes back as another")

    def test_tensors_that_make_no_model_are_refused(self) -> None:
        model = self.make(small_data())
        tensors, settings = model.tensors(), model.settings()
        for name in tensors:
            fewer = {key: value for key, value in tensors.items() if key != name}
            promise_refused(
                ModelError, f"Tensors without {name!r}", type(model).from_tensors, fewer, settings
            )
        more = {**tensors, "surprise": torch.ones(1)}
        promise_refused(ModelError, "Tensors with one too many", type(model).from_tensors, more, settings)

    def test_rows_that_are_not_kept_take_nothing_from_the_others(self) -> None:
        """Data without the last user and item, who have nothing: it scores and costs the same without their rows."""
        data, small = small_data(empty=True), _without_last(small_data(empty=True))
        model = self.double(data).without_empty_rows(data)
        kept = {side: np.arange(len(model.table(side))) < len(model.table(side)) - 1 for side in Side}
        fewer = model.keep_rows(kept)
        users = np.arange(12)
        promise_close(
            fewer.scores(users), model.scores(users)[:, :-1], 1e-12, "Scores change without empty rows"
        )
        promise(
            abs(fewer.loss(small) - model.loss(data)) <= 1e-10 * model.loss(data),
            "L changes without empty rows",
        )


def _without_last(data: Interactions) -> Interactions:
    users, items = (Vocabulary(data.vocabulary(side).ids[:-1]) for side in (Side.USERS, Side.ITEMS))
    return Interactions(data.events, users, items)
