"""Every kind of frame gives the same interactions; settings are checked where they are made."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.data.read_options import ReadOptions
from alteraser.errors import ColumnError, DataError, SettingError

COLUMNS = {
    "user_id": [3, 1, 1],
    "item_id": ["x", "y", "x"],
    "rating": [5.0, None, 2.0],
    "when": [30, 10, None],
}


def as_pandas(columns: dict[str, Any]) -> Any:
    return pd.DataFrame(columns)


def as_arrow(columns: dict[str, Any]) -> Any:
    return pl.DataFrame(columns).to_arrow()


KINDS = [pl.DataFrame, pl.LazyFrame, as_pandas, as_arrow]


def pairs_of(data: Interactions) -> set[tuple[Any, Any]]:
    return set(data.to_frame().select("user_id", "item_id").iter_rows())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_same(kind: Any) -> None:
    data = interactions(kind(COLUMNS), time="when", any_rating=True)
    assert data.to_frame().rows() == [(3, "x", 30), (1, "y", 10), (1, "x", None)]


@pytest.mark.parametrize("kind", KINDS)
def test_of_ratings_somebody_has_to_say_which_count(kind: Any) -> None:
    with pytest.raises(ColumnError, match=r"ratings \(column rating\).*--min-rating X.*--any-rating"):
        interactions(kind(COLUMNS))
    assert len(interactions(kind(COLUMNS), any_rating=True)) == 3
    assert len(interactions(kind(COLUMNS), min_rating=2)) == 2
    with pytest.raises(SettingError, match="Both min_rating"):
        interactions(kind(COLUMNS), min_rating=2, any_rating=True)


def test_ratings_by_another_name_and_as_weights() -> None:
    frame = pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "RATING": [1, 5], "stars": [5, 1]})
    with pytest.raises(ColumnError, match="column RATING"):
        interactions(frame)
    assert pairs_of(interactions(frame, min_rating=3)) == {(2, 2)}
    assert pairs_of(interactions(frame, min_rating=3, rating="stars")) == {(1, 1)}
    assert len(interactions(frame, weight="RATING")) == 2
    with pytest.raises(ColumnError, match="column stars"):
        interactions(frame.drop("RATING"), rating="stars")


@pytest.mark.parametrize("name", ["ratings", "stars", "Score", "star_rating"])
def test_usual_names_of_ratings(name: str) -> None:
    frame = pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], name: [1, 5]})
    with pytest.raises(ColumnError, match=rf"column {name}\).*--min-rating X.*--any-rating"):
        interactions(frame)
    assert pairs_of(interactions(frame, min_rating=3)) == {(2, 2)}
    assert len(interactions(frame, any_rating=True)) == len(interactions(frame, weight=name)) == 2


def test_a_later_word_on_ratings_goes_before_an_earlier_one() -> None:
    strict, free = ReadOptions(min_rating=3), ReadOptions(any_rating=True)
    assert strict.with_options({"any_rating": True}) == free
    assert free.with_options({"min_rating": 3}) == strict


@pytest.mark.parametrize(
    ("user", "item"),
    [("userId", "movieId"), ("USER", "ITEM"), ("user id", "item-id"), ("uid", "iid"), ("reviewerID", "asin")],
)
def test_usual_names_of_columns_are_known(user: str, item: str, caplog: pytest.LogCaptureFixture) -> None:
    frame = pl.DataFrame({"timestamp": [5, 6], item: ["a", "b"], user: [1, 2]})
    with caplog.at_level("INFO"):
        assert pairs_of(interactions(frame)) == {(1, "a"), (2, "b")}
    assert f"Users are in the column {user}, items in the column {item}." in caplog.text


def test_usual_names_are_taken_only_where_one_column_is_meant() -> None:
    frame = pl.DataFrame({"userId": [1], "customer": [2], "movieId": ["a"]})
    with pytest.raises(
        ColumnError, match=r"userId and customer could both be meant for the user.*--user-column"
    ):
        interactions(frame)
    assert pairs_of(interactions(frame, user="customer")) == {(2, "a")}
    assert pairs_of(interactions(frame.rename({"customer": "user_id"}))) == {(2, "a")}
    with pytest.raises(ColumnError, match="no column 'person' for the user"):
        interactions(frame, user="person")


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_rating_is_never_high_enough(kind: Any) -> None:
    data = interactions(kind(COLUMNS), min_rating=2.5, weight="rating")
    assert data.to_frame().rows() == [(3, "x", 5.0)]
    assert (data.n_users, data.n_items) == (1, 1)


def test_nan_is_no_rating() -> None:
    frame = pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "rating": [float("nan"), 3.0]})
    assert pairs_of(interactions(frame, min_rating=1)) == {(2, 2)}
    with pytest.raises(ColumnError, match="ratings are of type String"):
        interactions(frame.with_columns(rating=pl.lit("5")), min_rating=1)


def test_times_with_a_zone_become_utc() -> None:
    when = pd.to_datetime(["2024-01-01T12:00:00+02:00", None])
    data = interactions(pd.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "when": when}), time="when")
    assert data.to_frame()["time"].to_list() == [datetime(2024, 1, 1, 10), None]


def test_a_pandas_column_of_mixed_ids_is_read_as_text() -> None:
    data = interactions(pd.DataFrame({"user_id": [1, "a"], "item_id": [1, 2]}))
    assert data.user_vocabulary.ids.to_list() == ["1", "a"]
    same = interactions(pd.DataFrame({"user_id": [1, 1.0, "a", True], "item_id": [1, 2, 3, 4]}))
    assert same.user_vocabulary.ids.to_list() == ["1", "a", "true"]


def test_a_missing_column_is_named_with_those_that_are_there() -> None:
    with pytest.raises(ColumnError, match=r"no column 'movie'.*user_id, item_id, rating, when.*item="):
        interactions(pl.DataFrame(COLUMNS), item="movie")
    with pytest.raises(ColumnError, match=r"rating="):
        interactions(pl.DataFrame(COLUMNS).drop("rating"), min_rating=3)


def test_columns_are_listed_only_if_they_can_be_a_header() -> None:
    with pytest.raises(ColumnError, match=r"no column 'user_id'.*the columns are who, itemId, 3\."):
        interactions(pd.DataFrame([[1, 2, 3]], columns=["who", "itemId", 3]))
    for columns in ([0, 1], ["alice", "matrix"]):
        with pytest.raises(ColumnError, match=r"none of the 2 .* may lack a header") as caught:
            interactions(pd.DataFrame([[1, 2]], columns=columns))
        assert "alice" not in str(caught.value)
    with pytest.raises(ColumnError, match=r"the columns are watcher, matrix"):
        interactions(pd.DataFrame([[1, 2]], columns=["watcher", "matrix"]), user="watcher")


@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT, float("nan"), ""])
def test_whatever_stands_for_nothing_is_no_id(missing: Any) -> None:
    users = pd.Series([1, "a", missing], dtype=object)
    with pytest.raises(DataError, match=r"1 of 3 user ids are null or NaN or empty .* data row 3"):
        interactions(pd.DataFrame({"user_id": users, "item_id": [1, 2, 3]}))


NAMES = ["user_id", "item_id", "user_id"]


@pytest.mark.parametrize(
    "twice", [pd.DataFrame([[1, 2, 1]], columns=NAMES), pa.table([[1], [2], [1]], names=NAMES)]
)
def test_a_column_named_twice_is_refused(twice: Any) -> None:
    with pytest.raises(ColumnError, match="the same name"):
        interactions(twice)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(DataError, match=r"builtins\.list"):
        interactions([(1, 2)])


def test_filters_that_leave_nothing_are_an_error() -> None:
    with pytest.raises(DataError, match="None of the 3 interactions is left after min_rating=9"):
        interactions(pl.DataFrame(COLUMNS), min_rating=9)
    with pytest.raises(DataError, match="min_interactions=3"):
        interactions(pl.DataFrame(COLUMNS), min_interactions=3, any_rating=True)


def test_a_sparse_matrix_keeps_its_shape_and_sums_duplicates() -> None:
    matrix = sp.coo_array(([1.0, 2.0, 4.0, 0.0], ([0, 0, 2, 1], [1, 1, 3, 0])), shape=(4, 5))
    data = interactions(matrix)
    assert (data.n_users, data.n_items) == (4, 5)
    assert data.to_frame().rows() == [(0, 1, 3.0), (2, 3, 4.0)]
    assert data.by(Side.USERS).starts.tolist() == [0, 1, 1, 2, 2]


def test_a_sparse_matrix_has_two_dimensions() -> None:
    with pytest.raises(DataError, match="1 dimension"):
        interactions(sp.coo_array(np.array([1.0, 0.0, 2.0])))


def test_a_sparse_matrix_has_no_columns_to_name() -> None:
    with pytest.raises(SettingError, match="sparse matrix"):
        interactions(sp.eye_array(3), time="when")


def core(pairs: set[tuple[int, int]], k: int) -> set[tuple[int, int]]:
    while True:
        kept = {
            (u, i)
            for u, i in pairs
            if sum(u == other for other, _ in pairs) >= k and sum(i == other for _, other in pairs) >= k
        }
        if kept == pairs:
            return pairs
        pairs = kept


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40), st.integers(1, 4))
def test_the_core_is_what_the_definition_says(events: list[tuple[int, int]], k: int) -> None:
    frame = pl.DataFrame(events, schema=["user_id", "item_id"], orient="row")
    expected = core(set(events), k)
    if not expected:
        with pytest.raises(DataError):
            interactions(frame, min_interactions=k)
        return
    data = interactions(frame, min_interactions=k)
    assert pairs_of(data) == expected
    assert len(data) == sum(event in expected for event in events)
    assert data.by(Side.USERS).counts.min() >= k
    assert data.by(Side.ITEMS).counts.min() >= k


def test_a_reading_survives_json() -> None:
    read_options = ReadOptions(user="u", item="i", time="t", min_rating=3.5, min_interactions=5, merge="last")
    assert ReadOptions.from_dict(json.loads(json.dumps(read_options.to_dict()))) == read_options


@pytest.mark.parametrize(
    "settings",
    [
        {"user": ""},
        {"user": "same", "item": "same"},
        {"min_rating": float("nan")},
        {"min_rating": "4"},
        {"min_interactions": 0},
        {"min_interactions": 2.0},
        {"merge": "mean"},
        {"weight": 3},
        {"wieght": "w"},
    ],
)
def test_a_wrong_setting_is_refused_where_it_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings))):
        ReadOptions.from_dict(settings)


def test_options_go_before_the_reading() -> None:
    data = interactions(
        pl.DataFrame(COLUMNS),
        read_options=ReadOptions(user="nobody", time="when", any_rating=True),
        user="user_id",
    )
    assert data.times is not None
    assert np.unique(data.users).tolist() == [0, 1]
