"""Files of requests: CSV, Parquet, JSON-lines → `Requests`; each remembers its file and line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        if ending in _SEPARATORS:
            rows = list(_demands(_read_csv(path, _SEPARATORS[ending]), path.name))
        elif ending == ".parquet":
            rows = list(_demands(_read_parquet(path), path.name))
        else:
            rows = list(_demands(_read_json_lines(path), path.name))
    except OSError as error:
        raise RequestError(
            f"{path} could not be opened: {error.strerror or type(error).__name__}. Give the path of a file "
            f"that is there and may be read."
        ) from None
    except (UnicodeError, csv.Error, pl.exceptions.PolarsError) as error:
        # The reader's own message may quote the file, so only its kind is told.
        raise RequestError(
            f"{path} could not be read as {ending} ({type(error).__name__}). Check that it is complete, and "
            f"in UTF-8 if it is text."
        ) from None
    if not rows:
        raise RequestError(f"{path} holds no requests; at least one is wanted.")
    return Requests(request_frame(rows))


def _demands(lines: Iterator[tuple[int, dict[str, Any]]], source: str) -> Iterator[Any]:
    for line, request in lines:
        yield from parsed_rows(request, source, line)


def _read_csv(path: Path, separator: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, path)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise RequestError(
                    f"{path.name} line {reader.line_num} has {len(cells)} fields, the header {len(header)}; "
                    f"as many are wanted. Put quotes around a field that holds the separator."
                )
            yield reader.line_num, {name: cell or None for name, cell in zip(header, cells, strict=True)}


def _read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    frame = pl.read_parquet(path)
    _check_header(frame.columns, path)
    for number, row in enumerate(frame.iter_rows(named=True), start=1):
        # pandas writes a missing number as NaN.
        yield number, {name: None if value != value else value for name, value in row.items()}


def _read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                request = json.loads(line, object_pairs_hook=_unrepeated)
            except (ValueError, RecursionError):
                request = None
            if not isinstance(request, dict):
                raise RequestError(
                    f'{path.name} line {number} is not a JSON object with each key once; one like {{"user": '
                    f'…, "items": […]}} '
                    f"is wanted "
                    f"on each line."
                )
            yield number, request


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, unless a key is there twice: JSON would keep the last and lose a wish."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _check_header(header: list[str], path: Path) -> None:
    names = [standard_name(name) for name in header]
    # Named by its place: without a header the first line would be somebody's request.
    unknown = [str(place) for place, name in enumerate(names, start=1) if name is None]
    if unknown:
        problem = f"has no known name for column {', '.join(unknown)}"
    elif len(set(names)) < len(names):
        problem = "names a column twice"
    elif not {"user", "item", "items"} & set(names):
        problem = "names no column for users or items"
    else:
        return
    raise RequestError(
        f"The header of {path} {problem}. Wanted are some of {', '.join(KEYS)}, each once, and no others: a "
        f"misspelt one would widen what is deleted."
    )
