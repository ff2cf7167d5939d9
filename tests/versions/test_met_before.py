"""A request that was met before is told apart from a typing error, as far as that can be known."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import alteraser as ae
from alteraser.data.requests import Requests

KEY, OTHER = b"a key that is long enough", b"another that is long enough"


def forgotten(user_ids: list[Any], *requests: dict[str, Any]) -> tuple[ae.Version, ae.Interactions]:
    """A version of a model of these users, who each have items 10 to 13, that met some requests; and its data."""
    users = [user for user in user_ids for _ in range(4)]
    data = ae.interactions(pl.DataFrame({"user_id": users, "item_id": [10, 11, 12, 13] * len(user_ids)}))
    version = ae.Version.of(ae.MF.sized_for(data, dim=2, rng=np.random.default_rng(0)), data)
    following, erasure = version.forget(data, Requests.of(requests), key=KEY)
    return following, erasure.remain


def test_a_retry_leaves_the_version_as_it_is_and_is_no_error() -> None:
    """Ids are counted up: the only number missing between two neighbours is the one that was forgotten."""
    version, data = forgotten([1, 2, 3, 4, 5], {"user": 3})
    again, erasure = version.forget(data, Requests.of([{"user": 3}, {"user": 3, "item": 10}]))
    assert again.digest == version.digest
    assert again.history == version.history
    assert (erasure.requests.n_honoured, erasure.requests.n_missing) == (0, 2)


@pytest.mark.parametrize(
    "typo", [{"user": 9}, {"user": "three"}, {"item": 99}, {"user": 3, "item": 99}, {"user": 0}]
)
def test_an_id_that_was_never_known_is_a_typing_error(typo: dict[str, Any]) -> None:
    version, data = forgotten([1, 2, 3, 4, 5], {"user": 3})
    with pytest.raises(
        ae.UnknownInteractions, match=r"1 of 2 requests .* requests line 2\)\. 1 other was met"
    ) as caught:
        version.forget(data, Requests.of([{"user": 3}, typo]), key=KEY)
    assert "may have been" not in str(caught.value)


def test_what_is_new_among_retries_is_forgotten() -> None:
    version, data = forgotten([1, 2, 3, 4, 5], {"user": 3})
    _, erasure = version.forget(data, Requests.of([{"user": 3}, {"user": 4}]))
    assert erasure.requests.n_events.tolist() == [0, 4]
    assert erasure.remain.user_vocabulary.n_forgotten == 2


@pytest.mark.parametrize(
    ("user_ids", "asked"),
    [(["ann", "bob", "cem", "dia"], "bob"), ([1, 2, 5, 9], 5), ([1, 2, 3, 4], 4), ([1, 2, 3, 4], 1)],
    ids=["texts", "numbers with gaps", "the last", "the first"],
)
def test_where_ids_do_not_tell_the_key_does(user_ids: list[Any], asked: Any) -> None:
    version, data = forgotten(user_ids, {"user": asked})
    again = Requests.of([{"user": asked}])
    assert version.met_before(again).perhaps.all()
    with pytest.raises(ae.UnknownInteractions, match=r"1 of these may have been met before.*--key-file"):
        version.forget(data, again, key=OTHER)
    _, erasure = version.forget(data, again, key=KEY)
    assert erasure.requests.n_missing == 1
    # An id that does not belong where one is missing was never there, key or no key.
    with pytest.raises(ae.UnknownInteractions) as caught:
        version.forget(data, Requests.of([{"item": 12.5}]), key=KEY)
    assert "may have been" not in str(caught.value)


def test_pairs_are_known_by_the_key_alone() -> None:
    pair = {"user": 2, "item": 11}
    version, data = forgotten([1, 2, 3], pair)
    met = version.met_before(Requests.of([pair, {"user": 2, "item": 12}, pair]), KEY)
    assert met.certain.tolist() == [True, False]
    met = version.met_before(Requests.of([pair]))
    assert (met.certain.tolist(), met.perhaps.tolist()) == ([False], [True])
    version.forget(data, Requests.of([pair]), key=KEY)


def test_the_last_batch_again_is_taken_for_a_retry_without_a_key() -> None:
    """Nothing of it matches, every id is known or may have been forgotten, and it has as many requests."""
    batch: list[dict[str, Any]] = [{"user": "bob"}, {"user": "cem", "item": 11}, {"user": "dia", "item": 12}]
    version, data = forgotten(["ann", "bob", "cem", "dia"], *batch)
    again, erasure = version.forget(data, Requests.of([*batch, batch[0]]))
    assert again.digest == version.digest
    assert (erasure.requests.n_honoured, erasure.requests.n_missing) == (0, 3)
    assert version.met_before(Requests.of(batch)).perhaps.all()


@pytest.mark.parametrize(
    "others",
    [
        [{"user": "cem", "item": 11}],
        [{"user": "cem", "item": 11}, {"user": "ann"}],
        [{"user": "cem", "item": 11}, {"user": "zoe"}],
        [{"user": "cem", "item": 11}, {"user": "cem", "item": 99}],
    ],
    ids=["fewer", "one that is new", "an unknown user", "an unknown item"],
)
def test_what_is_not_the_last_batch_is_refused_and_said_to_be_undecided(others: list[dict[str, Any]]) -> None:
    version, data = forgotten(
        ["ann", "bob", "cem", "dia"], {"user": "cem", "item": 11}, {"user": "dia", "item": 12}
    )
    with pytest.raises(ae.UnknownInteractions, match=r"1 of these may have been met before") as caught:
        version.forget(data, Requests.of(others))
    assert "cannot be told apart without the key" in str(caught.value)
    assert "--missing ignore" in str(caught.value)


def test_a_model_that_has_forgotten_nothing_has_met_nothing_before() -> None:
    version, data = forgotten([1, 2, 3], {"user": 2, "item": 11})
    new = ae.Version.of(version.model, data)
    with pytest.raises(ae.UnknownInteractions) as caught:
        new.forget(data, Requests.of([{"user": 2, "item": 11}]))
    assert "may have been" not in str(caught.value)


def test_a_compacted_model_tells_nothing_without_the_key() -> None:
    version, data = forgotten([1, 2, 3, 4, 5], {"user": 3})
    small, again = ae.compact(version), Requests.of([{"user": 3}])
    with pytest.raises(ae.UnknownInteractions) as caught:
        small.forget(data, again)
    assert "may have been" not in str(caught.value)
    assert small.met_before(again, KEY).certain.all()
    assert repr(small.met_before(again, KEY)) == "MetBefore(1 certainly, 0 perhaps)"
