"""The events of a live model, by user: some are taken, new ones come, without a look at anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.changes import Change, RequestCounts
from alteraser.data.csr import PairWeights, ranges
from alteraser.data.event_columns import EventColumn, NewEvents, Rows, StoredIds
from alteraser.data.frames import column_names, interactions
from alteraser.data.growing import Relocation, RowRooms, appended
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.data.read_options import ReadOptions
from alteraser.data.request_parsing import CONDITIONS
from alteraser.data.requests import Match, Missing, Requests, check_missing
from alteraser.data.time_ranks import epoch_units
from alteraser.data.weighing import Weighing
from alteraser.errors import DataError, NothingRemains

Audience = Callable[[Rows], Rows]
"""The rows of the users who have an event with any of some items."""
NOBODY = np.empty(0, np.int64)
NOTHING_ASKED = Match(np.empty(0, np.bool_), RequestCounts(NOBODY, 0, 0, 0))


@dataclass(frozen=True, eq=False, repr=False)
class Applied:
    """What was taken and what was added change of the pairs, and how the requests were met."""

    change: Change
    counts: RequestCounts


class EventStore:
    """The events of `Interactions`, user by user; rows never renumber, and those of new ids are appended.

    What is taken is gone from its columns. How much room it took can be seen until the store is made anew.
    """

    def __init__(self, data: Interactions, audience: Audience | None = None) -> None:
        """Without an `audience` the users of an item are found by a look at all events."""
        events = data.events.sort("user", maintain_order=True)
        self._merge, self._weighing = data.merge, data.weighing
        self._columns = {name: EventColumn(events[name]) for name in events.columns if name != "user"}
        self._counts = np.bincount(events["user"].to_numpy(), minlength=data.n_users)
        starts = np.cumsum(self._counts) - self._counts
        self._rooms = RowRooms(starts, starts + self._counts, len(data))
        self._ids = {side: StoredIds(data.vocabulary(side)) for side in Side}
        self._of_item = np.bincount(events["item"].to_numpy(), minlength=data.n_items)
        self._n_events = len(data)
        self._time_units = epoch_units(data.times)
        self._audience = audience or self._users_by_a_look_at_all

    def __len__(self) -> int:
        return self._n_events

    def __repr__(self) -> str:
        return f"EventStore({len(self)} events)"

    @property
    def n_users(self) -> int:
        return len(self._counts)

    @property
    def n_items(self) -> int:
        return len(self._of_item)

    @property
    def weighing(self) -> Weighing:
        """How the weight of a pair follows from its merged events."""
        return self._weighing

    def read(self, events: Any) -> Interactions:
        """The events of a frame or of dictionaries, one for each event or for each column.

        Weights are in a column of that name, and so are times where the store has any; whatever else is there, ratings
        among it, is passed over.
        """
        frame = _as_frame(events)
        there = column_names(frame)
        options = ReadOptions(
            weight="weight" if "weight" in self._columns or "weight" in there else None,
            time="time" if "time" in self._columns and "time" in there else None,
            any_rating=True,
            merge=self._merge,
            weight_offset=self._weighing.offset,
            weight_slope=self._weighing.slope,
        )
        return interactions(frame, read_options=options)

    def vocabulary(self, side: Side) -> Vocabulary:
        """The ids of a side as they are now."""
        return self._ids[side].vocabulary()

    def take(self, requested: Requests, missing: Missing = "error") -> Applied:
        """Removes the events that are asked for; an id whose last event goes leaves the vocabulary too."""
        return self.apply(requested, None, missing)

    def apply(
        self,
        requested: Requests | None,
        learned: Interactions | None,
        missing: Missing = "error",
        *,
        check: Callable[[Change], None] | None = None,
    ) -> Applied:
        """Removes the events that are asked for, then adds those that are learned; all of it, or it raises.

        What is learned was not there when the requests were met, and stays. An id that has no event after both leaves
        the vocabulary; one that is not known, or was forgotten, gets a new row. `check` may refuse the change, by
        raising, before it is made.
        """
        check_missing(missing)
        new = None if learned is None else NewEvents.of(learned, self._columns, self._ids, self._merge)
        users, places, match, change = (
            (NOBODY, NOBODY, NOTHING_ASKED, Change.none())
            if requested is None
            else self._matched(requested, missing)
        )
        if match.counts.n_forgotten == self._n_events and new is None:
            raise NothingRemains(
                f"The requests cover all {len(self)} interactions; nothing would remain to learn from. "
                f"Delete the model and the data instead."
            )
        if new is not None:
            change = change.followed_by(self._addition(new, without=places[match.mask]))
        if check is not None:
            check(change)
        items = self._remove(users, places, match.mask)
        if new is not None:
            self._add(new)
        gone = users[self._counts[users] == 0], items[self._of_item[items] == 0]
        for side, rows in zip((Side.USERS, Side.ITEMS), gone, strict=True):
            self._ids[side].forget(rows)
        return Applied(change, match.counts)

    # Taking away -----------------------------------------------------------------------------------------------

    def _matched(self, requested: Requests, missing: Missing) -> tuple[Rows, Rows, Match, Change]:
        """The users concerned, the places of their events, which of these are asked for, and what that changes."""
        users = self._users_concerned(requested)
        places = ranges(self._starts[users], self._counts[users])
        by = self._matched_alone if len(requested) == 1 else self._matched_plainly
        plain = by(requested, users, places)
        if plain is not None:
            owners = np.repeat(users, self._counts[users])
            return users, places, plain, self._whole_pairs(owners[plain.mask], places[plain.mask])
        near = self._near(requested, users, places)
        local, of_users, of_items = self._excerpt(users, places, near)
        match = requested.matched(local, missing, units=self._time_units)
        inside = Change.of_deletion(local, local.only(match.mask), local.without(match.mask))
        change = replace(inside, users=of_users[inside.users], items=of_items[inside.items])
        mask = np.zeros(len(places), np.bool_)
        mask[near] = match.mask
        return users, places, Match(mask, match.counts), change

    def _near(self, requested: Requests, users: Rows, places: Rows) -> NDArray[np.bool_]:
        """Which of the events of those concerned a request may reach: all of users that are named, else of items."""
        frame = requested.frame
        whole_items = frame.filter(pl.col("user").is_null())["item"]
        if whole_items.null_count() > 0:  # a period of everyone's
            return np.ones(len(places), np.bool_)
        named = np.isin(users, self._ids[Side.USERS].rows(set(frame["user"].to_list())))
        near: NDArray[np.bool_] = np.repeat(named, self._counts[users])
        asked = self._ids[Side.ITEMS].rows(set(whole_items.to_list()))
        return near | np.isin(self._columns["item"].values[places], asked)

    def _whole_pairs(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> Change:
        """The change when events go each of which is the only one of its pair."""
        weight = self._columns.get("weight")
        merged = np.ones(len(places), np.float32) if weight is None else weight.values[places]
        items = self._columns["item"].values[places].astype(np.int64)
        before = PairWeights.of(self._weighing.weights(merged).astype(np.float32, copy=False))
        return Change(users, items, before, PairWeights.absent(len(places)))

    def _matched_alone(self, requested: Requests, users: Rows, places: Rows) -> Match | None:
        """What `Requests.matched` finds of a single request, without its overhead, in the usual case; None in others.

        The usual case: it names a user or an item that is known, perhaps a period in whole numbers, and something is
        found, of which nobody has two events with an item.
        """
        user, item, start, end = requested.frame.select(CONDITIONS).row(0)
        column = None if item is None else self._ids[Side.ITEMS].find([item])[0]
        if (user is None and column is None) or (item is not None and column is None):
            return None
        held = self._columns["item"].values[places]
        mask: NDArray[np.bool_] = np.ones(len(places), np.bool_) if column is None else held == column
        owner = np.repeat(np.arange(len(users)), self._counts[users])
        of_pair = owner[mask] if user is None else np.sort(held[mask])
        if not mask.any() or (np.diff(of_pair) == 0).any():
            return None
        if start is not None or end is not None:
            times = self._columns.get("time")
            inside = None if times is None else times.between(start, end, places)
            if inside is None or not (mask & inside).any():
                return None
            mask &= inside
        n = int(mask.sum())
        return Match(mask, RequestCounts(np.array([n]), n, n_repeated=0, n_null_times=0))

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
        return Interactions(pl.DataFrame(columns), users, items, self._merge, self._weighing)

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
        return np.unique(np.concatenate([named, self._audience(asked)]))

    def _users_by_a_look_at_all(self, items: Rows) -> Rows:
        owners = np.repeat(np.arange(self.n_users), self._counts)
        held = self._columns["item"].values[ranges(self._starts, self._counts)]
        return np.unique(owners[np.isin(held, items)])

    def _excerpt(self, users: Rows, places: Rows, near: NDArray[np.bool_]) -> tuple[Interactions, Rows, Rows]:
        """The events of some users that are near, on vocabularies of their own, and the rows of these."""
        columns = {name: column.at(places[near]) for name, column in self._columns.items()}
        items, item = np.unique(columns["item"].to_numpy(), return_inverse=True)
        columns["item"] = pl.Series(item.astype(np.int32))
        user = np.repeat(np.arange(len(users), dtype=np.int32), self._counts[users])[near]
        local = Interactions(
            pl.DataFrame({"user": pl.Series(user)} | columns),
            self._ids[Side.USERS].vocabulary(users),
            self._ids[Side.ITEMS].vocabulary(items),
            self._merge,
            self._weighing,
        )
        return local, users, items.astype(np.int64)

    def _remove(self, users: Rows, places: Rows, gone: NDArray[np.bool_]) -> Rows:
        """Removes the events that go; returns the items that lose any."""
        owner = np.repeat(users, self._counts[users])
        items = self._columns["item"].values[places[gone]]
        kept = places[~gone]
        lost = np.bincount(np.searchsorted(users, owner[gone]), minlength=len(users))
        counts = self._counts[users] - lost
        for column in self._columns.values():
            column.move(kept, ranges(self._starts[users], counts), places)
        self._counts[users] = counts
        self._n_events -= int(gone.sum())
        if self._rooms.has_too_much(self._n_events):
            self._relocate(self._rooms.give_back(self._counts))
        np.subtract.at(self._of_item, items, 1)
        return np.unique(items)

    # Adding ----------------------------------------------------------------------------------------------------

    def _addition(self, new: NewEvents, *, without: Rows) -> Change:
        """What the new events change of the pairs they are of, where the events at some places are gone."""
        step = 1 + int(new.items.max())
        known = np.unique(new.users[new.users < self.n_users])
        places = ranges(self._starts[known], self._counts[known])
        owners = np.repeat(known, self._counts[known])
        items = self._columns["item"].values[places].astype(np.int64)
        keys = new.users * step + new.items
        pairs, first = np.unique(keys, return_index=True)
        held = _among(pairs, owners * step + items) & (items < step) & ~np.isin(places, without)
        if len(pairs) == len(keys) and not held.any():  # new pairs, each with one event
            weight = new.columns.get("weight")
            merged = np.ones(len(keys), np.float32) if weight is None else weight.to_numpy()[first]
            after = PairWeights.of(self._weighing.weights(merged).astype(np.float32))
            return Change(pairs // step, pairs % step, PairWeights.absent(len(pairs)), after)
        earlier = {name: column.at(places[held]) for name, column in self._columns.items() if name != "item"}
        at = np.searchsorted(pairs, (owners * step + items)[held])
        both = {name: pl.concat([values, new.columns[name]]) for name, values in earlier.items()}
        before = self._merged(at, earlier, len(pairs))
        after = self._merged(np.concatenate([at, np.searchsorted(pairs, keys)]), both, len(pairs))
        return Change(pairs // step, pairs % step, before, after)

    def _merged(self, pair: Rows, columns: dict[str, pl.Series], n_pairs: int) -> PairWeights:
        """The merged weight of each of so many pairs, `pair` naming that of each event."""
        events = pl.DataFrame({"user": pair, "item": np.zeros_like(pair)} | columns)
        each, one = (Vocabulary(pl.Series(np.arange(n))) for n in (n_pairs, 1))
        rows = np.arange(n_pairs)
        by_pair = Interactions(events, each, one, self._merge, self._weighing).by(Side.USERS)
        return by_pair.weights_of(rows, np.zeros_like(rows), n_columns=1)

    def _add(self, new: NewEvents) -> None:
        for side, ids in new.ids.items():
            self._ids[side].add(ids)
        more = len(self._ids[Side.USERS]) - self.n_users
        if more:
            self._rooms.add_rows(more)
            self._counts = appended(self._counts, np.zeros(more, np.int64))
        if more := len(self._ids[Side.ITEMS]) - self.n_items:
            self._of_item = appended(self._of_item, np.zeros(more, np.int64))
        users, n_new = np.unique(new.users, return_counts=True)
        self._relocate(self._rooms.make_room(users, n_new, self._counts))
        order = np.argsort(new.users, kind="stable")
        places = ranges(self._starts[users] + self._counts[users], n_new)
        for name, values in ({"item": pl.Series(new.items, dtype=pl.Int32)} | new.columns).items():
            self._columns[name].put(places, values.gather(order))
        self._counts[users] += n_new
        self._n_events += len(new.users)
        np.add.at(self._of_item, new.items, 1)

    def _relocate(self, moved: Relocation | None) -> None:
        """Moves events to their new places, if there are any."""
        if moved is not None:
            for column in self._columns.values():
                column.relocate(moved)

    @property
    def _starts(self) -> Rows:
        return self._rooms.starts


def _as_frame(events: Any) -> Any:
    """What has columns as it is; dictionaries as a frame."""
    rows = list(events) if isinstance(events, list | tuple) else None
    if isinstance(events, Mapping) or (rows and all(isinstance(row, Mapping) for row in rows)):
        try:
            return pl.DataFrame(events if rows is None else rows, infer_schema_length=None)
        except (pl.exceptions.PolarsError, TypeError, ValueError):  # its text may name an id
            raise DataError(
                "The dictionaries of events do not fit together; under each key values of one type are wanted, as "
                "many as under the others."
            ) from None
    if not hasattr(events, "columns"):
        raise DataError(
            f"{type(events).__name__} came as events; Interactions, a frame, or a list of dictionaries with user and "
            f"item is wanted. A file is read by read_interactions."
        )
    return events


def _among(ascending: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the numbers are among some that ascend; `np.isin` takes far longer for a few."""
    found: NDArray[np.bool_] = (
        ascending[np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)] == numbers
    )
    return found
