"""Files of requests: CSV, Parquet, JSON-lines → `Requests`; each remembers its file and line."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from alteraser.data.request_parsing import KEYS, parsed_rows, request_frame, standard_name
from alteraser.data.requests import Requests
from alteraser.errors import RequestError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_ENDINGS = (*_SEPARATORS, ".parquet", ".jsonl", ".ndjson")


def read_requests(path: str | Path) -> Requests:
    """The requests in a CSV, Parquet or JSON-lines file.

    An empty cell means that the condition is not made: a line with a user alone asks for the whole user.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise RequestError(
            f"{path} ends in {ending or 'nothing'}; a file of requests ends in one of {', '.join(_ENDINGS)}."
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(
            f"{path} could not be opened: {error.strerror or type(error).__name__}. Give the path of a file "
            f"that is there and may be read."
        ) from None
    return _parsed(content, ending, name=path.name, told=str(path))


def read_request_stream(stream: BinaryIO, *, name: str = "standard input") -> Requests:
    """The requests that come without a file's name: JSON-lines if they begin with {, Parquet by its mark, else CSV.

    CSV has tabs between its fields if there is one in the header.
    """
    content = stream.read()
    start = content.removeprefix(codecs.BOM_UTF8).lstrip()
    if content.startswith(b"PAR1"):
        ending = ".parquet"
    elif start.startswith(b"{"):
        ending = ".jsonl"
    else:
        ending = ".tsv" if b"\t" in start.partition(b"\n")[0] else ".csv"
    return _parsed(content, ending, name=name, told=name)


def _parsed(content: bytes, ending: str, *, name: str, told: str) -> Requests:
    """The requests in the content of a file of that ending; `name` is kept with each, `told` stands in errors."""
    try:
        if ending == ".parquet":
            lines = _read_parquet(content, told)
        elif ending in _SEPARATORS:
            lines = _read_csv(content.decode("utf-8-sig"), _SEPARATORS[ending], name, told)
        else:
            lines = _read_json_lines(content.decode("utf-8-sig"), name)
        rows = list(_demands(lines, name))
    except (UnicodeError, csv.Error, pl.exceptions.PolarsError) as error:
        # The reader's own message may quote the file, so only its kind is told.
        raise RequestError(
            f"{told} could not be read as {ending} ({type(error).__name__}). Check that it is complete, and "
            f"in UTF-8 if it is text."
        ) from None
    if not rows:
        raise RequestError(f"{told} holds no requests; at least one is wanted.")
    return Requests(request_frame(rows))


def _demands(lines: Iterator[tuple[int, dict[str, Any]]], source: str) -> Iterator[Any]:
    for line, request in lines:
        yield from parsed_rows(request, source, line)


def _read_csv(text: str, separator: str, name: str, told: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header = [column.strip() for column in next(reader, [])]
    _check_header(header, told)
    for cells in reader:
        if not cells:
            continue
        if len(cells) != len(header):
            raise RequestError(
                f"{name} line {reader.line_num} has {len(cells)} fields, the header {len(header)}; "
                f"as many are wanted. Put quotes around a field that holds the separator."
            )
        yield reader.line_num, {column: cell or None for column, cell in zip(header, cells, strict=True)}


def _read_parquet(content: bytes, told: str) -> Iterator[tuple[int, dict[str, Any]]]:
    frame = pl.read_parquet(io.BytesIO(content))
    _check_header(frame.columns, told)
    for number, row in enumerate(frame.iter_rows(named=True), start=1):
        # pandas writes a missing number as NaN.
        yield number, {name: None if value != value else value for name, value in row.items()}


def _read_json_lines(text: str, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(io.StringIO(text), start=1):
        if not line.strip():
            continue
        try:
            request = json.loads(line, object_pairs_hook=_unrepeated)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            raise RequestError(
                f'{name} line {number} is not a JSON object with each key once; one like {{"user": …, '
                f'"items": […]}} is wanted on each line.'
            )
        yield number, request


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, unless a key is there twice: JSON would keep the last and lose a wish."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _check_header(header: list[str], told: str) -> None:
    names = [standard_name(name) for name in header]
    # Named by its place: without a header the first line would be somebody's request.
    unknown = [str(place) for place, name in enumerate(names, start=1) if name is None]
    if unknown:
        problem = f"has no known name for column {', '.join(unknown)}"
    elif len(set(names)) < len(names):
        problem = "names a column twice"
    elif not {"user", "item", "items", "everyone"} & set(names):
        problem = "names no column for users or items"
    else:
        return
    raise RequestError(
        f"The header of {told} {problem}. Wanted are some of {', '.join(KEYS)}, each once, and no others: a "
        f"misspelt one would widen what is deleted."
    )
