"""Text files (CSV and others), Parquet and RecBole `.inter` files ↔ `Interactions`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

import polars as pl

from alteraser.data.column_names import names_told, perhaps_ratings, require_columns, resolved, resolved_ids
from alteraser.data.columns import plain_ids
from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions
from alteraser.data.read_options import ReadKeywords, ReadOptions
from alteraser.data.text_files import TEXT_ENDINGS, TextFile
from alteraser.data.writing import PARQUET, write_frame
from alteraser.errors import ColumnError, DataError

log = logging.getLogger(__name__)
READABLE = (*TEXT_ENDINGS, *PARQUET)


def read_interactions(
    path: str | Path, *, read_options: ReadOptions | None = None, **options: Unpack[ReadKeywords]
) -> Interactions:
    """The interactions in a Parquet or text file (CSV and others), read as `options` and `read_options` say.

    Ids in text files become whole numbers only if every one would be written back the same: "007" stays.
    """
    path = Path(path)
    read_options = (read_options or ReadOptions()).with_options(options)
    with readable(path) as ending:
        if ending in PARQUET:
            table, read_options = _read_parquet(path, read_options)
        else:
            table, read_options = _read_text(path, ending, read_options)
    if table.height == 0:
        raise DataError(f"{path} holds no interactions, only a header; at least one row is wanted.")
    log.debug("%s has %d rows", path, table.height)
    return interactions(table, read_options=read_options)


@contextmanager
def readable(path: Path) -> Iterator[str]:
    """The ending that says how to read a file; within the block, what reading fails with becomes a `DataError`."""
    ending = readable_ending(path)
    if ending is None:
        raise DataError(
            f"{path} has an ending that is not known; wanted is one of {', '.join(READABLE)}. "
            f"Rename or convert it."
        )
    check_readable(path)
    try:
        yield ending
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
        # The reader's own message may quote a line of the file: its kind is told, its text is not.
        raise DataError(
            f"{path} could not be read as {ending} ({type(error).__name__}). Check that it is complete, in UTF-8 if "
            f"it is text, and that each line has as many fields as the header."
        ) from None


def readable_ending(path: Path) -> str | None:
    """The ending that says how to read the file, or None; capitals do not matter."""
    return next((ending for ending in READABLE if path.name.lower().endswith(ending)), None)


def check_readable(path: Path) -> None:
    """Raise `DataError` unless there is a file that can be opened and holds something."""
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise DataError(
            f"{path} could not be opened: {error.strerror}. "
            f"Give the path of a file that is there and may be read."
        ) from None
    if empty:
        raise DataError(f"{path} is empty; a file with interactions is wanted.")


def in_own_form(path: str | Path, read_options: ReadOptions) -> ReadOptions:
    """The options for another file of the same data: with its own header, separator and usual names of columns.

    What the options say stays where it fits.
    """
    path = Path(path)
    with readable(path) as ending:
        if ending in PARQUET:
            names, separator = list(pl.read_parquet_schema(path)), None
        else:
            file = TextFile.of(path, ending, separator=read_options.separator)
            if len(file.names) < 2:  # it is split at something else
                file = TextFile.of(path, ending)
            names, separator = list(file.names), file.separator
    form = {"separator": separator, "header": True}
    if {read_options.user, read_options.item} <= set(names):
        return read_options.with_options(form)
    usual = resolved(ReadOptions(), names)
    rating = read_options.rating if read_options.rating in names else None
    if {usual.user, usual.item} <= set(names):
        return read_options.with_options(form | {"user": usual.user, "item": usual.item, "rating": rating})
    if not read_options.header:
        return read_options.with_options({"separator": separator})
    if ending in PARQUET or not TextFile(path, separator).starts_with_data():
        return read_options
    log.info("%s has no header: users are in its first column, items in the second.", path)
    places = {"user": "1", "item": "2", "rating": None, "header": False}
    return read_options.with_options(form | places)


def _read_parquet(path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, ReadOptions]:
    there = list(pl.read_parquet_schema(path))
    named = resolved(read_options, there)
    require_columns(there, named)
    return pl.read_parquet(path, columns=list(dict.fromkeys(named.columns.values()))), named


def _read_text(path: Path, ending: str, read_options: ReadOptions) -> tuple[pl.DataFrame, ReadOptions]:
    file = TextFile.of(path, ending, separator=read_options.separator, header=read_options.header)
    file.check_split()
    there = list(file.names)
    named = resolved(read_options, there)
    if not set(named.columns.values()) <= set(there):
        file.check_header()
    require_columns(there, named)
    table = file.columns(list(dict.fromkeys(named.columns.values())))
    if not file.header:
        file.check_no_header(table, named.user, named.item)
        if (third := perhaps_ratings(named, there)) is not None:
            _check_no_ratings(file.columns([third])[third], path)
    return typed(table, named, path), named


def _check_no_ratings(texts: pl.Series, path: Path) -> None:
    """Raise if the third column holds what ratings are: numbers from 0 to 10, not all the same."""
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.is_between(0, 10).all(ignore_nulls=False) and numbers.n_unique() > 1:
        raise ColumnError(
            f"The third column of {path} may be one of ratings, and a low one is no sign that somebody likes an item. "
            f"Say which count: min_rating= (--min-rating X) drops those below X, any_rating=True (--any-rating) takes "
            f"all. If it holds something else, name it so, as with weight='3' (--weight-column 3)."
        )


def typed(texts: pl.DataFrame, read_options: ReadOptions, source: object) -> pl.DataFrame:
    """A table of texts with its ids as whole numbers where all are such, its weights and ratings as numbers."""
    columns = {name: _ids(texts[name]) for name in (read_options.user, read_options.item)}
    for setting in ("weight", "rating"):
        if (name := read_options.columns.get(setting)) is not None:
            columns[name] = _numbers(texts[name], setting, source)
    return texts.with_columns(**columns)


def _ids(texts: pl.Series) -> pl.Series:
    whole = texts.cast(pl.Int64, strict=False)
    same = whole.cast(pl.String).eq_missing(texts)
    return whole if same.all() else texts


def _numbers(texts: pl.Series, setting: str, source: object) -> pl.Series:
    numbers = texts.str.strip_chars().cast(pl.Float64, strict=False)
    bad = numbers.is_null() & texts.is_not_null()
    if (n_bad := int(bad.sum())) > 0:
        raise DataError(
            f"{n_bad} of {len(texts)} values in the {setting} column of {source} are not numbers (the first in "
            f"data row {int(bad.arg_true()[0]) + 1}). Correct them, or name another column with {setting}=."
        )
    return numbers


def read_ids(path: str | Path, column: str) -> pl.Series:
    """One column of ids of any file that `read_interactions` reads, as whole numbers or texts."""
    path = Path(path)
    with readable(path) as ending:
        file = None if ending in PARQUET else TextFile.of(path, ending)
        names = list(pl.read_parquet_schema(path) if file is None else file.names)
        column = resolved_ids(column, names)
        if column not in names:
            raise ColumnError(
                f"{path} has no column {column!r}; {names_told(names, [column])}. Give a header line with that name."
            )
        table = pl.read_parquet(path, columns=[column]) if file is None else file.columns([column])
    if table.height == 0:
        raise DataError(f"{path} holds no ids, only a header; at least one row is wanted.")
    return plain_ids(table[column], column.removesuffix("_id"))


def write_interactions(data: Interactions, path: str | Path, *, force: bool = False) -> None:
    """Write CSV or Parquet, by the ending: columns user_id, item_id and, where known, weight and time."""
    write_frame(data.to_frame(), path, force=force)


def written_read_options(data: Interactions) -> ReadOptions:
    """How to read back what `write_interactions` wrote of this data."""
    there = data.events.columns
    return ReadOptions(
        weight="weight" if "weight" in there else None,
        time="time" if "time" in there else None,
        merge=data.merge,
        weight_offset=data.weighing.offset,
        weight_slope=data.weighing.slope,
    )
