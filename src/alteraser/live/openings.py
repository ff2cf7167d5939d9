"""Empty directions, opened for users who have come to be worth one (`models/dimensions.py` has the mathematics)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Side
from alteraser.live.side import LossChange
from alteraser.live.state import SIDES, LiveState
from alteraser.models.dimensions import Opening, Pairs, empty_directions

Floats = NDArray[Any]


class EmptyDirections:
    """The directions in which no row of a state has anything, those first that weigh most in a score."""

    def __init__(self, state: LiveState[Any]) -> None:
        self._state = state
        self.free = empty_directions((each.factors.sum_yy() for each in state.sides.values()), state.h)
        # Of the request at hand: the users who were not worth a direction before it.
        self._not_worth: set[int] = set()

    def note(self, users: NDArray[np.int64]) -> None:
        """Notes which users would gain nothing by a direction of their own before a change: only they may get one."""
        if self.free:
            self._not_worth |= {user for user in np.unique(users).tolist() if self._opening(user) is None}

    def open_for(self, users: NDArray[np.int64]) -> LossChange:
        """Opens a direction for each of the users who is worth one since the change, as long as there are some."""
        change = LossChange()
        for user in users.tolist():
            found = self._opening(user) if user in self._not_worth else None
            if found is not None:
                change += self._open(user, *found)
        return change

    def clear_notes(self) -> None:
        """Forgets what was noted: the request is over."""
        self._not_worth.clear()

    def _opening(self, user: int) -> Opening | None:
        """What a user and the items would be in the first empty direction; None if the loss would not fall."""
        if not self.free:
            return None
        users, items = (self._state.sides[side].factors for side in SIDES)
        scaled, missing, user_l2 = (
            users.h * users.vectors[user],
            float(users.missing[user]),
            float(users.l2[user]),
        )
        columns, weights = self._state.sides[Side.USERS].entries.of_row(user)
        # An upper bound of what a direction could bring: Σ g² over all items (`models/dimensions.py`), without a look
        # at those that are not the user's, with the least λ and the largest m of all.
        scores = np.einsum("rj,j->r", items.vectors[columns], scaled)
        as_missing = np.square(missing * items.missing[columns] * scores).sum()
        total = np.square(weights * (1 - scores)).sum() - as_missing
        vector = users.vectors[user]
        total += missing**2 * float(items.missing.max(initial=0)) * (vector @ items.gram @ vector)
        if self.free[0].weight ** 2 * float(total) <= user_l2 * float(items.l2.min()):
            return None
        pairs = Pairs.of(
            np.einsum("rj,j->r", items.vectors, scaled), missing * items.missing, columns, weights
        )
        return pairs.opening(self.free[0], user_l2=user_l2, item_l2=items.l2)

    def _open(self, user: int, of_user: float, of_items: Floats) -> LossChange:
        """Gives a user and the items that matter to it these values in an empty direction, if the loss then falls."""
        rows = {Side.USERS: np.array([user]), Side.ITEMS: np.flatnonzero(of_items)}
        gains = {Side.USERS: np.array([of_user]), Side.ITEMS: of_items[rows[Side.ITEMS]]}
        before = {side: self._state.sides[side].factors.vectors[rows[side]] for side in SIDES}
        direction, change = self.free[0].vector, LossChange()
        for side in SIDES:
            change += self._state.move(side, rows[side], before[side] + gains[side][:, None] * direction)
        if change.whole < 0:
            del self.free[0]
            return change
        for side in reversed(SIDES):
            self._state.move(side, rows[side], before[side])
        return LossChange()
