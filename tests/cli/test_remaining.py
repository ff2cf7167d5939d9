"""`forget --remaining`: the data as its owner keeps it, without what was forgotten and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Ok = Callable[..., Any]
SMALL = ("--dim", 2, "--max-passes", 2)
READING = ("--time-column", "when", "--min-rating", 3)


@pytest.fixture
def store(workspace: Path) -> pl.DataFrame:
    """Rows with more columns than are read, some of them twice, some rated too low, ids with leading zeros."""
    data = pl.read_csv(workspace / "data.csv")
    table = data.select(
        note=pl.lit('said "hello", then left'),
        user_id=pl.col("member").str.slice(7, 3),
        price=pl.lit("1.50"),
        item_id=pl.col("product").str.slice(6),
        rating=pl.col("rating"),
        when=pl.col("day"),
    )
    return pl.concat([table, table.head(7)])


def write(table: pl.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")


def read(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema=False)


@pytest.mark.parametrize("source", ["store.csv", "store.parquet", "store.tsv"])
@pytest.mark.parametrize("rest", ["rest.csv", "rest.parquet"])
def test_all_columns_and_rows_stay_but_the_forgotten(
    ok: Ok, store: pl.DataFrame, tmp_path: Path, source: str, rest: str
) -> None:
    model, data = tmp_path / "model", tmp_path / source
    write(store, data)
    trained = ok("train", data, *READING, *SMALL, "--out", model)
    asked = ("--user", "005", "--item", "07", "--pair", "001", "03")
    result = ok("forget", model, data, *asked, "--out", tmp_path / "model2", "--remaining", tmp_path / rest)
    user, item = pl.col("user_id"), pl.col("item_id")
    left = store.filter(~((user == "005") | (item == "07") | ((user == "001") & (item == "03"))))
    assert (left["rating"] < 3).any()
    text = left.with_columns(pl.all().cast(pl.String))
    assert read(tmp_path / rest).with_columns(pl.col("rating").cast(pl.Int64)).cast(pl.String).equals(text)
    assert result["remaining_interactions"] == len(left.filter(pl.col("rating") >= 3))
    assert result["remaining_interactions"] < trained["interactions"]
    # What remained is read as the data was, with nothing said again, and so on.
    more = ("--user", "006", "--from", "2024-03-01")
    outputs = ("--out", tmp_path / "model3", "--remaining", tmp_path / "rest3.csv")
    ok("forget", tmp_path / "model2", tmp_path / rest, *more, *outputs)
    assert read(tmp_path / "rest3.csv").height == len(left.filter(user != "006"))


def test_what_is_rated_too_low_to_be_trained_on_is_forgotten_as_well(
    ok: Ok, store: pl.DataFrame, tmp_path: Path
) -> None:
    write(store, tmp_path / "store.csv")
    ok("train", tmp_path / "store.csv", *READING, *SMALL, "--out", tmp_path / "model")
    low = store.filter(pl.col("user_id") == "005", pl.col("rating") < 3)
    assert len(low) > 0
    outputs = ("--out", tmp_path / "model2", "--remaining", tmp_path / "rest.csv")
    ok("forget", tmp_path / "model", tmp_path / "store.csv", "--user", "005", *outputs)
    assert "005" not in read(tmp_path / "rest.csv")["user_id"].to_list()


def test_a_request_of_what_was_never_trained_on_is_no_typing_error(
    run: Any, ok: Ok, store: pl.DataFrame, tmp_path: Path
) -> None:
    """A pair that was rated too low, and a user who rated nothing else: gone from the store, as was asked."""
    user, item = pl.col("user_id"), pl.col("item_id")
    store = store.filter(~((user == "006") & (pl.col("rating") >= 3)))
    write(store, tmp_path / "store.csv")
    model, data, rest = tmp_path / "model", tmp_path / "store.csv", tmp_path / "rest.csv"
    ok("train", data, *READING, *SMALL, "--out", model)
    low = store.filter(user == "005", pl.col("rating") < 3)["item_id"][0]
    asked = (
        "forget",
        model,
        data,
        "--pair",
        "005",
        low,
        "--user",
        "006",
        "--out",
        tmp_path / "model2",
        "--force",
    )
    told = run(*asked)
    assert told.code == 0, told.err
    assert "2 requests of what was never trained on (rated below 3): still in the data" in told.out
    assert "--remaining" in told.out
    result = ok(*asked, "--remaining", rest)
    assert (result["requests"]["not_trained_on"], result["requests"]["missing"]) == (2, 0)
    left = store.filter(~(((user == "005") & (item == low)) | (user == "006")))
    assert read(rest).rows() == left.cast(pl.String).rows()
    assert "not in the remaining data any more" in run(*asked, "--remaining", rest).out
    # Beside one that is nowhere it is not counted among the errors, and nothing is written.
    refused = run(*asked, "--user", "zoe", "--out", tmp_path / "model3")
    assert refused.code == 2
    assert "1 of 3 requests" in refused.err
    assert "--user number 2" in refused.err
    ok("forget", tmp_path / "model2", rest, "--user", "005", "--out", tmp_path / "model3")


def test_the_rest_of_a_store_of_which_a_core_was_trained_on_stays(
    ok: Ok, store: pl.DataFrame, tmp_path: Path
) -> None:
    write(store, tmp_path / "store.csv")
    core = int(store.unique(["user_id", "item_id"]).group_by("user_id").len()["len"].sort()[4])
    trained = ok(
        *("train", tmp_path / "store.csv", "--any-rating", "--min-interactions", core, *SMALL),
        *("--out", tmp_path / "model"),
    )
    assert trained["users"] < store["user_id"].n_unique()
    before = tmp_path / "model", tmp_path / "store.csv"
    left = store
    for number, item in enumerate(["05", "06", "07"]):
        after = tmp_path / f"model{number}", tmp_path / f"rest{number}.csv"
        ok("forget", *before, "--item", item, "--out", after[0], "--remaining", after[1])
        left, before = left.filter(pl.col("item_id") != item), after
        assert read(after[1]).height == len(left)


@pytest.mark.parametrize("separator", ["::", ";", ","])
@pytest.mark.parametrize("name", ["rest.csv", "rest.dat"])
def test_a_file_without_a_header_keeps_its_form(
    ok: Ok, store: pl.DataFrame, tmp_path: Path, separator: str, name: str
) -> None:
    data, rest = tmp_path / "ratings.dat", tmp_path / name
    lines = [
        separator.join(map(str, row)) + "\n" for row in store.select("user_id", "item_id", "rating").rows()
    ]
    data.write_text("".join(lines))
    ok("train", data, "--no-header", "--any-rating", *SMALL, "--out", tmp_path / "model")
    ok("forget", tmp_path / "model", data, "--user", "005", "--out", tmp_path / "model2", "--remaining", rest)
    assert rest.read_text() == "".join(line for line in lines if not line.startswith("005"))
    more, third = ("--user", "006", "--out", tmp_path / "model3"), tmp_path / "rest3.parquet"
    ok("forget", tmp_path / "model2", rest, *more, "--remaining", third)
    assert pl.read_parquet(third).columns == ["column_1", "column_2", "column_3"]
    ok("forget", tmp_path / "model3", third, "--user", "007", "--out", tmp_path / "model4")


def test_a_separator_of_its_own_stays(ok: Ok, store: pl.DataFrame, tmp_path: Path) -> None:
    data, rest = tmp_path / "store.csv", tmp_path / "rest.csv"
    store.write_csv(data, separator=";")
    ok("train", data, "--separator", ";", *READING, *SMALL, "--out", tmp_path / "model")
    ok("forget", tmp_path / "model", data, "--user", "005", "--out", tmp_path / "model2", "--remaining", rest)
    left = store.filter(pl.col("user_id") != "005")
    assert pl.read_csv(rest, separator=";", infer_schema=False).equals(left.cast(pl.String))
    ok("forget", tmp_path / "model2", rest, "--user", "006", "--out", tmp_path / "model3")


def test_whole_numbers_kept_as_fractions_stay_the_same_ids_in_csv(ok: Ok, tmp_path: Path) -> None:
    table = pl.DataFrame({"user_id": [1.0, 1.0, 2.0, 3.0], "item_id": [7, 8, 7, 8], "tags": ["a"] * 4})
    table.write_parquet(tmp_path / "d.parquet")
    ok("train", tmp_path / "d.parquet", *SMALL, "--out", tmp_path / "model")
    outputs = ("--out", tmp_path / "model2", "--remaining", tmp_path / "rest.csv")
    ok("forget", tmp_path / "model", tmp_path / "d.parquet", "--user", 2, *outputs)
    ok("forget", tmp_path / "model2", tmp_path / "rest.csv", "--user", 3, "--out", tmp_path / "model3")


def test_lists_do_not_go_into_csv(run: Any, ok: Ok, tmp_path: Path) -> None:
    table = pl.DataFrame({"user_id": [1, 1, 2, 3], "item_id": [7, 8, 7, 8], "tags": [["a"]] * 4})
    table.write_parquet(tmp_path / "d.parquet")
    ok("train", tmp_path / "d.parquet", *SMALL, "--out", tmp_path / "model")
    forget = ("forget", tmp_path / "model", tmp_path / "d.parquet", "--user", 2, "--out", tmp_path / "model2")
    refused = run(*forget, "--remaining", tmp_path / "rest.csv")
    assert refused.code == 2
    assert ".parquet" in refused.err
    assert not (tmp_path / "model2").exists()
    ok(*forget, "--remaining", tmp_path / "rest.parquet")
    assert pl.read_parquet(tmp_path / "rest.parquet").equals(table.filter(pl.col("user_id") != 2))


def test_the_embedded_data_set_remains_as_well(ok: Ok, tmp_path: Path) -> None:
    ok("train", "synthetic", *SMALL, "--out", tmp_path / "model")
    outputs = ("--out", tmp_path / "model2", "--remaining", tmp_path / "rest.parquet")
    result = ok("forget", tmp_path / "model", "synthetic", "--user", "user-0042", *outputs, "--max-passes", 0)
    assert pl.read_parquet(tmp_path / "rest.parquet").height == result["remaining_interactions"]
