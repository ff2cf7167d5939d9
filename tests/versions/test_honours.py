"""Whoever has the key finds out which requests a version has honoured, and nobody else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import alteraser as ae
from alteraser.data.requests import Requests

FORMAT1 = Path(__file__).parent / "format1"
KEY, OTHER = b"a key that is long enough", b"another that is long enough"


@pytest.fixture(scope="module")
def version() -> ae.Version:
    """Two batches were forgotten; u8 was asked for when there was nobody of that name."""
    users, items = np.nonzero(np.random.default_rng(1).random((8, 9)) < 0.6)
    frame = pl.DataFrame({"user_id": [f"u{row}" for row in users], "item_id": [f"i{row}" for row in items]})
    data = ae.interactions(frame)
    version = ae.Version.of(ae.MF.sized_for(data, dim=2, rng=np.random.default_rng(0)), data)
    first = Requests.of([{"user": "u1"}, {"user": "u2"}, {"user": "u1"}])
    second = Requests.of([{"item": "i3"}, {"user": "u8"}])
    version, erasure = version.forget(data, first, key=KEY)
    version, _ = version.forget(erasure.remain, second, key=KEY, missing="ignore")
    return version


def test_exactly_the_honoured_ones_are_found(version: ae.Version) -> None:
    asked = Requests.of(
        [
            {"user": "u2"},
            {"user": "u3"},  # never asked for
            {"item": "i3"},
            {"user": "u8"},  # asked for, but there was nothing to forget
            {"user": "u2"},
            {"user": "u1", "item": "i1"},  # another wish than the whole user
        ]
    )
    honoured = version.honours(asked, KEY)
    assert honoured.batches.tolist() == [0, -1, 1, -1, 0, -1]
    assert (honoured.n_distinct, honoured.n_honoured, honoured.n_unsure) == (5, 2, 0)
    assert honoured.lines_not_honoured == [2, 4, 6]
    assert not honoured.all
    assert repr(honoured) == "Honoured(2 of 5 requests)"


def test_order_repetition_and_the_way_of_writing_do_not_matter(version: ae.Version) -> None:
    asked = Requests.of([{"items": ["i3"]}, {"user": "u2"}, {"user": "u1"}, {"user": "u2"}])
    assert version.honours(asked, KEY).all


def test_another_key_finds_none(version: ae.Version) -> None:
    asked = Requests.of([{"user": "u1"}, {"user": "u2"}])
    assert version.honours(asked, OTHER).n_honoured == 0
    assert version.honours(asked, KEY).n_honoured == 2
    with pytest.raises(ae.RequestError, match="5 bytes"):
        version.honours(asked, b"short")


def test_without_a_key_nobody_finds_anything_later() -> None:
    version, asked = (
        ae.load_version(FORMAT1 / "mf"),
        Requests.of([{"user": "reader-1"}, {"user": "reader-2"}]),
    )
    data = version.read(FORMAT1 / "data.csv")
    once, twice = (version.forget(data, asked)[0].history[0] for _ in range(2))
    assert once.count == twice.count == 2
    assert {once.digest, *(once.requests or ())}.isdisjoint({twice.digest, *(twice.requests or ())})


def test_the_order_of_the_digests_tells_nothing_and_one_request_is_no_batch_of_one(
    version: ae.Version,
) -> None:
    batches = [batch.requests for batch in version.history]
    assert all(digests is not None and list(digests) == sorted(digests) for digests in batches)
    asked = Requests.of([{"user": "u1"}])
    assert set(asked.digests(KEY)) < set(batches[0] or ())
    assert asked.digests(KEY) != [asked.digest(KEY)]


@pytest.mark.parametrize("kind", ["mf", "enmf"])
def test_of_a_folder_of_format_1_whole_batches_are_recognised(kind: str) -> None:
    version, key = ae.load_version(FORMAT1 / f"{kind}-erased"), ae.read_key(FORMAT1 / "key.txt")
    asked = ae.read_requests(FORMAT1 / "requests.csv")
    assert len(asked) == 3
    whole = version.honours(asked + asked, key)
    assert whole.all
    assert (whole.n_distinct, whole.n_unsure) == (3, 0)
    for some in (Requests(asked.frame[:2]), asked + Requests.of([{"user": "reader-2"}])):
        part = version.honours(some, key)
        assert (part.n_honoured, part.n_unsure) == (0, 1)
    assert version.honours(asked, OTHER).n_honoured == 0
    # A batch of which only some requests were honoured does not say which.
    partly = replace(version, history=(replace(version.history[0], count=2),))
    assert partly.honours(asked, key).n_honoured == 0


def test_a_batch_of_format_1_does_not_hide_later_ones() -> None:
    version, key = ae.load_version(FORMAT1 / "mf-erased"), ae.read_key(FORMAT1 / "key.txt")
    data = version.read(FORMAT1 / "remaining.csv")
    later = Requests.of([{"user": "reader-5"}])
    following, _ = version.forget(data, later, key=key)
    assert following.honours(later, key).batches.tolist() == [1]
    assert following.honours(ae.read_requests(FORMAT1 / "requests.csv"), key).all
