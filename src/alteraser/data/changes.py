"""`Change`: what requests, or new events, do to the pairs of a data set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alteraser.data.csr import PairWeights
from alteraser.data.interactions import Interactions, Side


@dataclass(frozen=True, eq=False, repr=False)
class RequestCounts:
    """How the requests of a batch were met.

    `n_events` has one number for each distinct request, in the order in which they were made: how many events it
    matched; `n_forgotten` events were matched by any of them. `n_repeated` requests were made before in the batch, and
    `n_null_times` events were passed over by a period because they have no time.
    """

    n_events: NDArray[np.int64]
    n_forgotten: int
    n_repeated: int
    n_null_times: int

    @property
    def n_honoured(self) -> int:
        """How many distinct requests matched anything."""
        return int((self.n_events > 0).sum())

    @property
    def n_missing(self) -> int:
        """How many distinct requests matched nothing."""
        return int((self.n_events == 0).sum())

    def __repr__(self) -> str:
        # How much each request matched might tell who made it.
        return (
            f"RequestCounts({self.n_forgotten} events, {self.n_honoured} honoured, {self.n_repeated} repeated, "
            f"{self.n_missing} missing, {self.n_null_times} null times)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Change:
    """Pairs, as rows, with their merged weight before and after; no pair is named twice.

    A deletion leaves no weight after, or, where a pair keeps some of its events, another one; a new pair has none
    before.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    before: PairWeights
    after: PairWeights

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        # A representation ends up in logs and tracebacks, where no row of a person belongs.
        gone, new = self.before.present & ~self.after.present, self.after.present & ~self.before.present
        return f"Change({len(self)} pairs, {int(gone.sum())} gone, {int(new.sum())} new)"

    def rows(self, side: Side) -> NDArray[np.int64]:
        """The row of each pair on one side."""
        return self.users if side is Side.USERS else self.items

    @property
    def alters_weights(self) -> bool:
        """Whether any pair has another weight after than before; a repeated event need not change any."""
        same = (self.before.present == self.after.present) & (self.before.values == self.after.values)
        return not bool(same.all())

    @classmethod
    def none(cls) -> Change:
        """A change of no pair."""
        nobody, nothing = np.empty(0, np.int64), PairWeights.absent(0)
        return cls(nobody, nobody, nothing, nothing)

    def followed_by(self, later: Change) -> Change:
        """Both as one change; `later` begins where this one ends."""
        if len(self) == 0 or len(later) == 0:
            return later if len(self) == 0 else self
        step = 1 + max(int(self.items.max()), int(later.items.max()))
        keys = [each.users * step + each.items for each in (self, later)]
        pairs, place = np.unique(np.concatenate(keys), return_inverse=True)
        first, second = place[: len(self)], place[len(self) :]
        before, after = PairWeights.absent(len(pairs)), PairWeights.absent(len(pairs))
        for weights, parts in (
            (before, ((second, later.before), (first, self.before))),
            (after, ((first, self.after), (second, later.after))),
        ):
            for at, part in parts:  # the last one counts
                weights.present[at], weights.values[at] = part
        return Change(pairs // step, pairs % step, before, after)

    @classmethod
    def of_deletion(cls, full: Interactions, forget: Interactions, remain: Interactions) -> Change:
        """The change of the pairs of `full` when the events of `forget` are deleted and those of `remain` stay."""
        pairs = forget.by(Side.USERS)
        users, items = pairs.owners(), pairs.columns.astype(np.int64)
        held = full.by(Side.USERS)
        before = held.weights_of(users, items, n_columns=full.n_items)
        if held.n_entries == len(full):  # no pair has two events, so that none keeps any
            return cls(users, items, before, PairWeights.absent(len(users)))
        after = remain.by(Side.USERS).weights_of(users, items, n_columns=full.n_items)
        return cls(users, items, before, after)
