"""Stories told with the embedded data are what they say they are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from alteraser.data.datasets import embedded
from alteraser.data.demo_data import inject_foreign_taste
from alteraser.data.interactions import Interactions
from alteraser.data.split import holdout
from alteraser.data.synthetic import topic_of
from alteraser.errors import DataError


def pairs(data: Interactions) -> set[tuple[int, int]]:
    return set(zip(data.users.tolist(), data.items.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_the_foreign_items_are_of_one_topic_and_never_the_users_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    train, test = holdout(embedded("synthetic").data, fraction=0.2, rng=rng)
    story = inject_foreign_taste(train, test, n_users=64, rng=rng)
    match = story.requests.match(story.full)
    foreign = story.full.only(match.mask)
    assert pairs(foreign).isdisjoint(pairs(train) | pairs(test))
    assert len(pairs(foreign)) == len(foreign) == len(story.requests)
    names = story.full.item_vocabulary.ids
    for user, topic in story.topic_of_user.items():
        theirs = foreign.items[foreign.users == user]
        assert {topic_of(names[item]) for item in theirs.tolist()} == {topic}
        assert 0 < len(theirs) <= (train.users == user).sum() // 2
    assert set(foreign.users.tolist()) == set(story.topic_of_user)
    assert len(story.topic_of_user) == 64
    assert story.full.without(match.mask).digest() == train.digest()
    assert story.full.times is not None
    assert story.full.times.null_count() == 0


def test_the_same_stream_tells_the_same_story() -> None:
    parts = holdout(embedded("synthetic").data, fraction=0.2, rng=np.random.default_rng(0))
    first, second = (
        inject_foreign_taste(*parts, n_users=8, rng=np.random.default_rng(5)).full.events for _ in range(2)
    )
    assert first.equals(second)
    assert first.columns == parts[0].events.columns
    assert first.schema == pl.Schema(parts[0].events.schema)


def test_too_few_users_are_refused() -> None:
    parts = holdout(embedded("synthetic").data, fraction=0.2, rng=np.random.default_rng(0))
    with pytest.raises(DataError, match="100000 users"):
        inject_foreign_taste(*parts, n_users=100000, rng=np.random.default_rng(5))
