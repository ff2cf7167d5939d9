"""A request deletes exactly what it says, whatever file it came in, and errors never show who asked."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alteraser.data.event_store import EventStore
from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions
from alteraser.data.request_files import read_requests
from alteraser.data.request_parsing import Request
from alteraser.data.requests import Requests
from alteraser.errors import NothingRemains, RequestError, SettingError, UnknownInteractions

# Five events with number times; the fourth has none.
USERS, ITEMS, TIMES = [1, 1, 2, 2, 3], [10, 20, 10, 30, 30], [100, 200, 150, None, 300]


def numbered() -> Interactions:
    return Interactions.from_columns(pl.Series(USERS), pl.Series(ITEMS), times=pl.Series(TIMES))


def dated() -> Interactions:
    times = [datetime(2024, 5, 30), datetime(2024, 5, 31, 23, 59, 59), datetime(2024, 6, 1), None]
    return Interactions.from_columns(
        pl.Series(["a", "a", "a", "a"]), pl.Series([1, 2, 3, 4]), times=pl.Series(times)
    )


def events(data: Interactions, *requests: Any) -> list[int]:
    mask: list[int] = np.flatnonzero(Requests.of(requests).match(data).mask).tolist()
    return mask


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"user": 1}, [0, 1]),
        ({"user": "1"}, [0, 1]),
        ({"user": 1.0}, [0, 1]),
        ({"user_id": 1, "item_id": 20}, [1]),
        ({"user": 1, "items": [10, 20]}, [0, 1]),
        ({"item": 10}, [0, 2]),
        ({"items": [10, 20]}, [0, 1, 2]),
        ({"user": 1, "from": 100, "to": 199}, [0]),
        ({"user": 1, "from": "150.5"}, [1]),
        ({"user": 1, "from": 100.5}, [1]),
        ({"user": 1, "to": 199.5}, [0]),
        ({"user": 1, "to": 100}, [0]),
        ({"user": 1, "item": 10, "to": 1e30}, [0]),
        ({"item": 30, "from": 300, "to": 300}, [4]),
        (Request(user=2, items=[30]), [3]),
        (Request(user=2, end=np.int64(150)), [2]),
    ],
)
def test_a_request_matches_what_it_says(request_: Any, expected: list[int]) -> None:
    assert events(numbered(), request_) == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"everyone": True, "from": 150}, [1, 2, 4]),
        ({"everyone": "true", "to": 150}, [0, 2]),
        (Request(everyone=True, start=200, end=300), [1, 4]),
        ({"everyone": False, "user": 1}, [0, 1]),
    ],
)
def test_a_period_of_everyone_matches_all_that_has_a_time_in_it(request_: Any, expected: list[int]) -> None:
    assert events(numbered(), request_) == expected
    taken = EventStore(numbered()).take(Requests.of([request_]))
    assert taken.counts.n_forgotten == len(expected)


def test_periods_of_everyone_and_of_users_are_counted_side_by_side() -> None:
    both = Requests.of([{"everyone": True, "from": 1000}, {"user": 1}, {"everyone": True, "to": 150}])
    match = both.match(numbered(), missing="ignore")
    assert match.mask.tolist() == [True, True, True, False, False]
    assert match.counts.n_events.tolist() == [0, 2, 2]
    assert match.counts.n_null_times == 1


MAY_31 = int(datetime(2024, 5, 31, tzinfo=UTC).timestamp())
DAY = 86_400


@pytest.mark.parametrize("units", [1, 10**3, 10**6, 10**9], ids=["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", [pl.Int64, pl.Float64])
@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ({"from": "2024-05-31", "to": "2024-05-31"}, [1, 2]),
        ({"to": "2024-05-30"}, [0]),
        ({"from": "2024-05-31T00:00:00.5"}, [2, 3]),
        ({"from": "2024-06-01T02:00:00+02:00"}, [3]),
    ],
    ids=str,
)
def test_dates_are_understood_where_times_are_seconds_or_parts_of_them_since_1970(
    units: int, kind: Any, period: dict[str, str], expected: list[int]
) -> None:
    seconds = [MAY_31 - 1, MAY_31, MAY_31 + DAY - 1, MAY_31 + DAY]
    times = pl.Series([each * units for each in seconds], dtype=kind)
    data = Interactions.from_columns(
        pl.Series([1, 1, 1, 1, 2]), pl.Series([1, 2, 3, 4, 1]), times=times.extend_constant(None, 1)
    )
    assert events(data, {"user": 1} | period) == expected
    assert EventStore(data).take(Requests.of([{"user": 1} | period])).counts.n_forgotten == len(expected)


def test_one_time_that_is_no_epoch_makes_numbers_of_all_also_for_one_user() -> None:
    """Whether numbers are times since 1970 is decided by the whole data, not by those of who asks."""
    data = Interactions.from_columns(
        pl.Series([1, 1, 2]), pl.Series([1, 2, 1]), times=pl.Series([MAY_31, MAY_31 + DAY, 7])
    )
    asked = {"user": 1, "to": "2024-05-31"}
    with pytest.raises(RequestError, match="no times since 1970"):
        events(data, asked)
    with pytest.raises(RequestError, match="no times since 1970"):
        EventStore(data).take(Requests.of([asked]))


UUID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("ids", "asked"),
    [
        (pl.Series([1.5, 2.0, 3.0]), [2, 2.0, "2", np.float32(2)]),
        (pl.Series([2.0, 1.1, 3.0], dtype=pl.Float32), ["1.1", 1.1, np.float32(1.1)]),
        (pl.Series([2, 1, 3]), [1, 1.0, "1", np.int8(1)]),
        (pd.Series([2.5, 1, "a"], dtype=object), [1, 1.0, "1"]),
        (pd.Series(["a", 1.0, 2.5], dtype=object), [1, 1.0, "1"]),
        (pd.Series(["a", True, 2.5], dtype=object), [True, "true"]),
        (pd.Series([uuid.UUID(int=1), UUID, uuid.UUID(int=9)]), [UUID, str(UUID)]),
        (pd.Series([b"a", b"\xff", b"c"]), [b"\xff"]),
        (pd.Series([b"a", b"b", b"c"]), [b"b", "b"]),
        (pd.Series([("a", 1), ("a", 2), ("a", 3)]), ["('a', 2)"]),
    ],
)
def test_the_id_of_a_request_is_that_of_the_data_however_it_is_written(ids: Any, asked: list[Any]) -> None:
    frame = {"user_id": ids, "item_id": [1, 2, 3]}
    data = interactions(pl.DataFrame(frame) if isinstance(ids, pl.Series) else pd.DataFrame(frame))
    for user in asked:
        assert events(data, {"user": user}) == [1]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, "2024-05-31", [0, 1]),
        ("2024-05-31", None, [1, 2]),
        ("2024-05-31", "2024-05-31", [1]),
        (None, "2024-05-31T00:00:00", [0]),
        (None, "2024-06-01T02:00:00+02:00", [0, 1, 2]),
        (None, "2024-06-01T01:59:59+02:00", [0, 1]),
        (date(2024, 5, 31), date(2024, 6, 30), [1, 2]),
        (datetime(2024, 6, 1, tzinfo=UTC), None, [2]),
        (np.datetime64("2024-06-01"), np.datetime64("2024-06-01"), [2]),
    ],
)
def test_a_period_includes_both_ends_and_whole_days(start: Any, end: Any, expected: list[int]) -> None:
    assert events(dated(), Request(user="a", start=start, end=end)) == expected


def test_counts_add_up_and_null_times_are_told() -> None:
    requests = Requests.of(
        [
            {"user": 2, "to": 500},
            {"user": "2", "to": 500.0},
            {"user": 9},
            {"user": 1, "item": 30},
            {"item": 20},
        ]
    )
    match = requests.match(numbered(), missing="ignore")
    assert match.mask.tolist() == [False, True, True, False, False]
    counts = match.counts
    assert (counts.n_honoured, counts.n_repeated, counts.n_missing, counts.n_null_times) == (2, 1, 2, 1)
    assert counts.n_events.tolist() == [1, 0, 0, 1]
    both = requests + Requests.pairs([2], [30])
    assert both.match(numbered(), missing="ignore").counts.n_null_times == 0


def test_what_is_not_there_is_an_error_that_names_its_line_only() -> None:
    requests = Requests.of([{"user": 1}, {"user": 777_001}, {"user": 1, "item": 30}], source="batch.csv")
    with pytest.raises(UnknownInteractions, match=r"2 of 3 .*batch\.csv line 2.*--missing ignore") as caught:
        requests.match(numbered())
    assert "777" not in str(caught.value)


def test_if_all_are_missing_ignoring_them_matches_nothing() -> None:
    match = Requests.pairs([8, 9], [1, 1]).match(numbered(), missing="ignore")
    assert not match.mask.any()
    assert (match.counts.n_honoured, match.counts.n_missing) == (0, 2)


def test_a_tombstone_is_unknown() -> None:
    data = numbered()
    remain = data.without(data.users == 2).with_tombstones(data)
    with pytest.raises(UnknownInteractions):
        Requests.of([{"user": 3}]).match(remain)


def test_something_must_remain() -> None:
    with pytest.raises(NothingRemains, match="all 5"):
        Requests.of([{"user": user} for user in (1, 2, 3)]).match(numbered())


def test_periods_need_times_of_their_own_kind() -> None:
    timeless = Interactions.from_columns(pl.Series([1, 2]), pl.Series([1, 2]))
    with pytest.raises(RequestError, match="no times"):
        events(timeless, {"user": 1, "to": 5})
    with pytest.raises(RequestError, match=r"line 2 gives a date .* are numbers"):
        events(numbered(), {"user": 1}, {"user": 1, "to": "2024-01-01"})
    with pytest.raises(RequestError, match=r"gives a number .* are dates"):
        events(dated(), {"user": "a", "from": 5})
    with pytest.raises(SettingError, match="missing"):
        Requests.of([]).match(numbered(), missing="skip")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "neither a user nor an item"),
        ({"from": 3}, r"neither a user nor an item.*--everyone"),
        ({"everyone": True}, "without a period"),
        ({"everyone": True, "user": 1, "to": 5}, "names a user or an item"),
        ({"everyone": "perhaps", "to": 5}, "neither true nor false"),
        ({"user": 1, "itm": 3}, "key that is not known"),
        ({"user": 1, "items": []}, "lists no items"),
        ({"user": 1, "items": [1, None]}, "lists no items"),
        ({"user": 1, "items": "12"}, "not a list"),
        ({"user": 1, "item": 2, "items": [3]}, "both item and items"),
        ({"user": 1, "user_id": 2}, "twice"),
        ({"user": ""}, "id that is empty"),
        ({"user": "\ud800"}, "id that is empty"),
        ({"user": float("nan")}, "id that is empty"),
        ({"user": pd.NA}, "id that is empty"),
        ({"user": (1, 2)}, "neither a text nor a number"),
        ({"user": {"id": 1}}, "neither a text nor a number"),
        ({"user": 1, "to": "soon"}, "neither a number nor an ISO date"),
        ({"user": 1, "to": ""}, "neither a number nor an ISO date"),
        ({"user": 1, "to": float("nan")}, "neither a number nor an ISO date"),
        ({"user": 1, "to": pd.NaT}, "neither a number nor an ISO date"),
        ({"user": 1, "to": 10**400}, "neither a number nor an ISO date"),
        ({"user": 1, "to": "0001-01-01T00:00+10:00"}, "neither a number nor an ISO date"),
        ({"user": 1, "from": 5, "to": 4}, "after its to"),
        ({"user": 1, "from": "2024-02-01", "to": "2024-01-31"}, "after its to"),
        ({"user": 1, "from": 5, "to": "2024-01-31"}, "two of a kind"),
        ([1, 2], "dictionary is wanted"),
    ],
)
def test_an_unclear_request_is_refused_with_its_line(request_: Any, message: str) -> None:
    with pytest.raises(RequestError, match=f"asked line 2 .*{message}"):
        Requests.of([{"user": 1}, request_], source="asked")


CSV = "user,item,from,to\n1,10,,\n2,,,2024-01-31\n\n,7,,\n"
JSON = '{"user": 1, "items": [10]}\n\n{"user": "2", "to": "2024-01-31"}\n{"item": 7.0}\n'
SAME: list[dict[str, Any]] = [
    {"item": 7},
    {"user": 1, "item": 10},
    {"user": 2, "to": "2024-01-31T23:59:59.999999"},
]


def write_parquet(path: Path) -> None:
    pl.DataFrame(
        {"user_id": [1.0, 2.0, None], "items": [[10], None, [7]], "to": [None, date(2024, 1, 31), None]}
    ).write_parquet(path)


def test_every_file_type_reads_the_same_requests(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "a.tsv").write_text(CSV.replace(",", "\t").replace("user\titem", "user_id\titem_id"))
    (tmp_path / "a.jsonl").write_text(JSON)
    write_parquet(tmp_path / "a.parquet")
    wanted = Requests.of(SAME).digest(b"key")
    for name, lines in [
        ("a.csv", [2, 3, 5]),
        ("a.tsv", [2, 3, 5]),
        ("a.jsonl", [1, 3, 4]),
        ("a.parquet", [1, 2, 3]),
    ]:
        requests = read_requests(tmp_path / name)
        assert requests.digest(b"key") == wanted
        assert requests.frame["line"].to_list() == lines
        assert requests.frame["source"].unique().to_list() == [name]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "names no column for users or items"),
        ("a.csv", b"user,item\n", "holds no requests"),
        ("a.csv", b"user,form\nalice,2024-01-01\n", "no known name for column 2.*widen"),
        ("a.csv", b"user,user_id\nalice,bob\n", "names a column twice"),
        ("a.csv", b"alice,7\nalice,8\n", "no known name for column 1, 2"),
        ("a.csv", b"from,to\n1,2\n", "Wanted are some of"),
        ("a.csv", b"user,item\nalice,1\nalice\n", "line 3 has 1 fields, the header 2"),
        ("a.csv", b"user,item\n,\n", "line 2 names neither"),
        ("a.csv", b"user\nal\xefce\n", "could not be read"),
        ("a.csv", b'user\n"alice\n', "could not be read"),
        ("a.jsonl", b'{"user": 1}\n{"user": "alice"\n', "line 2 is not a JSON object"),
        ("a.jsonl", b'{"user": "alice", "item": 1, "item": 2}\n', "each key once"),
        ("a.jsonl", b"[1]\n", "line 1 is not a JSON object"),
        ("a.jsonl", b"", "holds no requests"),
        ("a.parquet", b"PAR1", "could not be read"),
        ("a.xml", b"", r"ends in \.xml"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_without_its_content(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=message) as caught:
        read_requests(tmp_path / name)
    assert "alice" not in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        read_requests(tmp_path / "a.csv")


def test_the_digest_is_a_keyed_one_of_the_distinct_requests() -> None:
    requests = Requests.of(SAME)
    again = Requests.of(reversed(SAME)) + requests
    assert again.digest(b"key") == requests.digest(b"key")
    assert requests.digest(b"other") != requests.digest(b"key")
    assert Requests.of(SAME[:2]).digest(b"key") != requests.digest(b"key")
    assert Requests.of([{"user": 1}]).digest(b"k") == hmac.new(b"k", b"1:1---", hashlib.sha256).hexdigest()
    assert Requests.of([{"item": 1}]).digest(b"k") != Requests.of([{"user": 1}]).digest(b"k")


def test_representations_hold_no_ids() -> None:
    assert "alice" not in repr(Requests.of([Request(user="alice")])) + repr(Request(user="alice"))
    match = Requests.of([{"user": 2}, {"user": 9}]).match(numbered(), missing="ignore")
    assert (
        repr(match)
        == "Match(5 events looked at, RequestCounts(2 events, 1 honoured, 0 repeated, 1 missing, 0 null times))"
    )


def test_pairs_need_two_of_a_length() -> None:
    assert len(Requests.pairs(np.array([1, 2]), ["a", 3])) == 2
    with pytest.raises(RequestError, match="2 users and 1 items"):
        Requests.pairs([1, 2], [3])


IDS = st.one_of(st.none(), st.integers(0, 4))
BOUNDS = st.one_of(st.none(), st.integers(0, 6), st.floats(0, 6))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), BOUNDS), min_size=1, max_size=25),
    st.lists(st.tuples(IDS, IDS, BOUNDS, BOUNDS), max_size=8),
)
def test_matching_agrees_with_the_definition(data_rows: list[Any], asked: list[Any]) -> None:
    asked = [row for row in asked if row[:2] != (None, None) and (None in row[2:] or row[2] <= row[3])]
    users, items, times = (list(column) for column in zip(*data_rows, strict=True))
    full = Interactions.from_columns(
        pl.Series(users), pl.Series(items), times=pl.Series(times, dtype=pl.Float64, strict=False)
    )

    def meets(event: Any, request: Any) -> bool:
        (user, item, at), (asked_user, asked_item, start, end) = event, request
        in_time = (start is None and end is None) or (
            at is not None and (start is None or start <= at) and (end is None or at <= end)
        )
        return asked_user in (None, user) and asked_item in (None, item) and in_time

    expected = [any(meets(event, request) for request in asked) for event in data_rows]
    requests = Requests.of([Request(user=u, item=i, start=s, end=e) for u, i, s, e in asked])
    if all(expected):
        with pytest.raises(NothingRemains):
            requests.match(full, missing="ignore")
        return
    match = requests.match(full, missing="ignore")
    assert match.mask.tolist() == expected
    met = {request for request in asked if any(meets(event, request) for event in data_rows)}
    assert match.counts.n_honoured == len(met)
    assert match.counts.n_honoured + match.counts.n_repeated + match.counts.n_missing == len(asked)


def test_a_million_events_meet_a_hundred_thousand_requests() -> None:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 20_000, 1_000_000), rng.integers(0, 5_000, 1_000_000)
    times = np.arange(1_000_000)
    full = Interactions.from_columns(pl.Series(users), pl.Series(items), times=pl.Series(times))
    chosen = rng.choice(1_000_000, 100_000, replace=False)
    # One user asks for every one of their events as a period of its own: no product of requests and events.
    one = Requests.of([{"user": int(users[0]), "from": t, "to": t + 500_000} for t in range(20_000)])
    requests = Requests.pairs(pl.Series(users[chosen]), pl.Series(items[chosen])) + one
    match = requests.match(full)
    pairs = users * 5_000 + items
    wanted = np.isin(pairs, pairs[chosen]) | ((users == users[0]) & (times < 520_000))
    np.testing.assert_array_equal(match.mask, wanted)
