"""`SourceTable`: a table as its owner keeps it, of which interactions are but a part; what remains of it is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import polars as pl

from alteraser.data.column_names import require_columns, resolved
from alteraser.data.columns import plain_ids
from alteraser.data.datasets import EMBEDDED, dataset_file, embedded, is_dataset, usual_read_options
from alteraser.data.files import readable, typed
from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions
from alteraser.data.read_options import ReadKeywords, ReadOptions
from alteraser.data.requests import Match, Requests
from alteraser.data.text_files import SEPARATORS, TextFile
from alteraser.data.time_ranks import epoch_units
from alteraser.data.writing import PARQUET, TextForm
from alteraser.errors import WriteError


@dataclass(frozen=True, eq=False, repr=False)
class SourceTable:
    """All columns and rows of a file or data set, and how it was read.

    Of a text file the columns are texts, so that each value is written back as it stood there.
    """

    table: pl.DataFrame
    read_options: ReadOptions
    is_text: bool = False

    def __len__(self) -> int:
        return self.table.height

    def __repr__(self) -> str:
        return f"SourceTable({len(self)} rows, {self.table.width} columns)"

    def interactions(self, read_options: ReadOptions | None = None) -> Interactions:
        """The interactions in it, read as its own options say unless others are given."""
        return interactions(self._typed, read_options=read_options or self.read_options)

    def match(self, requests: Requests) -> Match:
        """The rows that requests name, also those that reading would leave out as rated too low or too rare."""
        everything = self.read_options.pairs_alone().with_options({"time": self.read_options.time})
        data = self.interactions(everything)
        # Rows that reading leaves out must not change how a date is understood.
        kept = data if data.times is None else self.interactions()
        units = epoch_units(kept.times)
        return requests.matched(data, missing="ignore", units=units)

    def without(self, requests: Requests) -> SourceTable:
        """The table without the rows that requests name (`match`); a request that names none is passed over."""
        return replace(self, table=self.table.filter(pl.Series(~self.match(requests).mask)))

    def form_for(self, path: Path) -> TextForm:
        """How it is written to a text file of that ending: with a header and a separator if it has them itself."""
        own = self.read_options
        return TextForm.of(path, separator=own.separator, header=own.header)

    def frame_for(self, path: Path) -> pl.DataFrame:
        """The table as it goes into a file of that ending."""
        if path.suffix.lower() in PARQUET:
            return self._typed
        kinds = self.table.schema
        if nested := [name for name, kind in kinds.items() if kind.is_nested() or kind == pl.Binary]:
            raise WriteError(
                f"The column {nested[0]} of the data holds lists or bytes, which CSV cannot. Write the remaining data "
                f"to a .parquet file."
            )
        # Whole numbers that are kept as fractions would be other ids as text: 42.0.
        floats = [name for name in (self.read_options.user, self.read_options.item) if kinds[name].is_float()]
        return self.table.with_columns(plain_ids(self.table[name], name).alias(name) for name in floats)

    @property
    def _typed(self) -> pl.DataFrame:
        return typed(self.table, self.read_options, "the data") if self.is_text else self.table


def open_source(
    name_or_path: str | Path,
    *,
    data_dir: str | Path | None = None,
    read_options: ReadOptions | None = None,
    **options: Unpack[ReadKeywords],
) -> SourceTable:
    """All that a named data set or a file holds; `open_data` reads the interactions of the same."""
    read_options = (read_options or usual_read_options(name_or_path)).with_options(options)
    if str(name_or_path) in EMBEDDED:
        return _source(embedded(str(name_or_path)).data.to_frame(), read_options)
    path = Path(name_or_path)
    if is_dataset(name_or_path):
        path = dataset_file(str(name_or_path), data_dir)
    with readable(path) as ending:
        if ending in PARQUET:
            return _source(pl.read_parquet(path), read_options)
        file = TextFile.of(path, ending, separator=read_options.separator, header=read_options.header)
        file.check_split()
        if ending.removesuffix(".gz") not in SEPARATORS:
            read_options = read_options.with_options({"separator": file.separator})
        return _source(file.columns(), read_options, is_text=True)


def _source(table: pl.DataFrame, read_options: ReadOptions, *, is_text: bool = False) -> SourceTable:
    named = resolved(read_options, table.columns)
    require_columns(table.columns, named)
    if not is_text:
        named = named.with_options({"separator": None, "header": True})
    return SourceTable(table, named, is_text)
