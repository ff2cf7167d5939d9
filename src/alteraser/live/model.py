"""`LiveModel`: a model that follows its data, request by request."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.columns import checked_weights
from alteraser.data.csr import CSR
from alteraser.data.event_store import EventStore
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.data.request_parsing import Request
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.live.erasure import Cost, Drift, Erasure
from alteraser.live.refine import SAFE, Refined, Refiner
from alteraser.live.scopes import AutoRows
from alteraser.live.state import LiveState, QuadraticModel
from alteraser.live.time_limit import time_limit
from alteraser.measure.recommender import IdRecommender, Ids
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.sweep.sweep import OutOfTime, never

# The share of the gap that a request may leave. As estimates have to be below a sixth of it, a twentieth is usually
# left; with less, requests of one user on ml-1m visited many rows for little.
TOLERANCE = 0.3
# What a clean-up leaves of the drift, and the rounds that it takes at most, each of which may leave ROUND of what there
# was. Set by hand.
CLEAN, MAX_ROUNDS, ROUND = 0.05, 8, 0.1
# What may be left of the drift, as shares of its limit: by a clean-up that a request waits for, and by one that is
# asked for. Scores change by the root of what is left: a hundredth of the drift is a tenth of that. Set by hand.
IN_PASSING, THOROUGH = 0.5, 1e-4
# After two rounds that leave more than this share of the drift, what is left is not to be had. Set by hand.
POOR_ROUND = 0.7


class LiveModel(Generic[QuadraticModel]):
    """A model and its data together.

    Events are forgotten and learned. Each change (a request, a batch of them, new events) refines the rows it affects
    until `tolerance` of the gap is left that it opened in the loss, or until `budget_seconds` are over. What is left is
    deferred and adds up: where it comes to more than `drift_limit` of the loss, all rows are refined, if there is time.
    Steps that would raise the loss on the data after a change are not made. With a `training_gap` of 1, a model that
    was not trained to its optimum stays about as far from it as it was, unless the loss could not be kept from rising
    otherwise; with 0 its distance from the optimum counts as drift. Time is looked at between steps; the limit is a
    share of the loss at the beginning.
    """

    def __init__(
        self,
        model: QuadraticModel,
        data: Interactions,
        *,
        tolerance: float = TOLERANCE,
        budget_seconds: float = math.inf,
        drift_limit: float = 1e-4,
        training_gap: float = 1.0,
    ) -> None:
        if not (0 < tolerance < 1 and budget_seconds > 0 and drift_limit > 0 and 0 <= training_gap <= 1):
            raise SettingError(
                f"tolerance is {tolerance}, budget_seconds {budget_seconds}, drift_limit {drift_limit}, training_gap "
                f"{training_gap}; wanted: one between 0 and 1, two above 0, one from 0 to 1."
            )
        self._settings = {
            "tolerance": tolerance,
            "budget_seconds": budget_seconds,
            "drift_limit": drift_limit,
            "training_gap": training_gap,
        }
        warm_up_for(model)
        state = LiveState(model, data, training_gap=training_gap)
        self._refiner = Refiner(state, at_rest=training_gap == 1)
        self._events = EventStore(data, state.audience)
        self._scope, self._budget = AutoRows(tolerance), budget_seconds
        self._limit = self._clean_up_at = drift_limit * model.loss(data)
        _ = self._refiner.decrement_of_kept  # looked up once, for all requests

    @property
    def settings(self) -> dict[str, float]:
        """What the model was opened with."""
        return dict(self._settings)

    def __repr__(self) -> str:
        return f"LiveModel({self._events!r}, {self.model!r})"

    # Changing --------------------------------------------------------------------------------------------------

    def forget(
        self,
        requested: Requests | Request | Mapping[str, Any] | Iterable[Request | Mapping[str, Any]],
        *,
        missing: Missing = "error",
    ) -> Erasure[LiveModel[QuadraticModel]]:
        """Forgets what is requested; requests that cannot be met raise and leave all as it was.

        Requests may also come as dictionaries, one or many, with the keys of a file of requests: {"user": "u-42"}.
        """
        return self.apply(forget=requested, missing=missing)

    def learn(self, events: Any) -> Erasure[LiveModel[QuadraticModel]]:
        """Learns new events: of known pairs, of new ones, of new users and items; what does not fit raises.

        `events` are `Interactions`, a frame with the columns that `interactions` looks for, and `weight` and `time`
        where the data has them, or dictionaries of the same; those without a time match no period later. They are
        merged with those that are there as reading all of them would have merged them. A new user's vector is that of
        its events at once; of an id that was forgotten nothing is left, and it is a new one.
        """
        return self.apply(learn=events)

    def apply(
        self,
        *,
        forget: Requests | Request | Mapping[str, Any] | Iterable[Request | Mapping[str, Any]] | None = None,
        learn: Any = None,
        missing: Missing = "error",
    ) -> Erasure[LiveModel[QuadraticModel]]:
        """Forgets and learns in one step: all of it is done, or it raises and nothing has changed.

        Requests are met by the events there were before; what is learned stays, even of a pair or user to forget.
        """
        if forget is None and learn is None:
            raise SettingError("Nothing came to forget or to learn; requests, events or both are wanted.")
        began, out_of_time = time.perf_counter(), time_limit(self._budget)
        if isinstance(forget, Request | Mapping):
            forget = [forget]
        requests = forget if forget is None or isinstance(forget, Requests) else Requests.of(forget)
        events = learn if learn is None or isinstance(learn, Interactions) else self._events.read(learn)
        applied = self._events.apply(requests, events, missing, check=self._refiner.state.check)
        refined = Refined([], 0.0, 0, 0, converged=True)
        if applied.change.alters_weights:
            self._refiner.grow(self._events.n_users, self._events.n_items)
            emptied = self._refiner.apply(applied.change)
            refined = self._refiner.refine(
                applied.change,
                self._scope,
                emptied=emptied,
                # With more left, a large change would always be followed by a clean-up.
                most_left=self._limit / SAFE / 1.5,
                out_of_time=out_of_time,
            )
        rounds, gap = [refined], self._refiner.estimated_gap
        if gap > self._clean_up_at and not out_of_time():
            gap = self._refiner.look().loss_gap
            if gap > self._clean_up_at:
                if not refined.would_train:
                    rounds += self._clean_up(out_of_time, most=IN_PASSING * self._limit)
                    gap = self._refiner.estimated_gap
                # Far from an optimum the drift may not get below its limit but by training; not every change tries it.
                if not out_of_time():
                    self._clean_up_at = max(self._limit, 2 * gap)
        cost = Cost(
            seconds=time.perf_counter() - began,
            steps=sum(len(each.changes) for each in rounds),
            passes=sum(each.n_passes for each in rounds),
            rows_visited=sum(each.rows_visited for each in rounds),
        )
        return Erasure(
            model=self,
            change=applied.change,
            requests=applied.counts,
            n_learned=0 if events is None else len(events),
            cost=cost,
            converged=refined.converged and gap <= self._limit,
            losses=(),
            drift=Drift(math.nan, gap),
            remaining=lambda: self.remain,
            cleaned_up=len(rounds) > 1,
        )

    # Answering -------------------------------------------------------------------------------------------------

    def recommend(
        self,
        user_ids: Ids,
        k: int = 10,
        *,
        include_seen: bool = False,
        allow: Ids | None = None,
        deny: Ids | None = None,
    ) -> pl.DataFrame:
        """The best k items of each user, best first: columns user_id, rank, item_id, score.

        Items that a user has interactions with are left out unless `include_seen`; `allow` and `deny` are as in
        `IdRecommender.recommend`.
        """
        state = self._refiner.state
        seen = None if include_seen else state.seen
        return self._recommender(state.current).recommend(user_ids, k, exclude=seen, allow=allow, deny=deny)

    def recommend_for_items(
        self,
        item_ids: Ids,
        k: int = 10,
        *,
        weights: Sequence[float] | None = None,
        allow: Ids | None = None,
        deny: Ids | None = None,
    ) -> pl.DataFrame:
        """The best k items for somebody who has these items and is not in the model: columns rank, item_id, score.

        Nothing is stored, and no other vector moves. Items that the model does not know are passed over. `weights` are
        those of the interactions, one for each item; without them all weigh 1.
        """
        state = self._refiner.state
        recommender = self._recommender(state.current)
        rows, places, n_items = recommender.known_items(item_ids)
        merged = checked_weights(pl.Series(np.ones(n_items) if weights is None else list(weights))).to_numpy()
        given = self._events.weighing.weights(merged).astype(np.float32)
        if len(given) != n_items:
            raise SettingError(f"{len(given)} weights came for {n_items} items; one for each is wanted.")
        guest = Guest(state.scores_of(state.vector_for(rows, given[places])))
        alone = CSR(np.array([0, len(rows)]), np.sort(rows).astype(np.int32), np.ones(len(rows), np.float32))
        asked = IdRecommender(guest, Vocabulary(pl.Series([0])), recommender.item_vocabulary)
        return asked.recommend(0, k, exclude=lambda _: alone, allow=allow, deny=deny).drop("user_id")

    def _recommender(self, model: QuadraticModel) -> IdRecommender:
        return IdRecommender(model, *(self._events.vocabulary(side) for side in (Side.USERS, Side.ITEMS)))

    # How far it is ---------------------------------------------------------------------------------------------

    def drift(self) -> Drift:
        """How far the model is now from where it should be; all rows are looked at, as in a fifth of a pass."""
        return self._refiner.drift()

    def clean_up(self) -> Drift:
        """Refines all rows until a ten-thousandth of the limit of drift is left, in eight rounds at most.

        Where that cannot be had, as far from an optimum, it ends as soon as two rounds have brought little.
        """
        if self._refiner.estimated_gap > 0:
            self._refiner.look()
            self._clean_up(never, most=THOROUGH * self._limit)
        drift = self.drift()
        self._clean_up_at = max(self._limit, 2 * drift.loss_gap)
        return drift

    def _clean_up(self, out_of_time: OutOfTime, *, most: float) -> list[Refined]:
        """Refines all rows until a twentieth of the drift is left at most, and no more than `most`.

        Nor may the last round have gained more than that: where the loss is flat, rows together still have far more to
        gain than each by itself.
        """
        rounds: list[Refined] = []
        n_poor = 0
        wanted = min(CLEAN * self._refiner.estimated_gap, most)
        for _ in range(MAX_ROUNDS):
            before = self._refiner.estimated_gap
            rounds.append(self._refiner.refine_all(tolerance=ROUND, out_of_time=out_of_time))
            after = self._refiner.look().loss_gap
            gained = -sum(change.pending for change in rounds[-1].changes)
            n_poor += after > POOR_ROUND * before
            if (after <= wanted and gained <= most) or n_poor == 2 or out_of_time():
                break
        return rounds

    @property
    def model(self) -> QuadraticModel:
        """The model as it is now, on tables of its own."""
        return self._refiner.state.model

    @property
    def remain(self) -> Interactions:
        """The data that is left."""
        return self._events.interactions()


class Guest:
    """Somebody who is not in the model, as a model of one user with these scores."""

    def __init__(self, scores: NDArray[Any]) -> None:
        self._scores = scores
        self.n_items = len(scores)

    def scores(self, users: NDArray[np.int64]) -> NDArray[Any]:
        return np.repeat(self._scores[None], len(users), axis=0)

    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> NDArray[Any]:
        del users
        chosen: NDArray[Any] = self._scores[items]
        return chosen
