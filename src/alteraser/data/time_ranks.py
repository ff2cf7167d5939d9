"""Periods of requests against the times of events: ranks of times, and the ranks that each request asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.request_parsing import place_of
from alteraser.errors import RequestError

# Numbers are taken for times since 1970 if all lie in one of these ranges: units of a second, the least, the end. 1e8
# seconds is 1973, 1e11 the year 5138, and each unit begins where the one before it ends.
_EPOCHS = ((1, 1e8, 1e11), (10**3, 1e11, 1e14), (10**6, 1e14, 1e17), (10**9, 1e17, 1e20))
_MICROSECONDS = 10**6


def epoch_units(times: pl.Series | None) -> int | None:
    """How many units a second has (1, 1000, …) where numbers are times since 1970; None where they are not."""
    if times is None or not times.dtype.is_numeric():
        return None
    least, most = times.min(), times.max()
    if not isinstance(least, int | float) or not isinstance(most, int | float):
        return None
    return next((units for units, start, end in _EPOCHS if start <= least and most < end), None)


def time_ranks(
    distinct: pl.DataFrame, times: pl.Series | None, n_events: int, units: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The rank of each event's time, 0 if null, and the ranks [first, last) each request asks for.

    `units` is what `epoch_units` says of the whole data, of which the events may be a part.
    """
    start, end = distinct["start"], distinct["end"]
    period = (start.is_not_null() | end.is_not_null()).to_numpy()
    if not period.any():
        return (
            np.zeros(n_events, np.int64),
            np.zeros(len(distinct), np.int64),
            np.ones(len(distinct), np.int64),
        )
    if times is None:
        raise RequestError(
            f"{place_in(distinct, int(np.flatnonzero(period)[0]))} names a period, but the data has no times. "
            f"Name its time column with time= (--time-column), or ask without from and to."
        )
    physical = times.to_physical()
    known = physical.drop_nulls().unique().sort().to_numpy()
    ranks = np.where(times.is_null().to_numpy(), 0, np.searchsorted(known, _filled(physical)) + 1)
    earliest, latest = (_bounds(distinct, name, times.dtype, units) for name in ("start", "end"))
    first = np.searchsorted(known, _filled(earliest), side="left") + 1
    last = np.searchsorted(known, _filled(latest), side="right") + 1
    first = np.where(start.is_null().to_numpy(), np.where(period, 1, 0), first)
    last = np.where(end.is_null().to_numpy(), len(known) + 1, last)
    return ranks, first, last


def place_in(distinct: pl.DataFrame, row: int) -> str:
    """Where a request of a frame was made."""
    return place_of(distinct["source"][row], distinct["line"][row])


def _filled(numbers: pl.Series) -> NDArray[Any]:
    """The numbers with something in place of nulls, which the caller then replaces."""
    return numbers.to_physical().fill_null(0).to_numpy()


def _bounds(distinct: pl.DataFrame, name: str, dtype: pl.DataType, units: int | None) -> pl.Series:
    """One end of each period in the type of the data's times; null where it is open."""
    texts = distinct[name]
    is_date = texts.str.contains("T", literal=True)
    dated = isinstance(dtype, pl.Datetime)
    _check_kind(distinct, is_date, dated=dated, units=units)
    moments = texts.str.to_datetime("%Y-%m-%dT%H:%M:%S%.6f", time_unit="us", strict=False)
    if dated:
        return moments
    numbers = texts.cast(pl.Float64, strict=False)
    if dtype == pl.Float64:
        return numbers.fill_null(moments.dt.timestamp("us") * ((units or 1) / _MICROSECONDS))
    whole = texts.cast(pl.Int64, strict=False)
    rounded = numbers.ceil() if name == "start" else numbers.floor()
    limits = np.iinfo(np.int64)
    rounded = rounded.clip(float(limits.min), float(limits.max // 1024 * 1024 - 1024)).cast(pl.Int64)
    return whole.fill_null(rounded).fill_null(_since_1970(moments, units or 1, is_end=name == "end"))


def _check_kind(distinct: pl.DataFrame, is_date: pl.Series, *, dated: bool, units: int | None) -> None:
    wrong = ~is_date if dated else is_date & (units is None)
    wrong = wrong.fill_null(value=False)
    if not wrong.any():
        return
    came, wanted = ("a number", "dates") if dated else ("a date", "numbers that are no times since 1970")
    raise RequestError(
        f"{place_in(distinct, int(wrong.arg_true()[0]))} gives {came} as the end of a period, but the "
        f"times in the data are {wanted}. Give {'ISO dates like 2024-05-31' if dated else 'numbers'} there."
    )


def _since_1970(moments: pl.Series, units: int, *, is_end: bool) -> pl.Series:
    """Moments as whole numbers of the data's unit, within the period that they end."""
    microseconds = moments.dt.timestamp("us")
    if units > _MICROSECONDS:
        finer = units // _MICROSECONDS
        return microseconds * finer + (finer - 1 if is_end else 0)
    coarser = _MICROSECONDS // units
    return microseconds // coarser if is_end else -(-microseconds // coarser)
