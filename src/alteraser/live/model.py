"""`LiveModel`: a model that follows its data, request by request."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Generic

from alteraser.data.event_store import EventStore
from alteraser.data.interactions import Interactions
from alteraser.data.request_parsing import Request
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.live.erasure import Cost, Drift, Erasure
from alteraser.live.refine import Refined, Refiner
from alteraser.live.scopes import AffectedRows
from alteraser.live.state import LiveState, QuadraticModel
from alteraser.live.time_limit import time_limit
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.sweep.sweep import OutOfTime, never

# The share of the gap that a request may leave. As estimates have to be below a sixth of it, a twentieth is usually
# left; with less, requests of one user on ml-1m visited many rows for little.
TOLERANCE = 0.3
# What a clean-up leaves of the drift, and the rounds that it takes at most, each of which may leave ROUND of what there
# was. Set by hand.
CLEAN, MAX_ROUNDS, ROUND = 0.05, 5, 0.3


class LiveModel(Generic[QuadraticModel]):
    """A model and its data together, with the residuals of all rows, which follow every request.

    Each request (or batch of them) refines the rows it affects, most affected first, until `tolerance` of the gap is
    left that it opened in the loss, or until `budget_seconds` are over. What is left is deferred and adds up: where
    it comes to more than `drift_limit` of the loss, all rows are refined, if there is time. No request raises the
    loss on what remains. With a `training_gap` of 1, a model that was not trained to its optimum stays about as far
    from it as it was, unless the loss could not be kept from rising otherwise; with 0 its distance from the optimum
    counts as drift. Time is looked at between steps; the limit is a share of the loss at the beginning.
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
        self._events = EventStore(data)
        self._refiner = Refiner(LiveState(model, data, training_gap=training_gap))
        self._scope, self._budget = AffectedRows(tolerance), budget_seconds
        self._limit = drift_limit * model.loss(data)

    @property
    def settings(self) -> dict[str, float]:
        """What the model was opened with."""
        return dict(self._settings)

    def __repr__(self) -> str:
        return f"LiveModel({self._events!r}, {self.model!r})"

    def forget(
        self, requested: Requests | Iterable[Request | Mapping[str, Any]], *, missing: Missing = "error"
    ) -> Erasure[LiveModel[QuadraticModel]]:
        """Forgets what is requested; requests that cannot be met raise and leave all as it was.

        Requests may also come as dictionaries, with the keys of a file of requests: [{"user": "u-42"}].
        """
        began, out_of_time = time.perf_counter(), time_limit(self._budget)
        requests = requested if isinstance(requested, Requests) else Requests.of(requested)
        taken = self._events.take(requests, missing)
        refined = Refined([], 0.0, 0, 0, converged=True)
        if len(taken.change):
            emptied = self._refiner.apply(taken.change)
            refined = self._refiner.refine(
                taken.change, self._scope, emptied=emptied, out_of_time=out_of_time
            )
        rounds, drift = [refined], self.drift()
        if drift.loss_gap > self._limit and not out_of_time():
            rounds += self._clean_up(out_of_time)
            drift = self.drift()
        cost = Cost(
            seconds=time.perf_counter() - began,
            steps=sum(len(each.changes) for each in rounds),
            passes=sum(each.n_passes for each in rounds),
            rows_visited=sum(each.rows_visited for each in rounds),
        )
        return Erasure(
            model=self,
            change=taken.change,
            requests=taken.counts,
            cost=cost,
            converged=refined.converged and drift.loss_gap <= self._limit,
            losses=(),
            drift=drift,
            remaining=lambda: self.remain,
            cleaned_up=len(rounds) > 1,
        )

    def drift(self) -> Drift:
        """How far the model is now from where it should be; it costs next to nothing."""
        return self._refiner.drift()

    def clean_up(self) -> Drift:
        """Refines all rows, in a few rounds, until a twentieth of the drift is left and no more than half its limit."""
        self._clean_up(never)
        return self.drift()

    def _clean_up(self, out_of_time: OutOfTime) -> list[Refined]:
        """Refines all rows until both a twentieth of the drift is left and no more than half of its limit."""
        rounds: list[Refined] = []
        wanted = min(CLEAN * self.drift().loss_gap, self._limit / 2)
        for _ in range(MAX_ROUNDS):
            rounds.append(self._refiner.refine_all(tolerance=ROUND, out_of_time=out_of_time))
            if self.drift().loss_gap <= wanted or out_of_time():
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
