"""Frames (polars, pandas, pyarrow, through narwhals) and scipy sparse matrices → `Interactions`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Unpack

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.column_names import require_columns, resolved
from alteraser.data.columns import id_texts
from alteraser.data.interactions import Interactions, Vocabulary
from alteraser.data.read_options import ReadKeywords, ReadOptions
from alteraser.errors import ColumnError, DataError, SettingError


def interactions(
    frame: Any, *, read_options: ReadOptions | None = None, **options: Unpack[ReadKeywords]
) -> Interactions:
    """The interactions a frame or a sparse matrix holds; `options` go before what `read_options` says.

    A matrix has users as rows, items as columns and weights as values; its ids are the row and column
    numbers, and empty rows and columns keep their place. `min_rating` drops null ratings too.
    `min_interactions` drops users and items with fewer distinct partners, again and again until none is left.
    """
    read_options = (read_options or ReadOptions()).with_options(options)
    if _is_sparse(frame):
        data = _from_matrix(frame, read_options)
        enough = np.ones(len(data), dtype=bool)
    else:
        table, read_options = _table(frame, read_options)
        enough = _high_enough(table, read_options)
        data = _from_table(table, read_options, enough)
    if read_options.min_interactions is not None:
        enough = in_core(data, enough, k=read_options.min_interactions)
    elif enough.all():
        return data
    if not enough.any():
        raise DataError(
            f"None of the {len(data)} interactions is left after {_filters(read_options)}. "
            f"Ask for less, or give more data."
        )
    return compacted(data.only(enough))


def column_names(frame: Any) -> list[str]:
    """The names of the columns of a frame of any kind."""
    return list(nw.from_native(frame).lazy().collect_schema().names())


def _from_table(table: pl.DataFrame, read_options: ReadOptions, enough: NDArray[np.bool_]) -> Interactions:
    weights = table[read_options.weight] if read_options.weight is not None else None
    if weights is not None and weights.dtype.is_numeric():
        # What the rating drops is not judged; it is kept until here so that errors count rows as they came.
        judged = weights.to_frame("weight").select(pl.when(pl.Series(enough)).then("weight").otherwise(0))
        weights = judged["weight"]
    return Interactions.from_columns(
        table[read_options.user],
        table[read_options.item],
        weights,
        table[read_options.time] if read_options.time is not None else None,
        merge=read_options.merge,
        weighing=read_options.weighing,
    )


def _is_sparse(frame: Any) -> bool:
    """Whether it is a matrix of scipy's, which nobody has who has not imported that."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(frame))


def _from_matrix(matrix: Any, read_options: ReadOptions) -> Interactions:
    applying = ("min_interactions", "merge", "weight_offset", "weight_slope")
    default = ReadOptions(**{name: getattr(read_options, name) for name in applying})
    if read_options != default:
        raise SettingError(
            f"A sparse matrix has no columns to name: of the read options only {', '.join(applying)} apply to it. "
            f"Give a frame with the columns instead."
        )
    import scipy.sparse as sp

    entries = sp.coo_array(matrix)
    if entries.ndim != 2:
        raise DataError(
            f"The sparse array has {entries.ndim} dimension(s); two are wanted, users as rows and items as columns."
        )
    entries.sum_duplicates()
    entries.eliminate_zeros()
    n_users, n_items = entries.shape
    users, items = (pl.Series(part.astype(np.int64)) for part in entries.coords)
    data = Interactions.from_columns(
        users, items, pl.Series(entries.data), merge=read_options.merge, weighing=read_options.weighing
    )
    rows = {
        name: pl.Series(part.astype(np.int32))
        for name, part in zip(("user", "item"), entries.coords, strict=True)
    }
    return replace(
        data,
        events=data.events.with_columns(**rows),
        user_vocabulary=Vocabulary(pl.Series(np.arange(n_users))),
        item_vocabulary=Vocabulary(pl.Series(np.arange(n_items))),
    )


def _table(frame: Any, read_options: ReadOptions) -> tuple[pl.DataFrame, ReadOptions]:
    """The columns that the read options name, in polars; and the options with the names that are there."""
    try:
        native = nw.from_native(frame)
    except TypeError:
        raise DataError(
            f"The data is a {type(frame).__module__}.{type(frame).__name__}; a polars, pandas or pyarrow "
            f"frame or a scipy sparse matrix is wanted."
        ) from None
    except nw.exceptions.DuplicateError:
        raise ColumnError("Two columns of the frame have the same name; rename one or drop it.") from None
    there = [str(name) for name in native.collect_schema().names()]
    read_options = resolved(read_options, there)
    require_columns(there, read_options)
    selected = native.select(*dict.fromkeys(read_options.columns.values()))
    eager = selected.collect() if isinstance(selected, nw.LazyFrame) else selected
    return pl.DataFrame({name: _column(eager[name]) for name in eager.columns}), read_options


def _column(column: nw.Series[Any]) -> pl.Series:
    try:
        converted = column.to_polars()
    except Exception:
        # A pandas column of mixed types; pyarrow and polars each refuse it in their own way.
        return id_texts(column.to_list())
    # UUIDs, bytes and tuples; what they turn into could not be told from data of that type, or not be compared.
    objects = column.dtype == nw.Object and (converted.dtype == pl.Binary or converted.dtype.is_nested())
    return id_texts(column.to_list()) if objects else converted


def _high_enough(table: pl.DataFrame, read_options: ReadOptions) -> NDArray[np.bool_]:
    if read_options.min_rating is None:
        return np.ones(table.height, dtype=bool)
    ratings = table[read_options.columns["rating"]]
    if not ratings.dtype.is_numeric() and ratings.dtype != pl.Null:
        raise ColumnError(f"The ratings are of type {ratings.dtype}; numbers are wanted.")
    # NaN is not a rating, though polars orders it above every number.
    numbers = ratings.cast(pl.Float64).fill_nan(None)
    return (numbers >= read_options.min_rating).fill_null(value=False).to_numpy()


def in_core(data: Interactions, among: NDArray[np.bool_], *, k: int) -> NDArray[np.bool_]:
    """The events left when users and items with fewer than k distinct partners go, again and again."""
    keys = data.users.astype(np.int64) * data.n_items + data.items
    pairs = np.unique(keys[among])
    while True:
        users, items = pairs // data.n_items, pairs % data.n_items
        n_of_user = np.bincount(users, minlength=data.n_users)
        n_of_item = np.bincount(items, minlength=data.n_items)
        kept = pairs[(n_of_user[users] >= k) & (n_of_item[items] >= k)]
        if len(kept) == len(pairs):
            return among & np.isin(keys, pairs)
        pairs = kept


def compacted(data: Interactions) -> Interactions:
    """The same events on a vocabulary of their own: rows without events are dropped, and rows renumber."""
    users, user_rows = np.unique(data.users, return_inverse=True)
    items, item_rows = np.unique(data.items, return_inverse=True)
    return replace(
        data,
        events=data.events.with_columns(
            user=pl.Series(user_rows, dtype=pl.Int32), item=pl.Series(item_rows, dtype=pl.Int32)
        ),
        user_vocabulary=Vocabulary(data.user_vocabulary.ids.gather(users)),
        item_vocabulary=Vocabulary(data.item_vocabulary.ids.gather(items)),
    )


def _filters(read_options: ReadOptions) -> str:
    given = {"min_rating": read_options.min_rating, "min_interactions": read_options.min_interactions}
    return " and ".join(f"{name}={value}" for name, value in given.items() if value is not None)
