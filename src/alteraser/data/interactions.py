"""`Interactions`: who did what, as immutable event columns; merged to compressed rows when a model asks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from alteraser.errors import DataError, MismatchError, SettingError

Merge = Literal["max", "sum", "last"]
MERGES: tuple[Merge, ...] = ("max", "sum", "last")


class Side(Enum):
    """The two sides of the matrix; each is solved while the other is held fixed."""

    USERS = "users"
    ITEMS = "items"

    @property
    def other(self) -> Side:
        return Side.ITEMS if self is Side.USERS else Side.USERS


@dataclass(frozen=True, eq=False)
class CSR:
    """Merged interactions row by row: row r holds `columns[starts[r]:starts[r + 1]]`, ascending, and their weights."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]
    n_columns: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def n_entries(self) -> int:
        return len(self.columns)

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    @property
    def occupied(self) -> NDArray[np.int64]:
        """The rows that hold anything."""
        return np.flatnonzero(self.counts)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The caller's ids in row order; null where a whole id was forgotten, so that rows never renumber."""

    ids: pl.Series

    @classmethod
    def of(cls, ids: pl.Series) -> Self:
        """The distinct ids in ascending order, whatever the order of the events."""
        return cls(ids.unique().sort())

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_forgotten(self) -> int:
        return self.ids.null_count()

    def rows(self, ids: pl.Series) -> NDArray[np.int64]:
        """The row of each id, -1 where it is not known; ids are compared as the vocabulary's own type."""
        asked = ids.cast(self.ids.dtype, strict=False).alias("id").to_frame()
        table = self.ids.alias("id").to_frame().with_row_index("row")
        found = asked.join(table, on="id", how="left", maintain_order="left")["row"]
        return found.cast(pl.Int64).fill_null(-1).to_numpy()

    def without(self, rows: NDArray[np.int64]) -> Vocabulary:
        """The same rows, those named turned into tombstones."""
        keep = np.ones(len(self), dtype=bool)
        keep[rows] = False
        return Vocabulary(self.ids.to_frame("id").select(pl.when(pl.Series(keep)).then("id").alias("id"))["id"])

    def text(self) -> pl.Series:
        return self.ids.cast(pl.String)


@dataclass(frozen=True, eq=False)
class Interactions:
    """Events as columns `user`, `item` (row numbers) and, where known, `weight` and `time`.

    Events stay as they came, so that a period can be deleted alone; `by` merges repeated pairs (by `merge`).
    """

    events: pl.DataFrame
    user_vocabulary: Vocabulary
    item_vocabulary: Vocabulary
    merge: Merge = "max"

    def __post_init__(self) -> None:
        if self.merge not in MERGES:
            raise SettingError(f"merge is {self.merge!r}; it must be one of {', '.join(MERGES)}.")
        if self.merge == "last" and "time" not in self.events.columns:
            raise SettingError("merge='last' needs a time column to know which event is the last; name one with time=.")

    @classmethod
    def from_columns(
        cls,
        user_ids: pl.Series,
        item_ids: pl.Series,
        weights: pl.Series | None = None,
        times: pl.Series | None = None,
        *,
        merge: Merge = "max",
    ) -> Self:
        """Interactions with a vocabulary of their own; ids of any type, checked: no nulls, weights finite and ≥ 0."""
        if len(user_ids) == 0:
            raise DataError("The data holds no interactions; at least one row is wanted.")
        user_ids, item_ids = _checked_ids(user_ids, "user"), _checked_ids(item_ids, "item")
        user_vocabulary, item_vocabulary = Vocabulary.of(user_ids), Vocabulary.of(item_ids)
        columns = {
            "user": pl.Series(user_vocabulary.rows(user_ids), dtype=pl.Int32),
            "item": pl.Series(item_vocabulary.rows(item_ids), dtype=pl.Int32),
        }
        if weights is not None:
            columns["weight"] = _checked_weights(weights)
        if times is not None:
            columns["time"] = checked_times(times)
        return cls(pl.DataFrame(columns), user_vocabulary, item_vocabulary, merge)

    def __len__(self) -> int:
        return self.events.height

    @property
    def users(self) -> NDArray[np.int32]:
        return self.events["user"].to_numpy()

    @property
    def items(self) -> NDArray[np.int32]:
        return self.events["item"].to_numpy()

    @property
    def n_users(self) -> int:
        return len(self.user_vocabulary)

    @property
    def n_items(self) -> int:
        return len(self.item_vocabulary)

    @property
    def times(self) -> pl.Series | None:
        return self.events["time"] if "time" in self.events.columns else None

    def vocabulary(self, side: Side) -> Vocabulary:
        return self.user_vocabulary if side is Side.USERS else self.item_vocabulary

    def by(self, side: Side) -> CSR:
        """The merged interactions row by row of one side; built once."""
        return self._by_user if side is Side.USERS else self._by_item

    @cached_property
    def _by_user(self) -> CSR:
        return _compressed(self._matrix)

    @cached_property
    def _by_item(self) -> CSR:
        return _compressed(self._matrix.T.tocsr())

    @cached_property
    def _matrix(self) -> Any:
        shape = (self.n_users, self.n_items)
        weighted = "weight" in self.events.columns
        if self.merge == "sum":
            values = self.events["weight"].cast(pl.Float64).to_numpy() if weighted else np.ones(len(self))
            return _sorted_csr(values, self.users, self.items, shape)
        if not weighted:
            matrix = _sorted_csr(np.ones(len(self), np.float32), self.users, self.items, shape)
            matrix.data[:] = 1
            return matrix
        # Sorted so that the event to keep comes last within its pair; a null time counts as the oldest.
        key = "weight" if self.merge == "max" else "time"
        kept = self.events.sort(key, maintain_order=True).unique(["user", "item"], keep="last", maintain_order=True)
        return _sorted_csr(
            kept["weight"].to_numpy(), kept["user"].to_numpy(), kept["item"].to_numpy(), shape
        )

    def only(self, mask: NDArray[np.bool_]) -> Interactions:
        """The events where `mask` holds, on the same vocabulary."""
        return replace(self, events=self.events.filter(pl.Series(mask)))

    def without(self, mask: NDArray[np.bool_]) -> Interactions:
        """The events where `mask` does not hold, on the same vocabulary."""
        return self.only(~mask)

    def with_tombstones(self, before: Interactions) -> Interactions:
        """The same events; ids that had interactions in `before` and have none here leave the vocabulary."""
        vocabularies = []
        for side in (Side.USERS, Side.ITEMS):
            lost = (before.by(side).counts > 0) & (self.by(side).counts == 0)
            vocabularies.append(self.vocabulary(side).without(np.flatnonzero(lost)))
        return replace(self, user_vocabulary=vocabularies[0], item_vocabulary=vocabularies[1])

    def aligned(self, user_vocabulary: Vocabulary, item_vocabulary: Vocabulary) -> Interactions:
        """The same events on other vocabularies, as those of a model that was read from its files."""
        rows: dict[str, pl.Series] = {}
        for name, own, wanted in (
            ("user", self.user_vocabulary, user_vocabulary),
            ("item", self.item_vocabulary, item_vocabulary),
        ):
            row = wanted.rows(own.ids)
            used = np.unique(self.events[name].to_numpy())
            if (unknown := int((row[used] < 0).sum())) > 0:
                raise MismatchError(
                    f"{unknown} of {len(used)} {name}s in the data are not in the model. Give the data the model was "
                    f"trained on (or what remained of it), or train a model on this data."
                )
            rows[name] = pl.Series(row[self.events[name].to_numpy()], dtype=pl.Int32)
        return replace(
            self,
            events=self.events.with_columns(**rows),
            user_vocabulary=user_vocabulary,
            item_vocabulary=item_vocabulary,
        )

    def to_frame(self) -> pl.DataFrame:
        """The events with the caller's own ids: columns `user_id`, `item_id` and, where known, `weight`, `time`."""
        frame = pl.DataFrame(
            {
                "user_id": self.user_vocabulary.ids.gather(self.events["user"]),
                "item_id": self.item_vocabulary.ids.gather(self.events["item"]),
            }
        )
        return frame.hstack(self.events.drop("user", "item"))

    def digest(self) -> str:
        """SHA-256 of the merged matrix and its ids; the same for the same data in any order, file type or vocabulary."""
        matrix = self.by(Side.USERS)
        user = np.repeat(np.arange(len(matrix), dtype=np.int64), matrix.counts)
        digest = hashlib.sha256()
        ranks = []
        for vocabulary, rows in ((self.user_vocabulary, user), (self.item_vocabulary, matrix.columns)):
            used = np.unique(rows)
            ids = pl.DataFrame({"row": used, "id": vocabulary.text().gather(used)}).sort("id")
            digest.update(f"{len(used)}\n".encode())
            for text in ids["id"].to_list():
                encoded = text.encode()
                digest.update(b"%d:%s" % (len(encoded), encoded))
            rank = np.empty(len(vocabulary), dtype="<i8")
            rank[ids["row"].to_numpy()] = np.arange(len(used))
            ranks.append(rank[rows])
        order = np.lexsort((ranks[1], ranks[0]))
        for column in (ranks[0], ranks[1], matrix.weights.astype("<f4")):
            digest.update(column[order].tobytes())
        return digest.hexdigest()


def _sorted_csr(values: NDArray[Any], users: NDArray[Any], items: NDArray[Any], shape: tuple[int, int]) -> Any:
    matrix = sp.csr_array((values, (users, items)), shape=shape)  # sums repeated pairs
    matrix.sort_indices()
    return matrix


def _compressed(matrix: Any) -> CSR:
    return CSR(
        starts=matrix.indptr.astype(np.int64, copy=False),
        columns=matrix.indices.astype(np.int32, copy=False),
        weights=matrix.data.astype(np.float32, copy=False),
        n_columns=matrix.shape[1],
    )


def _checked_ids(ids: pl.Series, what: str) -> pl.Series:
    if ids.dtype.is_float():
        ids = ids.fill_nan(None)
        whole = ids.cast(pl.Int64, strict=False)
        ids = whole if (whole.cast(pl.Float64) == ids.cast(pl.Float64)).all() else ids.cast(pl.String)
    if ids.dtype == pl.Object:
        ids = pl.Series([None if value is None or value != value else str(value) for value in ids], dtype=pl.String)
    if (nulls := ids.null_count()) > 0:
        first = int(ids.is_null().arg_true()[0])
        raise DataError(
            f"{nulls} of {len(ids)} {what} ids are null or NaN (the first in data row {first + 1}); every interaction "
            f"needs a {what}. Drop those rows or give them an id."
        )
    if ids.dtype == pl.UInt64 and int(ids.max()) >= 2**63:  # type: ignore[arg-type]
        return ids
    return ids.cast(pl.Int64) if ids.dtype.is_integer() else ids.cast(pl.String)


def _checked_weights(weights: pl.Series) -> pl.Series:
    if not (weights.dtype.is_numeric() or weights.dtype == pl.Boolean):
        raise DataError(f"The weights are of type {weights.dtype}; numbers are wanted.")
    numbers = weights.cast(pl.Float64)
    bad = ~(numbers.is_finite() & (numbers >= 0) & (numbers <= float(np.finfo(np.float32).max))).fill_null(value=False)
    if (n_bad := int(bad.sum())) > 0:
        raise DataError(
            f"{n_bad} of {len(weights)} weights are negative, infinite or missing (the first in data row "
            f"{int(bad.arg_true()[0]) + 1}); a weight must be a number from 0 up. Correct them, or leave the weight out."
        )
    return numbers.cast(pl.Float32)


def checked_times(times: pl.Series) -> pl.Series:
    """Times as whole numbers, floats or UTC date-times; null where unknown."""
    if times.dtype == pl.String:
        times = times.str.to_datetime(time_unit="us", time_zone="UTC", strict=True)
    if isinstance(times.dtype, pl.Datetime):
        if times.dtype.time_zone is not None:
            times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return times.cast(pl.Datetime("us"))
    if times.dtype == pl.Date:
        return times.cast(pl.Datetime("us"))
    if times.dtype.is_integer():
        return times.cast(pl.Int64)
    if times.dtype.is_float():
        return times.fill_nan(None).cast(pl.Float64)
    if times.dtype == pl.Null:
        return times.cast(pl.Int64)
    raise DataError(f"The times are of type {times.dtype}; numbers, dates or date-times are wanted.")
