"""`Eraser`: a session that takes requests one after another and makes a model forget at the speed of the request."""

from __future__ import annotations

import math
import time
from typing import Generic

import numpy as np

from alteraser.data.event_store import EventStore
from alteraser.data.interactions import Interactions
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.live.erasure import Cost, Drift, Erasure
from alteraser.sweep.affected import AffectedRows, Quadratic
from alteraser.sweep.sweep import OutOfTime, never
from alteraser.unlearn.base import timer

TOLERANCE = 0.3
CLEAN, MAX_ROUNDS = 0.05, 5  # of the drift, what a clean-up leaves
ROUND = 0.3  # of what there was to gain, what each of its rounds may leave


class Eraser(Generic[Quadratic]):
    """A model and its data in a session, with the gradients of all rows, which follow every request.

    Each request (or batch of them) visits the rows it affects, most affected first, until `tolerance` of the gap is
    left that it opened in the loss, or until `budget_seconds` are over. What is left adds up: where it comes to more
    than `drift_limit` of the loss, all rows are visited, if there is time. No request raises the loss on what remains.
    A model that was not trained to its optimum stays about as far from it as it was (`training_gap` 1), but where only
    going on would keep the loss from rising, as a visit to all rows may do; or the way there counts as drift (0).
    """

    def __init__(
        self,
        model: Quadratic,
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
        self._events = EventStore(data)
        self._rows = AffectedRows(model, data, training_gap=training_gap)
        self._tolerance, self._budget = tolerance, budget_seconds
        self._limit = drift_limit * model.loss(data)

    def __repr__(self) -> str:
        return f"Eraser({self._events!r}, {self._rows.model!r})"

    def forget(self, requested: Requests, *, missing: Missing = "error") -> Erasure[Eraser[Quadratic]]:
        """Forgets what is requested; requests that cannot be met raise and leave all as it was."""
        began, out_of_time = time.perf_counter(), timer(self._budget)
        taken = self._events.take(requested, missing)
        change = taken.change
        visited, steps, converged = 0, 0, True
        if len(change):
            left = np.where(change.after.present, change.after.values, np.float32(-1))
            emptied = self._rows.delete(change.users, change.items, left)
            settled = self._rows.settle(
                np.unique(change.users), tolerance=self._tolerance, emptied=emptied, out_of_time=out_of_time
            )
            visited, steps, converged = settled.rows_visited, len(settled.rises), settled.converged
        drift, cleaned_up = self.drift(), False
        if drift.loss_gap > self._limit and not out_of_time():
            visited, cleaned_up = visited + self._clean_up(out_of_time), True
            drift = self.drift()
        converged = converged and drift.loss_gap <= self._limit
        return Erasure(
            model=self,
            change=change,
            requests=taken.counts,
            cost=Cost(time.perf_counter() - began, steps, 0, visited),
            converged=converged,
            losses=(),
            drift=drift,
            remaining=lambda: self.remain,
            cleaned_up=cleaned_up,
        )

    def drift(self) -> Drift:
        """How far the model is now from where it should be; it costs next to nothing."""
        return Drift(*self._rows.drift())

    def clean_up(self) -> Drift:
        """Visits all rows until a twentieth of the drift is left."""
        self._clean_up(never)
        return self.drift()

    def _clean_up(self, out_of_time: OutOfTime) -> int:
        """The rows visited until both a twentieth of the drift is left and no more than half of its limit."""
        visited, wanted = 0, min(CLEAN * self.drift().loss_gap, self._limit / 2)
        for _ in range(MAX_ROUNDS):
            visited += self._rows.settle_all(tolerance=ROUND, out_of_time=out_of_time).rows_visited
            if self.drift().loss_gap <= wanted or out_of_time():
                break
        return visited

    @property
    def model(self) -> Quadratic:
        """The model as it is now, on tables of its own."""
        return self._rows.model

    @property
    def remain(self) -> Interactions:
        """The data that is left."""
        return self._events.interactions()
