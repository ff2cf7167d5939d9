"""`Interactions`: who did what, as immutable event columns; merged to compressed rows when a model asks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.columns import as_type, checked_ids, checked_times, checked_weights
from alteraser.data.csr import CSR
from alteraser.data.weighing import PLAIN, Weighing
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


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """The caller's ids in row order; null where a whole id was forgotten, so that rows never renumber."""

    ids: pl.Series

    @classmethod
    def of(cls, ids: pl.Series) -> Self:
        """The distinct ids in ascending order, whatever the order of the events."""
        return cls(ids.unique().sort())

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        # A representation ends up in logs and tracebacks, where no id belongs.
        return f"Vocabulary({len(self)} ids, {self.n_forgotten} forgotten)"

    @property
    def tombstones(self) -> NDArray[np.int64]:
        """The rows whose id was forgotten."""
        return self.ids.is_null().arg_true().to_numpy().astype(np.int64)

    @property
    def n_forgotten(self) -> int:
        return self.ids.null_count()

    def rows(self, ids: pl.Series) -> NDArray[np.int64]:
        """The row of each id, -1 where it is not known; ids are compared as the vocabulary's own type.

        "42" is 42, but neither "042" nor 42.5 is: a deletion must not reach a neighbour.
        """
        asked = as_type(ids, self.ids.dtype).alias("id").to_frame()
        table = self.ids.alias("id").to_frame().with_row_index("row")
        found = asked.join(table, on="id", how="left", maintain_order="left")["row"]
        return found.cast(pl.Int64).fill_null(-1).to_numpy(writable=True)  # torch warns of others

    def without(self, rows: NDArray[np.int64]) -> Vocabulary:
        """The same rows, those named turned into tombstones."""
        keep = np.ones(len(self), dtype=bool)
        keep[rows] = False
        kept = self.ids.to_frame("id").select(pl.when(pl.Series(keep)).then("id").alias("id"))
        return Vocabulary(kept["id"])

    def text(self) -> pl.Series:
        return self.ids.cast(pl.String)


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Events as columns `user`, `item` (row numbers) and, where known, `weight` and `time`.

    Events stay as they came, so that a period can be deleted alone; `by` merges repeated pairs (by `merge`), and
    `weighing` turns the merged values into weights.
    """

    events: pl.DataFrame
    user_vocabulary: Vocabulary
    item_vocabulary: Vocabulary
    merge: Merge = "max"
    weighing: Weighing = PLAIN

    def __post_init__(self) -> None:
        if self.merge not in MERGES:
            raise SettingError(f"merge is {self.merge!r}; it must be one of {', '.join(MERGES)}.")
        if self.merge == "last" and "time" not in self.events.columns:
            raise SettingError(
                "merge='last' needs a time column to know which event is the last; name one with time= "
                "(--time-column)."
            )

    def __repr__(self) -> str:
        return f"Interactions({len(self)} events, {self.n_users} users, {self.n_items} items)"

    @classmethod
    def from_columns(
        cls,
        user_ids: pl.Series,
        item_ids: pl.Series,
        weights: pl.Series | None = None,
        times: pl.Series | None = None,
        *,
        merge: Merge = "max",
        weighing: Weighing = PLAIN,
    ) -> Self:
        """Interactions with a vocabulary of their own, checked: no null ids, weights finite and from 0 up."""
        if len(user_ids) == 0:
            raise DataError("The data holds no interactions; at least one row is wanted.")
        user_ids, item_ids = checked_ids(user_ids, "user"), checked_ids(item_ids, "item")
        user_vocabulary, item_vocabulary = Vocabulary.of(user_ids), Vocabulary.of(item_ids)
        columns = {
            "user": pl.Series(user_vocabulary.rows(user_ids), dtype=pl.Int32),
            "item": pl.Series(item_vocabulary.rows(item_ids), dtype=pl.Int32),
        }
        if weights is not None:
            columns["weight"] = checked_weights(weights)
        if times is not None:
            columns["time"] = checked_times(times)
        return cls(pl.DataFrame(columns), user_vocabulary, item_vocabulary, merge, weighing)

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
        matrix = self._merged
        matrix.data = self.weighing.weights(matrix.data)
        return _within_single_precision(matrix)

    @property
    def _merged(self) -> Any:
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
        kept = self.events.sort(key, maintain_order=True).unique(
            ["user", "item"], keep="last", maintain_order=True
        )
        return _sorted_csr(kept["weight"].to_numpy(), kept["user"].to_numpy(), kept["item"].to_numpy(), shape)

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

    def known_to(self, user_vocabulary: Vocabulary, item_vocabulary: Vocabulary) -> tuple[Interactions, int]:
        """The events whose user and item are in other vocabularies, on their rows; and how many are not."""
        users = user_vocabulary.rows(self.user_vocabulary.ids)[self.users]
        items = item_vocabulary.rows(self.item_vocabulary.ids)[self.items]
        known = (users >= 0) & (items >= 0)
        events = self.events.with_columns(user=pl.Series(users), item=pl.Series(items)).filter(
            pl.Series(known)
        )
        moved = replace(
            self,
            events=events.with_columns(pl.col("user", "item").cast(pl.Int32)),
            user_vocabulary=user_vocabulary,
            item_vocabulary=item_vocabulary,
        )
        return moved, int((~known).sum())

    def aligned(self, user_vocabulary: Vocabulary, item_vocabulary: Vocabulary) -> Interactions:
        """The same events on other vocabularies, as those of a model that was read from its files."""
        moved, n_unknown = self.known_to(user_vocabulary, item_vocabulary)
        if n_unknown:
            raise MismatchError(
                f"{n_unknown} of {len(self)} interactions name users or items that are not in the model. Give the "
                f"data the model was trained on (or what remained of it), or train a model on this data."
            )
        return moved

    def to_frame(self) -> pl.DataFrame:
        """The events with the caller's own ids: `user_id`, `item_id` and, where known, `weight`, `time`."""
        frame = pl.DataFrame(
            {
                "user_id": self.user_vocabulary.ids.gather(self.events["user"]),
                "item_id": self.item_vocabulary.ids.gather(self.events["item"]),
            }
        )
        return frame.hstack(self.events.drop("user", "item"))

    def digest(self) -> str:
        """SHA-256 of the merged matrix and its ids; the same in any order, file type or vocabulary."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        matrix = self.by(Side.USERS)
        user = matrix.owners()
        digest = hashlib.sha256()
        orders = []
        for vocabulary, rows in ((self.user_vocabulary, user), (self.item_vocabulary, matrix.columns)):
            used = np.unique(rows)
            ids = pl.DataFrame({"row": used, "id": vocabulary.text().gather(used)}).sort("id")
            digest.update(f"{len(used)}\n".encode())
            for text in ids["id"].to_list():
                encoded = text.encode()
                digest.update(b"%d:%s" % (len(encoded), encoded))
            orders.append(ids["row"].to_numpy())
        users, items, weights = _by_rank(matrix, orders[0], orders[1])
        for column in (users.astype("<i8"), items.astype("<i8"), weights.astype("<f4")):
            digest.update(column.tobytes())
        return digest.hexdigest()


def _by_rank(
    matrix: CSR, users: NDArray[np.int64], items: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Every entry's user and item by their place in these orders, and its weight, the first user's first."""
    import scipy.sparse as sp

    rank = np.zeros(items.max(initial=0) + 1, np.int32)
    rank[items] = np.arange(len(items))
    entries = (matrix.weights, rank[matrix.columns], matrix.starts)
    ranked = sp.csr_array(entries, shape=(len(matrix), max(len(items), 1)))
    # Rows in their order first; there and back again sorts the columns of each, without comparing any.
    ordered = ranked[users].tocsc().tocsr()
    return np.repeat(np.arange(len(users)), np.diff(ordered.indptr)), ordered.indices, ordered.data


def _sorted_csr(
    values: NDArray[Any], users: NDArray[Any], items: NDArray[Any], shape: tuple[int, int]
) -> Any:
    import scipy.sparse as sp  # what only recommends needs none

    matrix = sp.csr_array((values, (users, items)), shape=shape)  # sums repeated pairs
    matrix.sort_indices()
    return matrix


def _within_single_precision(matrix: Any) -> Any:
    n_large = int((matrix.data > np.finfo(np.float32).max).sum())
    if n_large > 0:
        raise DataError(
            f"The weights of {n_large} of {matrix.nnz} pairs come to more than a 32-bit float holds. Give smaller "
            f"weights or a smaller weight_slope, or merge repeated pairs with merge='max' (--merge max)."
        )
    return matrix


def _compressed(matrix: Any) -> CSR:
    return CSR(
        starts=matrix.indptr.astype(np.int64, copy=False),
        columns=matrix.indices.astype(np.int32, copy=False),
        weights=matrix.data.astype(np.float32, copy=False),
    )
