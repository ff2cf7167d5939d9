"""The events of a live model, by user, from which requests take theirs away without a look at anybody else's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.changes import Change, RequestCounts
from alteraser.data.csr import PairWeights, ranges
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.data.requests import Match, Missing, Requests, check_missing
from alteraser.data.time_ranks import epoch_units
from alteraser.errors import NothingRemains


@dataclass(frozen=True, eq=False, repr=False)
class Taken:
    """What the events that were taken change, and how the requests for them were met."""

    change: Change
    counts: RequestCounts


class EventStore:
    """The events of `Interactions`, sorted by user; rows never renumber.

    What is taken is gone from its columns. How much room it took can be seen until the store is made anew.
    """

    def __init__(self, data: Interactions) -> None:
        events = data.events.sort("user", maintain_order=True)
        self._merge = data.merge
        self._columns = {name: _Column(events[name]) for name in events.columns if name != "user"}
        self._counts = np.bincount(events["user"].to_numpy(), minlength=data.n_users)
        self._starts = np.cumsum(self._counts) - self._counts
        self._ids = {side: _Ids(data.vocabulary(side)) for side in Side}
        self._of_item = np.bincount(events["item"].to_numpy(), minlength=data.n_items)
        self._n_events = len(data)
        self._time_units = epoch_units(data.times)

    def __len__(self) -> int:
        return self._n_events

    def __repr__(self) -> str:
        return f"EventStore({len(self)} events)"

    def take(self, requested: Requests, missing: Missing = "error") -> Taken:
        """Removes the events that are asked for; an id whose last event goes leaves the vocabulary too."""
        check_missing(missing)
        users = self._users_concerned(requested)
        places = ranges(self._starts[users], self._counts[users])
        plain = self._matched_plainly(requested, users, places)
        if plain is None:
            local, items = self._excerpt(users, places)
            match = requested.matched(local, missing, units=self._time_units)
            inside = Change.of_deletion(local, local.only(match.mask), local.without(match.mask))
            change = replace(inside, users=users[inside.users], items=items[inside.items])
        else:
            match = plain
            change = self._whole_pairs(np.repeat(users, self._counts[users])[match.mask], places[match.mask])
        if match.counts.n_forgotten == self._n_events:
            raise NothingRemains(
                f"The requests cover all {len(self)} interactions; nothing would remain to learn from. "
                f"Delete the model and the data instead."
            )
        self._remove(users, places, match.mask)
        return Taken(change, match.counts)

    def _whole_pairs(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> Change:
        """The change when events go each of which is the only one of its pair."""
        weight = self._columns.get("weight")
        values = np.ones(len(places), np.float32) if weight is None else weight.values[places]
        items = self._columns["item"].values[places].astype(np.int64)
        before = PairWeights.of(values.astype(np.float32, copy=False))
        return Change(users, items, before, PairWeights.absent(len(places)))

    def _matched_plainly(
        self, requested: Requests, users: NDArray[np.int64], places: NDArray[np.int64]
    ) -> Match | None:
        """What `Requests.matched` finds, without its overhead, in the usual case; None in others.

        The usual case: all name a user and no period, each matches, and nobody has two events with an item.
        """
        frame = requested.frame
        if any(frame[name].null_count() < len(frame) for name in ("start", "end")) or len(places) == 0:
            return None
        items = frame["item"].to_list()
        rows = self._ids[Side.USERS].find(frame["user"].to_list())
        found = zip(items, self._ids[Side.ITEMS].find(items), strict=True)
        columns = [-1 if item is None else column for item, column in found]
        if None in rows or None in columns:
            return None
        # A pair is one number; that of a whole user ends in 0.
        step = len(self._of_item) + 1
        named = np.searchsorted(users, np.array(rows)) * step + np.array(columns) + 1
        wanted, first = np.unique(named, return_index=True)
        whole = _among(wanted, np.arange(len(users)) * step)
        owner = np.repeat(np.arange(len(users)), self._counts[users])
        held = owner * step + self._columns["item"].values[places] + 1
        asked = _among(wanted, held)
        mask: NDArray[np.bool_] = asked | whole[owner]
        if asked.sum() + whole.sum() < len(wanted) or (np.diff(np.sort(held[mask])) == 0).any():
            return None
        in_order = named[np.sort(first)]
        n_events = np.where(in_order % step == 0, self._counts[users[in_order // step]], 1)
        counts = RequestCounts(n_events, int(mask.sum()), len(frame) - len(wanted), n_null_times=0)
        return Match(mask, counts)

    def interactions(self) -> Interactions:
        """The events that are left, as `Interactions` on the same rows."""
        places = ranges(self._starts, self._counts)
        user = np.repeat(np.arange(len(self._counts), dtype=np.int32), self._counts)
        columns = {"user": pl.Series(user)} | {
            name: column.at(places) for name, column in self._columns.items()
        }
        users, items = (self._ids[side].vocabulary() for side in (Side.USERS, Side.ITEMS))
        return Interactions(pl.DataFrame(columns), users, items, self._merge)

    def _users_concerned(self, requested: Requests) -> NDArray[np.int64]:
        """The rows of the users whose events a request may reach."""
        frame = requested.frame
        named = self._ids[Side.USERS].rows(set(frame["user"].to_list()))
        if frame["user"].null_count() == 0:
            return np.sort(named)
        whole_items = set(frame.filter(pl.col("user").is_null())["item"].to_list())
        if None in whole_items:  # a period of everyone's
            return np.flatnonzero(self._counts)
        asked = self._ids[Side.ITEMS].rows(whole_items)
        places = np.flatnonzero(np.isin(self._columns["item"].values, asked))
        users = np.searchsorted(self._starts, places, side="right") - 1
        alive = places < self._starts[users] + self._counts[users]
        return np.unique(np.concatenate([named, users[alive]]))

    def _excerpt(
        self, users: NDArray[np.int64], places: NDArray[np.int64]
    ) -> tuple[Interactions, NDArray[np.int64]]:
        """The events of some users on vocabularies of their own, and the rows of its items."""
        columns = {name: column.at(places) for name, column in self._columns.items()}
        items, item = np.unique(columns["item"].to_numpy(), return_inverse=True)
        columns["item"] = pl.Series(item.astype(np.int32))
        user = np.repeat(np.arange(len(users), dtype=np.int32), self._counts[users])
        events = pl.DataFrame({"user": pl.Series(user)} | columns)
        local = Interactions(
            events,
            self._ids[Side.USERS].vocabulary(users),
            self._ids[Side.ITEMS].vocabulary(items),
            self._merge,
        )
        return local, items.astype(np.int64)

    def _remove(self, users: NDArray[np.int64], places: NDArray[np.int64], gone: NDArray[np.bool_]) -> None:
        owner = np.repeat(users, self._counts[users])
        items = self._columns["item"].values[places[gone]]
        kept = places[~gone]
        lost = np.bincount(np.searchsorted(users, owner[gone]), minlength=len(users))
        counts = self._counts[users] - lost
        for column in self._columns.values():
            column.move(kept, ranges(self._starts[users], counts), places)
        self._counts[users] = counts
        self._n_events -= int(gone.sum())
        np.subtract.at(self._of_item, items, 1)
        self._ids[Side.USERS].forget(users[counts == 0])
        self._ids[Side.ITEMS].forget(items[self._of_item[items] == 0])


class _Column:
    """One column of the events as an array that can be written to; nulls beside it."""

    def __init__(self, series: pl.Series) -> None:
        self._dtype = series.dtype
        physical = series.to_physical()
        self._nulls = series.is_null().to_numpy().copy() if series.null_count() else None
        self.values: NDArray[Any] = (physical.fill_null(0) if self._nulls is not None else physical).to_numpy(
            writable=True
        )

    def at(self, places: NDArray[np.int64]) -> pl.Series:
        series = pl.Series(self.values[places]).cast(self._dtype)
        if self._nulls is None:
            return series
        return pl.select(pl.when(pl.Series(~self._nulls[places])).then(series)).to_series()

    def move(self, origin: NDArray[np.int64], target: NDArray[np.int64], space: NDArray[np.int64]) -> None:
        """The values at `origin` go to `target`; nothing else is left in `space`."""
        for array in (self.values, self._nulls):
            if array is not None:
                kept = array[origin]
                array[space] = 0
                array[target] = kept


class _Ids:
    """The ids of a side, as text, in row order and the way back; an id that is forgotten is gone from both.

    An id's text is the same however it was written, and no other id has it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._dtype = vocabulary.ids.dtype
        self._ids: list[str | None] = vocabulary.text().to_list()
        self._rows: dict[str | None, int] = {
            text: row for row, text in enumerate(self._ids) if text is not None
        }

    def find(self, texts: Iterable[str | None]) -> list[int | None]:
        """The row of each id; None for those that are not known."""
        return list(map(self._rows.get, texts))

    def rows(self, texts: Iterable[str | None]) -> NDArray[np.int64]:
        """The rows of the ids that are known."""
        return np.array([row for row in self.find(texts) if row is not None], dtype=np.int64)

    def vocabulary(self, rows: NDArray[np.int64] | None = None) -> Vocabulary:
        ids = self._ids if rows is None else [self._ids[row] for row in rows.tolist()]
        return Vocabulary(pl.Series(ids, dtype=pl.String).cast(self._dtype))

    def forget(self, rows: NDArray[np.int64]) -> None:
        for row in rows.tolist():
            text = self._ids[row]
            if text is not None:
                del self._rows[text]
                self._ids[row] = None


def _among(ascending: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the numbers are among some that ascend; `np.isin` takes far longer for a few."""
    found: NDArray[np.bool_] = (
        ascending[np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)] == numbers
    )
    return found
