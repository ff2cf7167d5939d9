"""CSV, Parquet and RecBole `.inter` files ↔ `Interactions`."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import polars as pl

from alteraser.data.columns import names_told, plain_ids
from alteraser.data.frames import interactions, require_columns
from alteraser.data.interactions import Interactions
from alteraser.data.read_options import ReadKeywords, ReadOptions
from alteraser.data.writing import PARQUET, write_frame
from alteraser.errors import ColumnError, DataError

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t", ".inter": "\t"}
READABLE = (*SEPARATORS, *PARQUET)


def read_interactions(
    path: str | Path, *, read_options: ReadOptions | None = None, **options: Unpack[ReadKeywords]
) -> Interactions:
    """The interactions in a CSV, TSV, Parquet or RecBole `.inter` file, read as `options` and `read_options` say.

    Ids in text files become whole numbers only if every one would be written back the same: "007" stays.
    """
    path = Path(path)
    read_options = (read_options or ReadOptions()).with_options(options)
    ending = readable_ending(path)
    if ending is None:
        raise DataError(
            f"{path} has an ending that is not known; wanted is one of {', '.join(READABLE)}. "
            f"Rename or convert it."
        )
    check_readable(path)
    try:
        table = (
            _read_parquet(path, read_options) if ending in PARQUET else _read_text(path, ending, read_options)
        )
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
        # The reader's own message may quote a line of the file: its kind is told, its text is not.
        raise DataError(
            f"{path} could not be read as {ending} ({type(error).__name__}). Check that it is complete, in UTF-8 if "
            f"it is text, and that each line has as many fields as the header."
        ) from None
    if table.height == 0:
        raise DataError(f"{path} holds no interactions, only a header; at least one row is wanted.")
    return interactions(table, read_options=read_options)


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


def _read_parquet(path: Path, read_options: ReadOptions) -> pl.DataFrame:
    require_columns(list(_header(path, ".parquet")), read_options)
    return pl.read_parquet(path, columns=list(dict.fromkeys(read_options.columns.values())))


def _read_text(path: Path, ending: str, read_options: ReadOptions) -> pl.DataFrame:
    names = _header(path, ending)
    if not set(read_options.columns.values()) <= set(names):
        _check_header(_texts(path, ending), path)
        require_columns(list(names), read_options)
    table = _columns_of_text(
        path, ending, {column: names[column] for column in read_options.columns.values()}
    )
    typed = {
        read_options.user: _ids(table[read_options.user]),
        read_options.item: _ids(table[read_options.item]),
    }
    for setting in ("weight", "rating"):
        if (column := read_options.columns.get(setting)) is not None:
            typed[column] = _numbers(table[column], setting, path)
    return table.with_columns(**typed)


def _header(path: Path, ending: str) -> dict[str, str]:
    """The names of the columns and how the file writes them: RecBole has the type behind, as user_id:token."""
    if ending in PARQUET:
        return {name: name for name in pl.read_parquet_schema(path)}
    try:
        header = _texts(path, ending, n_rows=0).columns
    except pl.exceptions.NoDataError:
        raise DataError(f"{path} is empty; a header and at least one row are wanted.") from None
    return {name.rsplit(":", 1)[0] if ending == ".inter" else name: name for name in header}


def _columns_of_text(path: Path, ending: str, wanted: dict[str, str]) -> pl.DataFrame:
    """The wanted columns under their own names, without blank lines at the end."""
    table = _texts(path, ending, columns=list(wanted.values()))
    return _without_blank_end(table.select(pl.col(there).alias(name) for name, there in wanted.items()))


def _texts(
    path: Path, ending: str, *, columns: list[str] | None = None, n_rows: int | None = None
) -> pl.DataFrame:
    quote = None if ending == ".inter" else '"'
    return pl.read_csv(
        path,
        separator=SEPARATORS[ending],
        quote_char=quote,
        infer_schema=False,
        columns=columns,
        n_rows=n_rows,
    )


def _check_header(table: pl.DataFrame, path: Path) -> None:
    """Raise if the first line is no header but somebody's interaction, which an error must not list."""
    names = pl.Series(table.columns, dtype=pl.String)
    numbers = names.cast(pl.Float64, strict=False).is_not_null().any()
    # Ids come again and again; the name of a column is not a value in it.
    again = any((table[name] == name).any() for name in table.columns)
    if numbers or again:
        raise DataError(
            f"The first line of {path} is not a header: it holds {'numbers' if numbers else 'what other lines hold'}. "
            f"Put a line with the names of the columns above it, as user_id and item_id."
        )


def _without_blank_end(table: pl.DataFrame) -> pl.DataFrame:
    """The table without the blank lines a hand-made file may end in; polars reads them as rows of nulls."""
    filled = table.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return table.head(int(filled[-1]) + 1 if len(filled) else 0)


def _ids(texts: pl.Series) -> pl.Series:
    whole = texts.cast(pl.Int64, strict=False)
    same = whole.cast(pl.String).eq_missing(texts)
    return whole if same.all() else texts


def _numbers(texts: pl.Series, setting: str, path: Path) -> pl.Series:
    numbers = texts.str.strip_chars().cast(pl.Float64, strict=False)
    bad = numbers.is_null() & texts.is_not_null()
    if (n_bad := int(bad.sum())) > 0:
        raise DataError(
            f"{n_bad} of {len(texts)} values in the {setting} column of {path} are not numbers (the first in "
            f"data row {int(bad.arg_true()[0]) + 1}). Correct them, or name another column with {setting}=."
        )
    return numbers


def read_ids(path: str | Path, column: str) -> pl.Series:
    """One column of ids of any file that `read_interactions` reads, as whole numbers or texts."""
    path = Path(path)
    ending = readable_ending(path)
    if ending is None:
        raise DataError(f"{path} has an ending that is not known; wanted is one of {', '.join(READABLE)}.")
    check_readable(path)
    try:
        names = _header(path, ending)
        if column not in names:
            raise ColumnError(
                f"{path} has no column {column!r}; {names_told(names, [column])}. Give a header line with that name."
            )
        if ending in PARQUET:
            table = pl.read_parquet(path, columns=[column])
        else:
            table = _columns_of_text(path, ending, {column: names[column]})
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
        raise DataError(
            f"{path} could not be read as {ending} ({type(error).__name__}). Check that it is complete."
        ) from None
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
    )
