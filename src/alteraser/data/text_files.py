"""Text files as tables of texts: separators of any length, with a header or without."""

from __future__ import annotations

import gzip
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import polars as pl

from alteraser.data.column_names import names_side
from alteraser.errors import DataError

log = logging.getLogger(__name__)

SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}
# Those of any other text file are looked for in this order: a text may well hold a comma or a blank, or both.
USUAL_SEPARATORS = ("::", "\t", ";", "|", ",", " ")
TEXT_ENDINGS = tuple(
    f"{ending}{packed}" for ending in (*SEPARATORS, ".txt", ".dat", ".data") for packed in ("", ".gz")
)
_LINES_LOOKED_AT = 20
# Stands for a separator of several bytes, which polars cannot split at; made for this by those who made ASCII.
UNIT_SEPARATOR = b"\x1f"


@dataclass(frozen=True)
class TextFile:
    """A text file with something between its fields; `separator` is None where nobody said and none was found."""

    path: Path
    separator: str | None
    header: bool = True

    @classmethod
    def of(cls, path: Path, ending: str, *, separator: str | None = None, header: bool = True) -> TextFile:
        """The file, split at `separator` or, unless given, as its ending or else its first lines tell."""
        kind = ending.removesuffix(".gz")
        if separator is None:
            separator = SEPARATORS.get(kind) or _found(_first_lines(path))
            if kind not in SEPARATORS and separator is not None:
                log.info("The fields of %s are separated by %r.", path, separator)
        return cls(path, separator, header)

    @cached_property
    def names(self) -> dict[str, str]:
        """The names of the columns and how the file has them: RecBole writes the type behind, as user_id:token."""
        try:
            table = self._read(n_rows=0 if self.header else 1)
        except pl.exceptions.NoDataError:
            raise DataError(f"{self.path} is empty; a header and at least one row are wanted.") from None
        if not self.header:
            return {f"column_{place}": name for place, name in enumerate(table.columns, start=1)}
        if self._is_recbole:
            return {name.rsplit(":", 1)[0]: name for name in table.columns}
        return {name: name for name in table.columns}

    @property
    def _is_recbole(self) -> bool:
        return self.header and self.path.name.lower().endswith((".inter", ".inter.gz"))

    def columns(self, names: Sequence[str] | None = None) -> pl.DataFrame:
        """Some columns, or all, under their own names and as texts, without blank lines at the end."""
        wanted = self.names if names is None else {name: self.names[name] for name in names}
        table = self._read(columns=list(wanted.values()))
        named = table.select(pl.col(there).alias(name) for name, there in wanted.items())
        return _without_blank_end(named)

    def check_split(self) -> None:
        """Raise if the first line is not split at all: every interaction has at least two fields."""
        if self.separator is not None and len(self.names) > 1:
            return
        first = next(iter(_first_lines(self.path)), "")
        fields = {each: len(first.split(each)) for each in USUAL_SEPARATORS}
        better = [f"{n} fields at {each!r}" for each, n in fields.items() if n > 1]
        at = "any usual separator" if self.separator is None else repr(self.separator)
        try_this = next((each for each, n in fields.items() if n > 1), None)
        hint = "what stands between two fields" if try_this is None else f"{try_this!r}, for example"
        raise DataError(
            f"The lines of {self.path} are not split into fields at {at}: the first has "
            f"{', '.join(better) or 'one field at every usual separator'}. Give separator= (--separator), {hint}."
        )

    def starts_with_data(self) -> str | None:
        """What tells that the first line is no header but somebody's interaction; None if nothing does."""
        table = self._read()
        if pl.Series(table.columns, dtype=pl.String).cast(pl.Float64, strict=False).is_not_null().any():
            return "numbers"
        # Ids come again and again; the name of a column is not a value in it.
        again = any((table[name] == name).any() for name in table.columns)
        return "what other lines hold" if again else None

    def check_header(self) -> None:
        """Raise if the first line is no header but somebody's interaction, which an error must not list."""
        if (holds := self.starts_with_data()) is not None:
            raise DataError(
                f"The first line of {self.path} is not a header: it holds {holds}. Read it with header=False "
                f"(--no-header), where columns are named by their place, as user='1' (--user-column 1), or put a line "
                f"with the names of the columns above it, as user_id and item_id."
            )

    def check_no_header(self, table: pl.DataFrame, user: str, item: str) -> None:
        """Raise if what was called a file without a header has one."""
        first = [table[name][0] or "" for name in (user, item)]
        if all(map(names_side, first)):
            raise DataError(
                f"The first line of {self.path} names the columns of users and items, so it is a header. Leave "
                f"header=False (--no-header) out."
            )

    def _read(self, *, columns: list[str] | None = None, n_rows: int | None = None) -> pl.DataFrame:
        separator = self.separator or ","
        long = len(separator.encode()) > 1
        return pl.read_csv(
            self._with_units(separator.encode()) if long else self.path,
            has_header=self.header,
            separator=UNIT_SEPARATOR.decode() if long else separator,
            quote_char=None if long or self._is_recbole else '"',
            infer_schema=False,
            columns=columns,
            n_rows=n_rows,
        )

    def _with_units(self, separator: bytes) -> io.BytesIO:
        """The content with another separator of one byte."""
        with _opened(self.path) as file:
            content = file.read()
        if UNIT_SEPARATOR in content:
            raise DataError(
                f"{self.path} holds the control sign 0x1F, which no text does; it cannot be split at several signs. "
                f"Remove it, or write the file with a separator of one sign."
            )
        return io.BytesIO(content.replace(separator, UNIT_SEPARATOR))


def _opened(path: Path) -> io.BufferedIOBase:
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def _first_lines(path: Path) -> list[str]:
    with _opened(path) as file:
        lines = [line.decode("utf-8-sig", errors="replace") for line in islice(file, _LINES_LOOKED_AT)]
    return [line.rstrip("\r\n") for line in lines if line.strip()]


def _found(lines: list[str]) -> str | None:
    """The usual separator that splits each of these lines into as many fields, two or more."""
    for separator in USUAL_SEPARATORS:
        counts = {line.count(separator) for line in lines}
        if len(counts) == 1 and counts != {0}:
            return separator
    return None


def _without_blank_end(table: pl.DataFrame) -> pl.DataFrame:
    """The table without the blank lines a hand-made file may end in; polars reads them as rows of nulls."""
    filled = table.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return table.head(int(filled[-1]) + 1 if len(filled) else 0)
