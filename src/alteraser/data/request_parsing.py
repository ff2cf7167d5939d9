"""One request as it was written → rows of canonical texts; a typing error must never delete more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl

from alteraser.data.columns import id_text
from alteraser.errors import RequestError

CONDITIONS = ("user", "item", "start", "end")
_SCHEMA = dict.fromkeys((*CONDITIONS, "source"), pl.String()) | {"line": pl.Int64()}
_NAMES = {"user_id": "user", "item_id": "item", "from": "start", "to": "end"}
KEYS = ("user", "item", "items", "from", "to", "everyone")

RequestRow = tuple[str | None, str | None, str | None, str | None, str, int]


@dataclass(frozen=True, kw_only=True, repr=False)
class Request:
    """A wish to forget: all that is given must hold together; at least a user or an item has to be named.

    A period includes both ends; a date without a time means, as its end, the end of that day. `everyone` asks for a
    period of all users and items: what was left out by mistake must not come to that.
    """

    user: Any = None
    items: Sequence[Any] | None = None
    item: Any = None
    start: Any = None
    end: Any = None
    everyone: bool = False


def request_frame(rows: list[RequestRow]) -> pl.DataFrame:
    """The rows as the columns of `Requests`."""
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def standard_name(name: str) -> str | None:
    """The condition that a column or key stands for, or None if there is no such condition."""
    name = _NAMES.get(name, name)
    return name if name in (*CONDITIONS, "items", "everyone") else None


def parsed_rows(request: Request | Mapping[str, Any], source: str, line: int) -> Iterator[RequestRow]:
    """One row for each item that the request lists, or a single one."""
    given = _fields(request, source, line)
    if given["item"] is not None and given["items"] is not None:
        raise _wrong(source, line, "gives both item and items; one of them is wanted")
    user = None if given["user"] is None else asked_id(given["user"], source, line)
    items = [given["item"]] if given["items"] is None else _listed(given["items"], source, line)
    start = _bound(given["start"], source, line, is_end=False)
    end = _bound(given["end"], source, line, is_end=True)
    _check_period(start, end, source, line)
    everyone = _flag(given["everyone"], source, line)
    for item in items:
        _check_who(everyone, user, item, dated=start is not None or end is not None, place=(source, line))
        yield user, None if item is None else asked_id(item, source, line), start, end, source, line


def _check_who(everyone: bool, user: Any, item: Any, *, dated: bool, place: tuple[str, int]) -> None:
    named = user is not None or item is not None
    if everyone and named:
        raise _wrong(*place, "asks for everyone and names a user or an item; one of the two is wanted")
    if everyone and not dated:
        raise _wrong(*place, "asks for everyone without a period, which is all of the data; give from or to")
    if not (everyone or named):
        hint = "; a period of all users needs everyone (--everyone)" if dated else ""
        raise _wrong(*place, f"names neither a user nor an item; one of them is wanted{hint}")


def _flag(value: Any, source: str, line: int) -> bool:
    """A yes or no as JSON, Python or a cell of a table writes it; what is left out is a no."""
    text = "false" if value is None else str(value).strip().lower()
    if text in ("true", "yes", "1", "false", "no", "0"):
        return text in ("true", "yes", "1")
    raise _wrong(source, line, "has an everyone that is neither true nor false")


def _fields(request: Request | Mapping[str, Any], source: str, line: int) -> dict[str, Any]:
    if isinstance(request, Request):
        return vars(request)
    if not isinstance(request, Mapping):
        raise _wrong(source, line, f"is a {type(request).__name__}; a Request or a dictionary is wanted")
    fields: dict[str, Any] = dict.fromkeys((*CONDITIONS, "items", "everyone"))
    seen: set[str] = set()
    for key, value in request.items():
        name = standard_name(key)
        # A misspelt condition would be left out, and the request would delete more than was asked for.
        if name is None:
            raise _wrong(source, line, f"has a key that is not known; the keys are {', '.join(KEYS)}")
        if name in seen:
            raise _wrong(source, line, f"gives {name} twice")
        seen.add(name)
        fields[name] = value
    return fields


def _listed(items: Any, source: str, line: int) -> Sequence[Any]:
    if isinstance(items, str) or not isinstance(items, Sequence | np.ndarray | pl.Series):
        raise _wrong(source, line, "gives items that are not a list; write one item as item")
    listed = list(items)
    # An empty list must not fall back to the whole user.
    if not listed or any(item is None for item in listed):
        raise _wrong(
            source, line, "lists no items, or an empty one; leave items out to ask for the whole user"
        )
    return listed


def asked_id(value: Any, source: str, line: int) -> str:
    """The text of the id that is asked for."""
    # A tuple or a list is more likely meant as several ids than as one.
    text = id_text(value) if isinstance(value, str | int | float | bytes | UUID | np.generic) else None
    if text is not None and (text.isascii() or _encodable(text)):
        return text
    raise _wrong(source, line, "has an id that is empty, or neither a text nor a number")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bound(value: Any, source: str, line: int, *, is_end: bool) -> str | None:
    """One end of a period as text: a date-time with a "T" in it, or a number."""
    if value is None:
        return None
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        value = _parsed(value.strip())
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return str(int(value) if float(value).is_integer() else value)
        if isinstance(value, datetime) and value == value:  # pandas' NaT is a datetime, too
            moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
            return datetime.isoformat(moment, timespec="microseconds")
        if isinstance(value, date) and value == value:
            return datetime.combine(value, time.max if is_end else time.min).isoformat(
                timespec="microseconds"
            )
    except OverflowError:
        pass
    raise _wrong(
        source, line, "has a from or to that is neither a number nor an ISO date like 2024-05-31T18:30:00"
    )


def _parsed(text: str) -> int | float | date | None:
    if "_" in text:  # which Python reads as part of a number
        return None
    for parse in (int, float, date.fromisoformat, datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def _check_period(start: str | None, end: str | None, source: str, line: int) -> None:
    if start is None or end is None:
        return
    if ("T" in start) != ("T" in end):
        raise _wrong(
            source, line, "gives a date and a number as the ends of one period; two of a kind are wanted"
        )
    if (start > end) if "T" in start else (float(start) > float(end)):
        raise _wrong(source, line, "has a from that is after its to")


def place_of(source: str, line: int) -> str:
    """Where a request was made: the line of a file, or the how-manieth option of its name."""
    return f"{source} number {line}" if source.startswith("--") else f"{source} line {line}"


def _wrong(source: str, line: int, problem: str) -> RequestError:
    return RequestError(f"{place_of(source, line)} {problem}.")
