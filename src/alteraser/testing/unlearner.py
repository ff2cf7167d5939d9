"""What every way to forget promises."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.errors import MismatchError, NothingRemains, UnknownInteractions
from alteraser.live.erasure import Erasure
from alteraser.models.base import Factored, Storable
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.testing.base import Contract, promise, promise_refused, same_bytes, small_data
from alteraser.train.als import ALS
from alteraser.train.fit import fit
from alteraser.unlearn.base import Unlearner

# Everything of u2, one pair each of u4 and u7, and an item from everyone.
REQUESTS = Requests.of(
    [{"user": "u2"}, {"user": "u4", "item": "i4"}, {"user": "u7", "item": "i7"}, {"item": "i5"}]
)
NOBODY = Requests.of([{"user": "nobody"}])


@cache
def full_data() -> Interactions:
    """14 users and 10 items, everybody with interactions."""
    return small_data(14, 10, density=0.5)


@cache
def trained_models() -> Mapping[str, MF | ENMF]:
    """One model of each kind, trained on `full_data` by twenty passes."""
    rng, objective = np.random.default_rng(0), Objective(w0=0.2, l2=0.1)
    tables = [torch.from_numpy(rng.normal(0, 0.5, (n, 3))).float() for n in (14, 10)]
    eta = torch.from_numpy(rng.uniform(0.5, 2.0, 3)).float()
    mf, enmf = MF(tables[0], tables[1], objective), ENMF(tables[0], tables[1], objective, eta)
    trainer, data = ALS(max_passes=20), full_data()
    return {"mf": fit(mf, data, trainer=trainer).model, "enmf": fit(enmf, data, trainer=trainer).model}


def forgotten(full: Interactions) -> NDArray[np.bool_]:
    """Which events of `full_data` are asked for by `REQUESTS`."""
    users, items = full.users, full.items
    asked: NDArray[np.bool_] = (
        (users == 2) | ((users == 4) & (items == 4)) | ((users == 7) & (items == 7)) | (items == 5)
    )
    return asked


class UnlearnerContract(Contract):
    """The promises of `Unlearner`; `make()` returns a new one each time, with the same seed where it draws anything.

    One that begins anew, as retraining does, may end above the original's loss on what remains: it sets
    `lowers_the_loss` to False.
    """

    lowers_the_loss: bool = True

    @abstractmethod
    def make(self) -> Unlearner: ...

    def originals(self) -> Mapping[str, Any]:
        """The models that it is to work with, by name, trained on `full_data()`."""
        return trained_models()

    def forget(self, original: Factored, requests: Requests = REQUESTS, **options: Any) -> Erasure[Any]:
        """What comes of the requests."""
        erasure: Erasure[Any] = self.make().forget(original, full_data(), requests, **options)
        return erasure

    def test_the_remaining_data_is_what_was_not_asked_for(self) -> None:
        full, mask = full_data(), forgotten(full_data())
        wanted = set(zip(full.users[mask].tolist(), full.items[mask].tolist(), strict=True))
        for name, original in self.originals().items():
            erasure = self.forget(original)
            change, remain = erasure.change, erasure.remain
            gone = set(zip(change.users.tolist(), change.items.tolist(), strict=True))
            promise(gone == wanted, f"{name}: the change names other pairs than the requests")
            promise(
                erasure.requests.n_forgotten == mask.sum(), f"{name}: n_forgotten is not the events asked for"
            )
            promise(
                erasure.requests.n_honoured == 4,
                f"{name}: n_honoured is {erasure.requests.n_honoured}, not 4",
            )
            kept = remain.to_frame().rows() == full.without(mask).to_frame().rows()
            promise(kept, f"{name}: what remains is not the data without what was asked for")
            promise(
                (remain.n_users, remain.n_items) == (14, 10), f"{name}: rows of the remaining data renumber"
            )

    def test_a_wholly_forgotten_id_has_an_empty_row_and_is_a_tombstone(self) -> None:
        for name, original in self.originals().items():
            erasure = self.forget(original)
            for side, row in ((Side.USERS, 2), (Side.ITEMS, 5)):
                empty = same_bytes(erasure.model.table(side)[row], original.empty_row(side))
                promise(empty, f"{name}: something is left in the row of a forgotten id of {side.value}")
                ids = erasure.remain.vocabulary(side).ids
                promise(
                    ids[row] is None,
                    f"{name}: a wholly forgotten id is still in the vocabulary of {side.value}",
                )
                promise(
                    ids.null_count() == 1, f"{name}: an id of {side.value} was lost that has interactions"
                )
                promise(
                    full_data().vocabulary(side).ids.null_count() == 0,
                    "The full data's vocabulary was changed",
                )

    def test_the_original_and_the_full_data_are_as_they_were(self) -> None:
        full = full_data()
        digest, events = full.digest(), full.events.clone()
        for name, original in self.originals().items():
            before = {key: value.clone() for key, value in original.parameters().items()}
            unlearned = self.forget(original).model
            for key, value in original.parameters().items():
                promise(same_bytes(value, before[key]), f"{name}: {key} of the original was changed")
                promise(not value.requires_grad, f"{name}: {key} of the original carries a graph")
            promise(
                full.digest() == digest and full.events.equals(events), f"{name}: the full data was changed"
            )
            promise(type(unlearned) is type(original), f"{name}: a {type(unlearned).__name__} came back")
            for key, value in unlearned.parameters().items():
                promise(not value.requires_grad, f"{name}: {key} of the unlearned model carries a graph")
                promise(value.dtype == before[key].dtype, f"{name}: {key} has another precision")
            for side in original.sides:
                tables = (each.table(side).numpy() for each in (unlearned, original))
                promise(
                    not np.shares_memory(*tables),
                    f"{name}: the unlearned model shares rows with the original",
                )
            if isinstance(original, Storable):
                promise(unlearned.settings() == original.settings(), f"{name}: the settings are others")

    def test_the_cost_and_losses_are_what_they_say(self) -> None:
        remain = full_data().without(forgotten(full_data()))
        for name, original in self.originals().items():
            erasure = self.forget(original)
            cost = erasure.cost
            promise(cost.seconds > 0, f"{name}: it took {cost.seconds} seconds")
            promise(
                cost.steps == len(erasure.losses) - 1 >= 1,
                f"{name}: not as many steps as losses after the first",
            )
            promise(cost.rows_visited >= 1, f"{name}: no row was visited")
            promise(
                erasure.loss_before == original.loss(remain), f"{name}: loss_before is not the original's"
            )
            promise(
                erasure.loss_after == erasure.model.loss(remain), f"{name}: loss_after is not the model's"
            )

    def test_the_loss_on_what_remains_does_not_rise(self) -> None:
        if not self.lowers_the_loss:
            return
        for name, original in self.originals().items():
            losses = self.forget(original).losses
            falling = all(after <= before * (1 + 1e-6) for before, after in pairwise(losses))
            promise(falling, f"{name}: a step raises the loss on what remains")
            promise(
                losses[-1] < losses[0], f"{name}: the loss on what remains is no lower than the original's"
            )

    def test_progress_is_told(self) -> None:
        for name, original in self.originals().items():
            heard: list[tuple[int, int, float]] = []

            def hear(done: int, most: int, loss: float, to: list[tuple[int, int, float]] = heard) -> None:
                to.append((done, most, loss))

            self.forget(original, progress=hear)
            promise(
                all(1 <= done <= most for done, most, _ in heard), f"{name}: more is done than there is to do"
            )
            done = [each[0] for each in heard]
            promise(done == sorted(done), f"{name}: what is told as done goes back")

    def test_the_same_call_gives_the_same_model(self) -> None:
        for name, original in self.originals().items():
            first = self.forget(original).model.parameters()
            again = self.forget(original, Requests(REQUESTS.frame.reverse())).model.parameters()
            for key, value in first.items():
                promise(same_bytes(value, again[key]), f"{name}: {key} differs from call to call")

    def test_a_model_of_other_data_is_refused(self) -> None:
        asked = Requests.of([{"user": "u2"}])
        for name, original in self.originals().items():
            for other in (small_data(15, 10), small_data(14, 11)):
                promise_refused(
                    MismatchError, f"{name}, data of another size", self.make().forget, original, other, asked
                )

    def test_a_request_that_matches_nothing_is_an_error_unless_ignored(self) -> None:
        requests = REQUESTS + NOBODY
        remain = full_data().without(forgotten(full_data()))
        for name, original in self.originals().items():
            what = f"{name}: a request that matches nothing"
            promise_refused(UnknownInteractions, what, self.forget, original, requests)
            erasure = self.forget(original, requests, missing="ignore")
            promise(
                erasure.requests.n_missing == 1, f"{name}: n_missing is {erasure.requests.n_missing}, not 1"
            )
            promise(
                erasure.remain.digest() == remain.digest(), f"{name}: the other requests are not honoured"
            )

    def test_when_nothing_matches_the_model_stays_as_it_is(self) -> None:
        for name, original in self.originals().items():
            erasure = self.forget(original, NOBODY, missing="ignore")
            after = erasure.model.parameters()
            for key, value in original.parameters().items():
                promise(same_bytes(after[key], value), f"{name}: {key} changes though nothing is forgotten")
            promise(erasure.remain.digest() == full_data().digest(), f"{name}: the data changes")
            promise(erasure.cost.rows_visited == 0, f"{name}: rows are visited though nothing is forgotten")

    def test_forgetting_everything_is_refused(self) -> None:
        everyone = Requests.of([{"user": f"u{row}"} for row in range(14)])
        for name, original in self.originals().items():
            promise_refused(
                NothingRemains, f"{name}: a request for all there is", self.forget, original, everyone
            )
