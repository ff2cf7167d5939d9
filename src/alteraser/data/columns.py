"""What a column must be before it is data: ids, weights and times, checked and brought to one type each."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl

from alteraser.errors import DataError


def id_text(value: Any) -> str | None:
    """The one text of an id, the same for 42, 42.0 and "42"; None for what is no id: null, NaN, an empty text.

    Data and requests both pass through here: what is written in two ways must not become two people.
    """
    if isinstance(value, np.floating):
        value = float(str(value))  # the shortest number that is this one in its own precision
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    differs = value != value
    if value is None or differs is True or differs is value:  # pandas' NA gives itself, whatever it is asked
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    return str(value) or None


def as_type(ids: pl.Series, wanted: pl.DataType) -> pl.Series:
    """The ids as another type, null where they would not come back as they were."""
    if ids.dtype.is_float():
        ids = _whole_or_texts(ids)
    if ids.dtype == wanted:
        return ids.alias("id")
    cast = ids.cast(wanted, strict=False)
    return cast.to_frame("id").select(pl.when(cast.cast(ids.dtype, strict=False) == ids).then("id"))["id"]


def checked_ids(ids: pl.Series, what: str) -> pl.Series:
    """Ids as whole numbers or texts, none of them null or empty; whole floats count as whole numbers."""
    ids = plain_ids(ids, what)
    if (nulls := ids.null_count()) > 0:
        first = int(ids.is_null().arg_true()[0])
        raise DataError(
            f"{nulls} of {len(ids)} {what} ids are null or NaN or empty (the first in data row {first + 1}); every "
            f"interaction needs one. Drop those rows or give them an id."
        )
    return ids


def plain_ids(ids: pl.Series, what: str) -> pl.Series:
    """Ids as whole numbers or texts; null where there is none."""
    if ids.dtype.is_float():
        return _whole_or_texts(ids)
    if ids.dtype == pl.Object:
        return id_texts(ids)
    if ids.dtype.is_integer():
        whole = ids.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == ids.null_count() else ids.cast(pl.String)
    try:
        texts = ids.cast(pl.String)
    except pl.exceptions.PolarsError:
        raise DataError(
            f"The {what} ids are of type {ids.dtype}; whole numbers or texts are wanted. Convert the column."
        ) from None
    # In a request an empty text means that nothing is asked for, so nobody could ask for such an id.
    return texts.set(texts == "", None)


def _whole_or_texts(numbers: pl.Series) -> pl.Series:
    numbers = numbers.fill_nan(None)
    whole = numbers.cast(pl.Int64, strict=False)
    fits = (whole.cast(pl.Float64) == numbers.cast(pl.Float64)) | numbers.is_null()
    if fits.fill_null(value=False).all():
        return whole
    if numbers.dtype != pl.Float64:
        numbers = numbers.cast(pl.String).cast(pl.Float64)  # 1.1, not the 1.10000002 that it is in 32 bits
    return id_texts(numbers)


def id_texts(values: Iterable[Any]) -> pl.Series:
    """The text of each id; null where there is none."""
    return pl.Series([id_text(value) for value in values], dtype=pl.String)


def checked_weights(weights: pl.Series) -> pl.Series:
    """Weights as 32-bit floats, finite and from 0 up."""
    if not (weights.dtype.is_numeric() or weights.dtype == pl.Boolean):
        raise DataError(f"The weights are of type {weights.dtype}; numbers are wanted.")
    numbers = weights.cast(pl.Float64)
    good = numbers.is_finite() & (numbers >= 0) & (numbers <= float(np.finfo(np.float32).max))
    bad = ~good.fill_null(value=False)
    if (n_bad := int(bad.sum())) > 0:
        raise DataError(
            f"{n_bad} of {len(weights)} weights are negative, infinite or missing (the first in data row "
            f"{int(bad.arg_true()[0]) + 1}); a weight must be a number from 0 up. Correct them, or leave the "
            f"weight out."
        )
    return numbers.cast(pl.Float32)


def checked_times(times: pl.Series) -> pl.Series:
    """Times as whole numbers, floats or UTC date-times; null where unknown."""
    if times.dtype == pl.String:
        times = _parsed_times(times)
    if isinstance(times.dtype, pl.Datetime):
        if times.dtype.time_zone is not None:
            times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return times.cast(pl.Datetime("us"))
    if times.dtype == pl.Date:
        return times.cast(pl.Datetime("us"))
    if times.dtype.is_integer():
        whole = times.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == times.null_count() else times.cast(pl.Float64)
    if times.dtype.is_float():
        return times.fill_nan(None).cast(pl.Float64)
    if times.dtype == pl.Null:
        return times.cast(pl.Int64)
    raise DataError(f"The times are of type {times.dtype}; numbers, dates or date-times are wanted.")


_ISO = (
    r"^(?<day>\d{4}-\d\d-\d\d)(?:[T ](?<minute>\d\d:\d\d)(?<second>:\d\d)?(?<fraction>\.\d{1,9})?)?"
    r"\s*(?:Z|UTC|(?<hours>[+-]\d\d):?(?<minutes>\d\d))?$"
)


def _parsed_times(texts: pl.Series) -> pl.Series:
    """Numbers if every text is one, else ISO dates and date-times, which may be mixed and carry a zone."""
    texts = texts.str.strip_chars()
    for dtype in (pl.Int64, pl.Float64):
        numbers = texts.cast(dtype, strict=False)
        if numbers.null_count() == texts.null_count():
            return numbers
    # One full form for all, because polars infers a single format from the first value.
    parts = texts.str.extract_groups(_ISO).struct.unnest()
    full = parts.select(
        pl.format(
            "{}T{}{}{}{}:{}",
            pl.col("day"),
            pl.col("minute").fill_null("00:00"),
            pl.col("second").fill_null(":00"),
            pl.col("fraction").fill_null(""),
            pl.col("hours").fill_null("+00"),
            pl.col("minutes").fill_null("00"),
        )
    ).to_series()
    times = full.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="us", strict=False)
    bad = times.is_null() & texts.is_not_null()
    if (n_bad := int(bad.sum())) > 0:
        raise DataError(
            f"{n_bad} of {len(texts)} times are neither numbers nor ISO dates like 2024-05-31 or "
            f"2024-05-31T18:30:00 (the first in data row {int(bad.arg_true()[0]) + 1}). Correct them, leave "
            f"them empty, or name another time column."
        )
    return times
