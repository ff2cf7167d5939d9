"""What an event store is made of: columns that can be written to, ids that come and go, events to be added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.columns import as_type
from alteraser.data.growing import Relocation
from alteraser.data.interactions import Interactions, Merge, Side, Vocabulary
from alteraser.errors import DataError

Rows = NDArray[np.int64]


class EventColumn:
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

    def between(self, start: str | None, end: str | None, places: Rows) -> NDArray[np.bool_] | None:
        """Which values lie in a period; None unless these, and both of its ends that are given, are whole numbers."""
        whole = all(text is None or text.lstrip("-").isdecimal() for text in (start, end))
        if not whole or self._nulls is not None or not self._dtype.is_integer():
            return None
        values = self.values[places]
        inside: NDArray[np.bool_] = np.ones(len(places), np.bool_)
        if start is not None:
            inside &= values >= int(start)
        if end is not None:
            inside &= values <= int(end)
        return inside

    def like(self, times: pl.Series | None, n: int, merge: Merge) -> pl.Series:
        """Times as this column has them; nulls where none are given."""
        if times is None:
            if merge == "last":
                raise DataError(
                    "The new events come without times, and the last event of a pair counts (merge='last'); give each "
                    "event its time."
                )
            return pl.Series([None] * n, dtype=self._dtype)
        if times.dtype != self._dtype and times.null_count() < n:
            raise DataError(
                f"The times of the new events are of type {times.dtype}, those of the data of type {self._dtype}; the "
                f"same is wanted. Convert the column."
            )
        return times.cast(self._dtype)

    def relocate(self, moved: Relocation) -> None:
        """Moves events to other places."""
        self.values = moved.of(self.values)
        if self._nulls is not None:
            self._nulls = moved.of(self._nulls)

    def put(self, places: Rows, series: pl.Series) -> None:
        """Writes values, nulls among them, to places that are free."""
        if series.null_count() and self._nulls is None:
            self._nulls = np.zeros(len(self.values), np.bool_)
        if self._nulls is not None:
            self._nulls[places] = series.is_null().to_numpy()
        self.values[places] = series.to_physical().fill_null(0).to_numpy()

    def move(self, origin: NDArray[np.int64], target: NDArray[np.int64], space: NDArray[np.int64]) -> None:
        """The values at `origin` go to `target`; nothing else is left in `space`."""
        for array in (self.values, self._nulls):
            if array is not None:
                kept = array[origin]
                array[space] = 0
                array[target] = kept


class StoredIds:
    """The ids of a side, as text, in row order and the way back; an id that is forgotten is gone from both.

    An id's text is the same however it was written, and no other id has it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._dtype = vocabulary.ids.dtype
        self._ids: list[str | None] = vocabulary.text().to_list()
        self._rows: dict[str | None, int] = {
            text: row for row, text in enumerate(self._ids) if text is not None
        }
        self._whole: Vocabulary | None = vocabulary  # as long as no id goes or comes

    def __len__(self) -> int:
        return len(self._ids)

    def found_or_new(self, ids: pl.Series, side: Side) -> tuple[Rows, list[str]]:
        """The row of each of some distinct ids, and the texts of those that are not known, whose rows come next."""
        typed = as_type(ids, self._dtype)
        if (n_other := typed.null_count()) > 0:
            raise DataError(
                f"{n_other} of {len(ids)} {side.value} of the new events have ids that are not of the type of the "
                f"data's ({self._dtype}). Write them as the data does."
            )
        texts = typed.cast(pl.String).to_list()
        rows = self.find(texts)
        new = [text for text, row in zip(texts, rows, strict=True) if row is None]
        following = iter(range(len(self), len(self) + len(new)))
        return np.array([next(following) if row is None else row for row in rows], dtype=np.int64), new

    def add(self, texts: list[str]) -> None:
        """Appends rows for ids that are not known."""
        for text in texts:
            self._rows[text] = len(self._ids)
            self._ids.append(text)
        if texts:
            self._whole = None

    def find(self, texts: Iterable[str | None]) -> list[int | None]:
        """The row of each id; None for those that are not known."""
        return list(map(self._rows.get, texts))

    def rows(self, texts: Iterable[str | None]) -> NDArray[np.int64]:
        """The rows of the ids that are known."""
        return np.array([row for row in self.find(texts) if row is not None], dtype=np.int64)

    def vocabulary(self, rows: NDArray[np.int64] | None = None) -> Vocabulary:
        if rows is not None:
            return self._of([self._ids[row] for row in rows.tolist()])
        if self._whole is None:
            self._whole = self._of(self._ids)
        return self._whole

    def _of(self, texts: list[str | None]) -> Vocabulary:
        return Vocabulary(pl.Series(texts, dtype=pl.String).cast(self._dtype))

    def forget(self, rows: NDArray[np.int64]) -> None:
        for row in rows.tolist():
            text = self._ids[row]
            if text is not None:
                del self._rows[text]
                self._ids[row] = None
                self._whole = None


def _repeated(learned: Interactions) -> int:
    """How many events came that are like one before them in every column."""
    pairs = learned.users * np.int64(learned.n_items) + learned.items
    if len(np.unique(pairs)) == len(pairs):  # the usual case
        return 0
    return len(learned) - learned.events.n_unique()


@dataclass(frozen=True, eq=False, repr=False)
class NewEvents:
    """Events to add: their rows, their other columns as the store has them, and the ids that are new, by side."""

    users: Rows
    items: Rows
    columns: dict[str, pl.Series]
    ids: dict[Side, list[str]]

    @classmethod
    def of(
        cls, learned: Interactions, columns: dict[str, EventColumn], ids: dict[Side, StoredIds], merge: Merge
    ) -> Self:
        """The events of `learned` on the rows of the store; raises where they do not fit it."""
        n = len(learned)
        if n == 0:
            raise DataError("No events came to be learned; at least one is wanted.")
        if (n_repeated := _repeated(learned)) > 0:
            raise DataError(
                f"{n_repeated} of {n} events came twice, alike in every column; each is wanted once. Leave the "
                f"repetitions out, or merge them into one event with the weight of both."
            )
        weighted, has_weights = "weight" in learned.events.columns, "weight" in columns
        if weighted != has_weights:
            raise DataError(
                f"The new events come {'with' if weighted else 'without'} weights, the data of the model "
                f"{'with' if has_weights else 'without'}; what is learned must weigh as what was trained on. "
                f"{'Give each event a weight.' if has_weights else 'Leave the weight column out.'}"
            )
        found, new = {}, {}
        for side, rows in ((Side.USERS, learned.users), (Side.ITEMS, learned.items)):
            used, place = np.unique(rows, return_inverse=True)
            known, new[side] = ids[side].found_or_new(learned.vocabulary(side).ids.gather(used), side)
            found[side] = known[place]
        own = {
            name: learned.events[name]
            for name in columns
            if name in learned.events.columns and name != "item"
        }
        if "time" in columns:
            own["time"] = columns["time"].like(own.get("time"), n, merge)
        return cls(found[Side.USERS], found[Side.ITEMS], own, new)
