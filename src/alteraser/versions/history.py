"""What a version keeps of each batch of requests that made it: what a privacy officer needs, and never an id."""

from __future__ import annotations

import dataclasses
import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.requests import Requests
from alteraser.errors import RequestError
from alteraser.live.erasure import Erasure
from alteraser.live.model import LiveModel

SHORTEST_KEY = 16  # bytes: 128 bits cannot be tried out


@dataclass(frozen=True)
class Batch:
    """A batch of requests that was forgotten.

    `digest` is the keyed digest of all that was asked for, `requests` has that of each request that was honoured, in
    an order that tells nothing, and `count` says how many these are. `parent` is the digest of the version that was
    forgotten from. `outcome` says whether the stopping rule was met, and after how many steps and passes. How many
    interactions were forgotten or rows visited is left out: where one person asked, that is the length of a history.

    A folder of format 1 kept `digest` and `count` alone; there the others are None.
    """

    digest: str
    count: int
    requests: tuple[str, ...] | None = field(default=None, repr=False)
    parent: str | None = None
    date: str | None = None
    method: str | None = None
    settings: Mapping[str, Any] | None = None
    outcome: Mapping[str, Any] | None = None
    software: str | None = None

    @classmethod
    def of(
        cls,
        erasure: Erasure[Any],
        requests: Requests,
        *,
        unlearner: object,
        key: bytes,
        parent: str,
        date: datetime,
    ) -> Batch:
        """What is kept of an erasure: `requests` were made of an unlearner at that date."""
        honoured = np.flatnonzero(erasure.requests.n_events > 0)
        digests = requests.distinct().digests(key)
        cost = erasure.cost
        return cls(
            digest=requests.digest(key),
            count=len(honoured),
            requests=tuple(sorted(digests[place] for place in honoured)),
            parent=parent,
            date=date.astimezone(UTC).isoformat(timespec="seconds"),
            method=type(unlearner).__name__,
            settings=plain_settings(unlearner),
            outcome={"converged": erasure.converged, "steps": cost.steps, "passes": cost.passes},
            software=installed_version("alteraser"),
        )

    def to_dict(self) -> dict[str, Any]:
        """The batch as a manifest keeps it."""
        return {
            "parent_sha256": self.parent,
            "date": self.date,
            "method": self.method,
            "settings": None if self.settings is None else dict(self.settings),
            "outcome": None if self.outcome is None else dict(self.outcome),
            "software": self.software,
            "count": self.count,
            "hmac_sha256": self.digest,
            "requests_hmac_sha256": None if self.requests is None else list(self.requests),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Batch:
        """The batch that a manifest of either format tells of."""
        each, settings, outcome = (record.get(n) for n in ("requests_hmac_sha256", "settings", "outcome"))
        if not (
            isinstance(each, list | None) and all(isinstance(x, dict | None) for x in (settings, outcome))
        ):
            raise TypeError
        return cls(
            digest=str(record["hmac_sha256"]),
            count=int(record["count"]),
            requests=None if each is None else tuple(map(str, each)),
            parent=_text(record.get("parent_sha256")),
            date=_text(record.get("date")),
            method=_text(record.get("method")),
            settings=settings,
            outcome=outcome,
            software=_text(record.get("software")),
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def plain_settings(settings: object) -> dict[str, Any]:
    """The fields of a dataclass, or the `settings` of a live model, as plain JSON values.

    A random generator, which has no short name, is left out, and so is an executor: it says where work was done, not
    what, and may know addresses and passwords.
    """
    if isinstance(settings, LiveModel):
        fields = dict(settings.settings)
    elif dataclasses.is_dataclass(settings):
        fields = {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}
    else:
        return {}
    return {
        name: _plain(value)
        for name, value in fields.items()
        if name != "executor" and not isinstance(value, np.random.Generator)
    }


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; what it cannot hold is named by its type, and never by its representation."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__, **plain_settings(value)}
    return getattr(value, "__name__", type(value).__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Honoured:
    """Which of some requests a version has honoured.

    `batches` has a number for each request, in the order in which they were made: that of the batch of the history,
    from 0, that honoured it first, or -1. `sources` and `lines` say where it was made. Batches that keep no digest of
    each request (format 1) are recognised only if the requests are exactly theirs and all were honoured; `n_unsure` of
    those were not recognised.
    """

    batches: NDArray[np.int64]
    sources: pl.Series
    lines: NDArray[np.int64]
    n_distinct: int
    n_honoured: int
    n_unsure: int

    def __repr__(self) -> str:
        return f"Honoured({self.n_honoured} of {self.n_distinct} requests)"

    @property
    def all(self) -> bool:
        """Whether every request was honoured."""
        return self.n_honoured == self.n_distinct

    @property
    def lines_not_honoured(self) -> list[int]:
        """The lines of requests that were not honoured."""
        return sorted(set(self.lines[self.batches < 0].tolist()))

    @property
    def places_not_honoured(self) -> dict[str, list[int]]:
        """The lines of requests that were not honoured, by the file or option they came from."""
        missed = self.sources.filter(pl.Series(self.batches < 0)).to_list()
        places: dict[str, set[int]] = {source: set() for source in missed}
        for source, line in zip(missed, self.lines[self.batches < 0].tolist(), strict=True):
            places[source].add(line)
        return {source: sorted(lines) for source, lines in places.items()}


def find_honoured(history: tuple[Batch, ...], requests: Requests, key: bytes) -> Honoured:
    """Which of the requests are in the history, under this key."""
    check_key(key)
    whole, each = requests.digest(key), pl.Series(requests.digests(key), dtype=pl.String)
    batches = np.full(len(requests), -1, dtype=np.int64)
    n_unsure = 0
    for number, batch in reversed(list(enumerate(history))):
        if batch.requests is not None:
            kept = pl.Series(batch.requests, dtype=pl.String)
            batches[each.is_in(kept.implode()).to_numpy()] = number
        elif hmac.compare_digest(batch.digest, whole) and batch.count == each.n_unique():
            batches[:] = number
        else:
            n_unsure += 1
    return Honoured(
        batches=batches,
        sources=requests.frame["source"],
        lines=requests.frame["line"].to_numpy(),
        n_distinct=each.n_unique(),
        n_honoured=each.filter(pl.Series(batches >= 0)).n_unique(),
        n_unsure=n_unsure,
    )


def check_key(key: bytes) -> None:
    """Raise if the key is so short that it could be tried out."""
    if len(key) < SHORTEST_KEY:
        raise RequestError(f"The key has {len(key)} bytes; at least {SHORTEST_KEY} are wanted.")


def read_key(path: str | Path) -> bytes:
    """The key in a file, without white space around it."""
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise RequestError(f"The key file {path} could not be read: {error.strerror}.") from None
    check_key(key)
    return key
