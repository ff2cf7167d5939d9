"""Who asks to forget what: a user, a user's items, an item, a period of these; matched against the events."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.changes import RequestCounts
from alteraser.data.interactions import Interactions
from alteraser.data.request_parsing import (
    CONDITIONS,
    Request,
    asked_id,
    parsed_rows,
    request_frame,
)
from alteraser.data.time_ranks import epoch_units, place_in, time_ranks
from alteraser.errors import NothingRemains, RequestError, SettingError, UnknownInteractions

Missing = Literal["error", "ignore"]
Ids = Sequence[Any] | NDArray[Any] | pl.Series


@dataclass(frozen=True, eq=False, repr=False)
class Match:
    """Which events of the data that requests were matched against they name, and how they were met."""

    mask: NDArray[np.bool_]
    counts: RequestCounts

    def __repr__(self) -> str:
        # The mask would tell who asked, by the place of their events.
        return f"Match({len(self.mask)} events looked at, {self.counts!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Requests:
    """Requests to forget, one row each: `user`, `item`, `start`, `end` (null if not given), `source`, `line`.

    All conditions of a row hold together. A list of items is one request per item, so that the same wish
    counts the same however it was written.
    """

    frame: pl.DataFrame

    @classmethod
    def of(cls, requests: Iterable[Request | Mapping[str, Any]], *, source: str = "requests") -> Self:
        """The requests given as `Request` or as dictionaries with the keys of the JSON-lines format."""
        rows: list[tuple[Any, ...]] = []
        for line, request in enumerate(requests, start=1):
            rows += parsed_rows(request, source, line)
        return cls(request_frame(rows))

    @classmethod
    def pairs(cls, user_ids: Ids, item_ids: Ids) -> Self:
        """One request for each user and the item at the same place."""
        if len(user_ids) != len(item_ids):
            raise RequestError(
                f"{len(user_ids)} users and {len(item_ids)} items came; pairs need as many of one as of the "
                f"other."
            )
        columns = {"user": _id_texts(user_ids), "item": _id_texts(item_ids)}
        nothing = pl.lit(None, dtype=pl.String)
        frame = pl.DataFrame(columns).with_columns(
            start=nothing,
            end=nothing,
            source=pl.lit("pairs"),
            line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
        )
        return cls(frame)

    def __len__(self) -> int:
        return self.frame.height

    def __add__(self, other: Requests) -> Requests:
        return Requests(pl.concat([self.frame, other.frame]))

    def __repr__(self) -> str:
        # A representation ends up in logs and tracebacks, where no id belongs.
        return f"Requests({len(self)})"

    def distinct(self) -> Requests:
        """Each request once, where it was made first."""
        return Requests(self.frame.unique(CONDITIONS, keep="first", maintain_order=True))

    def digest(self, key: bytes) -> str:
        """HMAC-SHA256 of the distinct requests together; order, repetition and source do not change it."""
        rows = self.frame.select(CONDITIONS).unique().sort(CONDITIONS).iter_rows()
        return hmac.digest(key, b"".join(map(_encoded, rows)), hashlib.sha256).hex()

    def digests(self, key: bytes) -> list[str]:
        """HMAC-SHA256 of each request, in their order; its source does not change it."""
        rows = self.frame.select(CONDITIONS).iter_rows()
        return [hmac.digest(key, b"request " + _encoded(row), hashlib.sha256).hex() for row in rows]

    def match(self, full: Interactions, missing: Missing = "error") -> Match:
        """The events of `full` to forget; a request that matches none is an error unless missing="ignore"."""
        match = self.matched(full, missing, units=epoch_units(full.times))
        if len(full) > 0 and match.mask.all():
            raise NothingRemains(
                f"The requests cover all {len(full)} interactions; nothing would remain to learn from. "
                f"Delete the model and the data instead."
            )
        return match

    def matched(self, part: Interactions, missing: Missing = "error", *, units: int | None = None) -> Match:
        """As `match`, where `part` is but a part of the data, so that it may well be covered whole.

        `units` is what `epoch_units` says of the times of the whole.
        """
        check_missing(missing)
        distinct = self.distinct().frame
        mask, n_events, n_null_times = _matched(distinct, part, units)
        counts = RequestCounts(n_events, int(mask.sum()), len(self) - distinct.height, n_null_times)
        if counts.n_missing and missing == "error":
            raise UnknownInteractions(
                f"{counts.n_missing} of {distinct.height} requests match no interaction in the data (the first: "
                f"{place_in(distinct, int(np.argmin(n_events)))}). Correct them, or skip them with "
                f"missing='ignore' (--missing ignore)."
            )
        return Match(mask, counts)


def check_missing(missing: Missing) -> None:
    """Raises unless it is one of the two."""
    if missing not in ("error", "ignore"):
        raise SettingError(f"missing is {missing!r}; it must be 'error' or 'ignore'.")


def _matched(
    distinct: pl.DataFrame, full: Interactions, units: int | None
) -> tuple[NDArray[np.bool_], NDArray[np.int64], int]:
    """The events to forget, how many each request matched, and how many null times periods passed over."""
    user = _rows(distinct["user"], full.user_vocabulary.rows(distinct["user"]))
    item = _rows(distinct["item"], full.item_vocabulary.rows(distinct["item"]))
    ranks, first, last = time_ranks(distinct, full.times, len(full), units)
    mask, passed = np.zeros(len(full), dtype=bool), np.zeros(len(full), dtype=bool)
    n_matched = np.zeros(distinct.height, dtype=np.int64)
    kinds = (
        (("user", "item"), (user >= 0) & (item >= 0)),
        (("user",), (user >= 0) & (item == _ANY)),
        (("item",), (item >= 0) & (user == _ANY)),
        ((), (item == _ANY) & (user == _ANY)),
    )
    for names, chosen in kinds:
        rows = np.flatnonzero(chosen)
        if len(rows) == 0:
            continue
        asked = pl.DataFrame({"user": user[rows], "item": item[rows]}).select(names)
        n_ranks = int(ranks.max(initial=0)) + 2
        ranges = _Ranges.of(asked, full, ranks, n_ranks) if names else _Ranges.of_all(rows, ranks, n_ranks)
        n_matched[rows] = ranges.mark(mask, first[rows], last[rows])
        periods = first[rows] > 0
        ranges.mark(passed, np.zeros(len(rows), np.int64), periods.astype(np.int64))
    return mask, n_matched, int((passed & ~mask).sum())


_ANY = -2  # where a request does not name a user or an item; -1 is one that is not known


def _rows(texts: pl.Series, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(texts.is_null().to_numpy(), _ANY, rows)


@dataclass(frozen=True, eq=False, repr=False)
class _Ranges:
    """The events that any request names, sorted by what names them and then by time.

    What one request matches is then one stretch of them, found by bisection: the cost does not grow with the
    product of requests and events, even if one user asks for a thousand periods.
    """

    events: NDArray[np.int64]
    keys: NDArray[np.int64]
    code_of_request: NDArray[np.int64]
    n_ranks: int

    @classmethod
    def of(cls, asked: pl.DataFrame, full: Interactions, ranks: NDArray[np.int64], n_ranks: int) -> Self:
        names = asked.columns
        codes = (
            asked.unique(maintain_order=True)
            .with_row_index("code")
            .with_columns(pl.col("code").cast(pl.Int64))
        )
        # Few events concern those who ask: a look at a table of who did is quicker than joining all.
        rows, asking = full.events[names[0]].to_numpy(), asked[names[0]].to_numpy()
        asks = np.zeros(1 + max(int(rows.max(initial=0)), int(asking.max())), dtype=bool)
        asks[asking] = True
        near = np.flatnonzero(asks[rows])
        events = (
            full.events.select(pl.col(names))[near]
            .select(pl.col(names).cast(pl.Int64), event=pl.Series(near), rank=pl.Series(ranks[near]))
            .join(codes, on=names, how="inner")
            .select("event", key=pl.col("code") * n_ranks + pl.col("rank"))
            .sort("key")
        )
        code = asked.join(codes, on=names, how="left", maintain_order="left")["code"]
        return cls(events["event"].to_numpy(), events["key"].to_numpy(), code.to_numpy(), n_ranks)

    @classmethod
    def of_all(cls, requests: NDArray[np.int64], ranks: NDArray[np.int64], n_ranks: int) -> Self:
        """All events by time, for requests that name neither users nor items."""
        order = np.argsort(ranks, kind="stable")
        return cls(order, ranks[order], np.zeros(len(requests), np.int64), n_ranks)

    def mark(
        self, mask: NDArray[np.bool_], first: NDArray[np.int64], last: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How many events each request has in its ranks [first, last); they are set in `mask`."""
        start = np.searchsorted(self.keys, self.code_of_request * self.n_ranks + first)
        stop = np.searchsorted(self.keys, self.code_of_request * self.n_ranks + np.maximum(first, last))
        steps = np.zeros(len(self.events) + 1, dtype=np.int64)
        np.add.at(steps, start, 1)
        np.add.at(steps, stop, -1)
        mask[self.events[np.cumsum(steps[:-1]) > 0]] = True
        return (stop - start).astype(np.int64)


def _encoded(conditions: tuple[str | None, ...]) -> bytes:
    """The conditions of a request as bytes from which they could be told apart."""
    texts = (None if text is None else text.encode() for text in conditions)
    return b"".join(b"-" if text is None else b"%d:%s" % (len(text), text) for text in texts)


def _id_texts(ids: Ids) -> pl.Series:
    if (
        isinstance(ids, pl.Series)
        and (ids.dtype.is_integer() or ids.dtype == pl.String)
        and not ids.has_nulls()
    ):
        return ids.cast(pl.String)
    return pl.Series(
        [asked_id(value, "pairs", line) for line, value in enumerate(ids, start=1)], dtype=pl.String
    )
