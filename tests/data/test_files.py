"""Files read back as they were written, and refuse what cannot be read."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alteraser.data.files import read_ids, read_interactions, write_interactions, written_read_options
from alteraser.data.interactions import Interactions
from alteraser.data.read_options import ReadOptions
from alteraser.errors import ColumnError, DataError, SettingError

TEXT = "user_id,item_id,score,when\n1,007,2.5,2024-01-01\n2,8,1,2024-01-02T10:00:00Z\n"


def test_a_csv_keeps_ids_that_are_not_plain_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(TEXT)
    data = read_interactions(path, weight="score", time="when")
    assert data.to_frame().rows() == [
        (1, "007", 2.5, datetime(2024, 1, 1)),
        (2, "8", 1.0, datetime(2024, 1, 2, 10)),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.CSV", TEXT.encode()),
        ("data.csv", b"\xef\xbb\xbf" + TEXT.encode()),
        ("data.csv", TEXT.replace("\n", "\r\n").encode()),
        ("data.csv", TEXT.encode() + b"\n\n"),
        ("data.csv.gz", gzip.compress(TEXT.encode())),
        ("data.tsv", TEXT.replace(",", "\t").encode()),
        ("data.tsv.gz", gzip.compress(TEXT.replace(",", "\t").encode())),
    ],
)
def test_the_forms_of_a_text_file_read_the_same(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert read_interactions(path, any_rating=True).to_frame().rows() == [(1, "007"), (2, "8")]


def test_recbole_files_lose_the_types_in_their_header(tmp_path: Path) -> None:
    path = tmp_path / "ml.inter"
    path.write_text(
        'user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t"5\t3\t88\n2\t6\t4\t99.5\n'
    )
    plain = read_interactions(path, any_rating=True)
    assert plain.to_frame().columns == ["user_id", "item_id"]
    data = read_interactions(path, weight="rating", time="timestamp", min_rating=3.5)
    assert data.to_frame().rows() == [(2, "6", 4.0, 99.5)]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_what_is_written_reads_back(tmp_path: Path, name: str) -> None:
    data = Interactions.from_columns(
        pl.Series(["ann", 'b"o,b', "ann"]),
        pl.Series([3, 1, 3]),
        pl.Series([0.5, 1.0, 0.1]),
        pl.Series([datetime(2024, 1, 1, 12, 0, 0, 5), None, datetime(2023, 1, 1)]),
    )
    write_interactions(data, tmp_path / name)
    back = read_interactions(tmp_path / name, read_options=written_read_options(data))
    assert back.to_frame().equals(data.to_frame())
    assert back.digest() == data.digest()


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.integers()), min_size=1, max_size=8))
def test_any_ids_survive_a_csv(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("ids") / "data.csv"
    data = Interactions.from_columns(pl.Series([u for u, _ in pairs]), pl.Series([str(i) for _, i in pairs]))
    write_interactions(data, path)
    assert read_interactions(path).digest() == data.digest()


def write_nothing(path: Path) -> None:
    path.touch()


def write_header(path: Path) -> None:
    path.write_text("user_id,item_id\n")


def write_ragged(path: Path) -> None:
    path.write_text("user_id,item_id\nalice,2,3\n")


def write_latin(path: Path) -> None:
    path.write_bytes(b"user_id,item_id\nal\xefce,2\n")


def write_no_header(path: Path) -> None:
    path.write_text("alice,1\nbob,2\n")


def write_semicolons(path: Path) -> None:
    path.write_text("user_id;item_id;note\nalice;1;x\n")


def write_prose(path: Path) -> None:
    path.write_text("alice has one\nalice and bob have two\n")


def write_one_word_each(path: Path) -> None:
    path.write_text("alice\nbob\n")


def write_names_only_once(path: Path) -> None:
    path.write_text("alice,matrix\nbob,alien\n")


def write_empty_id(path: Path) -> None:
    path.write_text('user_id,item_id\nalice,1\n"",2\n')


def write_unclosed(path: Path) -> None:
    path.write_text('user_id,item_id\n"alice,2\n')


def write_blank_id(path: Path) -> None:
    path.write_text("user_id,item_id\nalice,1\n,2\n")


def write_words(path: Path) -> None:
    path.write_text("user_id,item_id,weight\nalice,1,secret\n")


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("a.csv", write_nothing, "is empty"),
        ("a.parquet", write_nothing, "is empty"),
        ("a.csv", write_header, "holds no interactions"),
        ("a.csv", write_ragged, "could not be read as .csv"),
        ("a.csv", write_latin, "UTF-8"),
        ("a.csv", write_no_header, "not a header"),
        (
            "a.csv",
            write_semicolons,
            r"not split into fields at ',': the first has 3 fields at ';'.*--separator.*';'",
        ),
        ("a.tsv", write_header, r"not split into fields at '\\t'.*2 fields at ','"),
        ("a.txt", write_prose, r"at any usual separator: the first has 3 fields at ' '"),
        ("a.dat", write_one_word_each, "one field at every usual separator"),
        ("a.csv", write_no_header, "--no-header"),
        ("a.csv", write_names_only_once, "none of the 2 .* may lack a header"),
        ("a.csv", write_empty_id, "1 of 2 user ids are null.*data row 2"),
        ("a.csv", write_unclosed, "could not be read as .csv"),
        ("a.csv", write_blank_id, "1 of 2 user ids are null.*data row 2"),
        ("a.parquet", write_header, "could not be read as .parquet"),
        ("a.csv.gz", write_header, "(?s)."),
        ("a.xlsx", write_header, "ending that is not known.*csv"),
        ("a.csv", Path.mkdir, "could not be opened"),
    ],
)
def test_what_cannot_be_read_is_told_without_its_content(
    tmp_path: Path, name: str, write: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / name
    write(path)
    with pytest.raises(DataError, match=message) as caught:
        read_interactions(path)
    assert "alice" not in str(caught.value)


RATINGS = [(1, 1193, 5, 978300760), (1, 661, 3, 978302109), (2, 1193, 4, 978298413)]
PAIRS = [(1, 1193), (1, 661), (2, 1193)]


def lines(separator: str, *, header: str | None = None) -> str:
    rows = [separator.join(map(str, row)) for row in RATINGS]
    return "\n".join([*([separator.join(header.split())] if header else []), *rows]) + "\n"


@pytest.mark.parametrize("ending", ["txt", "dat", "data", "txt.gz"])
@pytest.mark.parametrize("separator", ["::", "\t", ";", "|", ",", " "])
def test_usual_separators_are_found_in_files_whose_ending_tells_none(
    tmp_path: Path, ending: str, separator: str
) -> None:
    path = tmp_path / f"ratings.{ending}"
    for text, options in (
        (lines(separator), {"header": False, "any_rating": True}),
        (lines(separator, header="userId movieId rating timestamp"), {"any_rating": True}),
    ):
        path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
        assert read_interactions(path, **options).to_frame().rows() == PAIRS  # type: ignore[arg-type]


@pytest.mark.parametrize("separator", ["::", "~", " - ", "§", "\t"])
def test_any_separator_can_be_given(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(lines(separator, header="user_id item_id rating time"))
    data = read_interactions(path, separator=separator, min_rating=4, time="time")
    assert data.to_frame().rows() == [(1, 1193, 978300760), (2, 1193, 978298413)]


def test_columns_without_a_header_are_named_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    path.write_text(lines("::"))
    data = read_interactions(path, header=False, user="2", item="1", rating="3", min_rating=4, time="4")
    assert data.to_frame().rows() == [(1193, 1, 978300760), (1193, 2, 978298413)]
    with pytest.raises(ColumnError, match=r"user is '5'; .* from 1 to 4"):
        read_interactions(path, header=False, user="5")
    with pytest.raises(ColumnError, match=r"user is 'userId'; .* from 1 to 4"):
        read_interactions(path, header=False, user="userId")
    with pytest.raises(ColumnError, match="--any-rating"):
        read_interactions(path, header=False, rating="3")
    path.write_text(lines("::", header="userId movieId rating timestamp"))
    with pytest.raises(DataError, match=r"is a header.*--no-header"):
        read_interactions(path, header=False)


def test_the_third_column_without_a_header_is_by_custom_that_of_ratings(tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    path.write_text(lines("::"))
    with pytest.raises(ColumnError, match=r"third column.*--min-rating X.*--any-rating.*--weight-column 3"):
        read_interactions(path, header=False)
    assert read_interactions(path, header=False, min_rating=4).to_frame().rows() == PAIRS[:1] + PAIRS[2:]
    assert read_interactions(path, header=False, any_rating=True).to_frame().rows() == PAIRS
    assert len(read_interactions(path, header=False, weight="3")) == 3
    with pytest.raises(ColumnError, match="rating is 'rating'"):
        read_interactions(path, header=False, min_rating=4, time="3")


@pytest.mark.parametrize(
    "third", [("978300760", "978298413"), ("1", "1"), ("good", "bad"), ("40", "3")], ids=" ".join
)
def test_a_third_column_that_holds_no_ratings_needs_no_word(tmp_path: Path, third: tuple[str, str]) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"1,7,{third[0]}\n2,8,{third[1]}\n")
    assert len(read_interactions(path, header=False)) == 2


@pytest.mark.parametrize("separator", ["", "\n", 'a"b', 5])
def test_what_separates_nothing_is_refused(separator: Any) -> None:
    with pytest.raises(SettingError, match="separator is"):
        ReadOptions(separator=separator)


def test_a_control_sign_does_not_become_a_separator(tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    path.write_text("1::a\x1fb\n2::c\n")
    with pytest.raises(DataError, match="0x1F"):
        read_interactions(path, header=False)


def test_a_missing_file_a_missing_column_and_words_for_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(DataError, match="No such file"):
        read_interactions(path)
    write_words(path)
    with pytest.raises(DataError, match=r"weight column .* data row 1") as caught:
        read_interactions(path, weight="weight")
    assert "secret" not in str(caught.value)
    with pytest.raises(ColumnError, match="user_id, item_id, weight"):
        read_interactions(path, user="who")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "user_id\nann\nbob\n\n"),
        ("a.csv", "user_id,name\nann,x\nbob,\n\n\n"),
        ("a.inter", "user_id:token\tage:float\nann\t3\nbob\t4\n\n"),
        ("a.inter", "user_id:token\nann\nbob\n"),
    ],
)
def test_ids_are_read_from_the_same_files_as_interactions(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_ids(tmp_path / name, "user_id").to_list() == ["ann", "bob"]


def test_a_file_of_ids_without_the_column_is_told_without_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("userId,age\nann,3\n")
    assert read_ids(path, "user_id").to_list() == ["ann"]
    path.write_text("who_id,age\nann,3\n")
    with pytest.raises(ColumnError, match=r"no column 'user_id'.*the columns are who_id, age"):
        read_ids(path, "user_id")
    path.write_text("ann\nbob\n")
    with pytest.raises(ColumnError, match="may lack a header") as caught:
        read_ids(path, "user_id")
    assert "ann" not in str(caught.value)
    path.write_text("user_id\n\n")
    with pytest.raises(DataError, match="holds no ids"):
        read_ids(path, "user_id")


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1.0, 2.0], [1, 2]),
        ([1.5, 2.0], ["1.5", "2"]),
        ([True, False], ["true", "false"]),
        ([b"a", b"b"], ["a", "b"]),
        (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "b"]),
    ],
)
def test_ids_of_any_type_are_plain_when_read(tmp_path: Path, ids: Any, expected: list[Any]) -> None:
    pl.DataFrame({"user_id": ids}).write_parquet(tmp_path / "a.parquet")
    assert read_ids(tmp_path / "a.parquet", "user_id").to_list() == expected


def test_lists_are_no_ids(tmp_path: Path) -> None:
    pl.DataFrame({"user_id": [[1], [2]]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="user ids are of type List"):
        read_ids(tmp_path / "a.parquet", "user_id")
