"""Columns become typed, ids match only themselves, and repeated pairs merge as asked."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from alteraser.data.columns import checked_times
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.errors import DataError, MismatchError, SettingError


def small(merge: str = "max") -> Interactions:
    return Interactions.from_columns(
        pl.Series(["b", "a", "b", "b"]),
        pl.Series([1, 1, 1, 2]),
        pl.Series([3.0, 1.0, 5.0, 2.0]),
        pl.Series([9, 1, 2, None]),
        merge=merge,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("merge", "weight"), [("max", 5), ("sum", 8), ("last", 3)])
def test_repeated_pairs_merge_as_asked(merge: str, weight: float) -> None:
    matrix = small(merge).by(Side.USERS)
    assert matrix.starts.tolist() == [0, 1, 3]
    assert matrix.columns.tolist() == [0, 0, 1]
    assert matrix.weights.tolist() == [1, weight, 2]


def test_weights_that_sum_to_no_number_are_refused() -> None:
    pairs = pl.Series([1, 1, 2]), pl.Series([1, 1, 1]), pl.Series([3e38, 3e38, 1.0])
    assert Interactions.from_columns(*pairs).by(Side.USERS).weights.tolist()[1] == 1
    summed = Interactions.from_columns(*pairs, merge="sum")
    for side in Side:
        with pytest.raises(DataError, match=r"1 of 2 pairs .*merge='max'"):
            summed.by(side)


def test_both_sides_hold_the_same_entries() -> None:
    items = small().by(Side.ITEMS)
    assert items.starts.tolist() == [0, 2, 3]
    assert items.columns.tolist() == [0, 1, 1]
    assert items.weights.tolist() == [1, 5, 2]


def test_ids_match_only_what_would_be_written_the_same() -> None:
    numbers = Vocabulary.of(pl.Series([42, 7]))
    assert numbers.rows(pl.Series(["42", "042", None, "x", "7.0"])).tolist() == [1, -1, -1, -1, -1]
    assert numbers.rows(pl.Series([42.0, None])).tolist() == [1, -1]
    assert numbers.rows(pl.Series([42.5])).tolist() == [-1]
    texts = Vocabulary.of(pl.Series(["42", "007"]))
    assert texts.rows(pl.Series([42, 7])).tolist() == [1, -1]
    assert texts.rows(pl.Series([42.0])).tolist() == [1]
    assert numbers.rows(pl.Series([42.0, 42.5, float("nan"), float("inf")])).tolist() == [1, -1, -1, -1]
    assert texts.rows(pl.Series([42.0, 42.5])).tolist() == [1, -1]


def test_ids_of_any_python_type_and_numbers_of_any_size_are_kept_apart() -> None:
    ids = pl.Series([("a", 1), ("a", 2)], dtype=pl.Object)
    assert Interactions.from_columns(ids, pl.Series([2**64 - 1, 1])).to_frame().rows() == [
        ("('a', 1)", "18446744073709551615"),
        ("('a', 2)", "1"),
    ]


def test_a_tombstone_keeps_the_row_and_matches_nothing() -> None:
    vocabulary = Vocabulary.of(pl.Series(["a", "b", "c"])).without(np.array([1]))
    assert len(vocabulary) == 3
    assert vocabulary.n_forgotten == 1
    assert vocabulary.rows(pl.Series(["a", "b", None, "c"])).tolist() == [0, -1, -1, 2]


def test_tombstones_go_to_those_who_lost_everything() -> None:
    full = small()
    remain = full.without(full.users == 1).with_tombstones(full)
    assert remain.user_vocabulary.ids.to_list() == ["a", None]
    assert remain.item_vocabulary.ids.to_list() == [1, None]
    assert remain.n_users == full.n_users


def test_texts_of_times_may_be_mixed_and_carry_zones() -> None:
    times = checked_times(
        pl.Series(
            ["2020-01-01", "2020-01-01T10:00Z", None, "2020-01-01 10:00:00.25+02:00", "2020-01-01T10:00-0330"]
        )
    )
    assert times.to_list() == [
        datetime(2020, 1, 1),
        datetime(2020, 1, 1, 10),
        None,
        datetime(2020, 1, 1, 8, 0, 0, 250_000),
        datetime(2020, 1, 1, 13, 30),
    ]


def test_texts_of_numbers_are_numbers() -> None:
    assert checked_times(pl.Series(["5", None])).dtype == pl.Int64
    assert checked_times(pl.Series(["5", "5.5"])).to_list() == [5.0, 5.5]
    assert checked_times(pl.Series([1.5, float("nan")])).to_list() == [1.5, None]
    assert checked_times(pl.Series([None, None])).to_list() == [None, None]
    with pytest.raises(DataError, match="times are of type Boolean"):
        checked_times(pl.Series([True]))


def test_a_bad_time_is_named_by_its_row_and_not_shown() -> None:
    with pytest.raises(DataError, match=r"1 of 3 times .* data row 2") as caught:
        checked_times(pl.Series(["2020-01-01", "secret", "2020-01-02"]))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("users", "weights", "message"),
    [
        ([None, 1], None, "1 of 2 user ids are null or NaN or empty .* data row 1"),
        ([float("nan"), 1.0], None, "1 of 2 user ids are null or NaN or empty"),
        ([float("nan"), 1.5], None, "1 of 2 user ids are null or NaN or empty"),
        (["a", ""], None, "1 of 2 user ids are null or NaN or empty .* data row 2"),
        ([1, 2], [1.0, -1.0], "1 of 2 weights .* data row 2"),
        ([1, 2], [1.0, float("inf")], "weights"),
        ([[1], [2]], None, "user ids are of type List"),
        ([], None, "holds no interactions"),
    ],
)
def test_unusable_columns_are_refused(users: list[object], weights: list[float] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Interactions.from_columns(
            pl.Series(users), pl.Series(range(len(users))), None if weights is None else pl.Series(weights)
        )


def test_whole_floats_are_whole_numbers() -> None:
    data = Interactions.from_columns(pl.Series([1.0, 2.0]), pl.Series([1.5, 2.0]))
    assert data.user_vocabulary.ids.to_list() == [1, 2]
    assert data.item_vocabulary.ids.to_list() == ["1.5", "2"]
    small = Interactions.from_columns(pl.Series([1.1, 2.0], dtype=pl.Float32), pl.Series([1e22, 0.5]))
    assert small.to_frame().rows() == [("1.1", "1" + "0" * 22), ("2", "0.5")]


def test_digest_is_that_of_the_pairs_in_the_order_of_their_ids(random_data: Any) -> None:
    """As it was defined when the first models were written: their manifests hold it."""
    data = random_data(confidences=True, empty=True)
    pairs = sorted(
        (user, item, weight)
        for user, item, weight in zip(
            data.to_frame()["user_id"], data.to_frame()["item_id"], data.to_frame()["weight"], strict=True
        )
    )
    wanted, ranks = hashlib.sha256(), []
    for place in (0, 1):
        ids = sorted({pair[place] for pair in pairs})
        wanted.update(f"{len(ids)}\n".encode() + b"".join(f"{len(each)}:{each}".encode() for each in ids))
        ranks.append([ids.index(pair[place]) for pair in pairs])
    for column, kind in ((ranks[0], "<i8"), (ranks[1], "<i8"), ([pair[2] for pair in pairs], "<f4")):
        wanted.update(np.array(column, dtype=kind).tobytes())
    assert data.digest() == wanted.hexdigest()


def test_digest_knows_neither_order_nor_vocabulary_nor_id_type() -> None:
    data = Interactions.from_columns(pl.Series([1, 2, 2]), pl.Series([5, 5, 6]))
    turned = Interactions.from_columns(pl.Series(["2", "2", "1"]), pl.Series(["6", "5", "5"]))
    part = Interactions.from_columns(pl.Series([1, 2, 2, 9]), pl.Series([5, 5, 6, 9]))
    other = Interactions.from_columns(pl.Series([1, 2, 2]), pl.Series([5, 6, 6]))
    assert data.digest() == turned.digest() == part.only(part.users < 2).digest()
    assert data.digest() != other.digest()


def test_aligned_takes_the_rows_of_the_wanted_vocabulary() -> None:
    data = Interactions.from_columns(pl.Series(["a", "c"]), pl.Series([1, 2]))
    wanted = Vocabulary.of(pl.Series(["a", "b", "c"]))
    assert data.aligned(wanted, data.item_vocabulary).users.tolist() == [0, 2]
    with pytest.raises(MismatchError, match="1 of 2 interactions"):
        data.aligned(Vocabulary.of(pl.Series(["a"])), data.item_vocabulary)
    known, n_unknown = data.known_to(Vocabulary.of(pl.Series(["c", "d"])), data.item_vocabulary)
    assert (known.to_frame().rows(), n_unknown) == ([("c", 2)], 1)


def test_merging_by_the_last_needs_times() -> None:
    with pytest.raises(SettingError, match="time"):
        Interactions.from_columns(pl.Series([1]), pl.Series([1]), merge="last")


def test_representations_hold_no_ids() -> None:
    data = Interactions.from_columns(pl.Series(["alice"]), pl.Series(["diary"]))
    shown = repr(data) + repr(data.user_vocabulary)
    assert "alice" not in shown
    assert "diary" not in shown
    assert repr(data.by(Side.USERS)) == "CSR(1 rows, 1 entries)"
