"""Requests that match nothing any more: met before, as by a retry, or never to be met, as a typing error."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.columns import as_type
from alteraser.data.interactions import Vocabulary
from alteraser.data.requests import Requests
from alteraser.data.time_ranks import place_in
from alteraser.errors import UnknownInteractions


class Known(IntEnum):
    """What a vocabulary tells of an id: it is there, it never was, or it was forgotten, perhaps or for certain."""

    THERE = 0
    NEVER = 1
    PERHAPS_FORGOTTEN = 2
    FORGOTTEN = 3


@dataclass(frozen=True, eq=False, repr=False)
class MetBefore:
    """Which distinct requests, if they match nothing, were met already, and which perhaps; in their order."""

    certain: NDArray[np.bool_]
    perhaps: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"MetBefore({int(self.certain.sum())} certainly, {int(self.perhaps.sum())} perhaps)"

    def repeats(self, n_events: NDArray[np.int64], last: int) -> bool:
        """Whether these look like the last batch, of so many requests, again: as many, and nothing is left of any."""
        return len(n_events) == last and bool(((n_events == 0) & (self.certain | self.perhaps)).all())

    def check(self, requests: Requests, n_events: NDArray[np.int64]) -> None:
        """Raise unless all requests that match no event were certainly met before."""
        wrong = (n_events == 0) & ~self.certain
        if not wrong.any():
            return
        n_met, n_perhaps = int((self.certain & (n_events == 0)).sum()), int((self.perhaps & wrong).sum())
        distinct = requests.distinct().frame
        said = (
            f"{int(wrong.sum())} of {len(distinct)} requests match no interaction in the data (the first: "
            f"{place_in(distinct, int(np.argmax(wrong)))})."
        )
        if n_met:
            said += " 1 other was met before." if n_met == 1 else f" {n_met} others were met before."
        if n_perhaps:
            said += (
                f" {n_perhaps} of these may have been met before, or may never have matched anything: that cannot be "
                f"told apart without the key that was used then. Give key= (--key-file) when forgetting, and again "
                f"in a retry."
            )
        raise UnknownInteractions(
            f"{said} Correct them, or skip them with missing='ignore' (--missing ignore)."
        )


def find_met_before(
    requests: Requests,
    users: Vocabulary,
    items: Vocabulary,
    *,
    has_history: bool,
    by_key: NDArray[np.bool_] | None,
) -> MetBefore:
    """What the rows of forgotten ids tell of distinct requests and, if given, their digests under a key.

    Ids are in order, and a forgotten one leaves an empty row: an id that would not come to lie at such a row was never
    known. Where ids are whole numbers and as many are missing between two neighbours as there are empty rows, each of
    them was forgotten. Of ids that are there, a pair or a period may have been met before if anything was.
    """
    frame = requests.frame
    of_user, of_item = _tell(users, frame["user"]), _tell(items, frame["item"])
    never = (of_user == Known.NEVER) | (of_item == Known.NEVER)
    most = np.maximum(of_user, of_item)
    certain = ~never & (most == Known.FORGOTTEN)
    if by_key is not None:
        certain |= by_key
    possible = (most == Known.PERHAPS_FORGOTTEN) | ((most == Known.THERE) & has_history)
    return MetBefore(certain, ~never & ~certain & possible)


def _tell(vocabulary: Vocabulary, asked: pl.Series) -> NDArray[np.int64]:
    """What the vocabulary tells of each id; of a null, which asks for no id, that it is there."""
    told = np.full(len(asked), int(Known.THERE))
    unknown = np.flatnonzero(asked.is_not_null().to_numpy() & (vocabulary.rows(asked) < 0))
    if len(unknown) == 0:
        return told
    tell = _teller(vocabulary)
    for row, value in zip(
        unknown.tolist(), as_type(asked[unknown], vocabulary.ids.dtype).to_list(), strict=True
    ):
        told[row] = Known.NEVER if value is None else tell(value)
    return told


def _teller(vocabulary: Vocabulary) -> Callable[[Any], Known]:
    """Tells of ids of the vocabulary's own type that are not there."""
    rows = vocabulary.ids.is_not_null().arg_true().to_numpy()
    ids = vocabulary.ids.drop_nulls()
    if vocabulary.n_forgotten == 0:
        return lambda _: Known.NEVER
    if not ids.is_sorted():  # as in a model that has learned new ids: any empty row may be that of any id
        return lambda _: Known.PERHAPS_FORGOTTEN
    ascending, whole = ids.to_list(), ids.dtype.is_integer()

    def tell(value: Any) -> Known:
        place = bisect_left(ascending, value)
        before = int(rows[place - 1]) if place > 0 else -1
        after = int(rows[place]) if place < len(rows) else len(vocabulary)
        n_empty = after - before - 1
        if n_empty == 0:
            return Known.NEVER
        inside = whole and 0 < place < len(rows)
        if inside and ascending[place] - ascending[place - 1] - 1 == n_empty:
            return Known.FORGOTTEN
        return Known.PERHAPS_FORGOTTEN

    return tell
