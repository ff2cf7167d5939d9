"""Data as people have it: without a header, with other separators, with their own names of columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Ok = Callable[..., Any]
SMALL = ("--dim", 2, "--max-passes", 2)


@pytest.fixture
def ratings(workspace: Path) -> pl.DataFrame:
    """The data with numbers for ids and seconds for times, as MovieLens has it."""
    data = pl.read_csv(workspace / "data.csv", try_parse_dates=True)
    return data.select(
        userId=pl.col("member").str.slice(7, 3).cast(pl.Int64),
        movieId=pl.col("product").str.slice(6).cast(pl.Int64),
        rating=pl.col("rating"),
        timestamp=pl.col("day").cast(pl.Datetime).dt.epoch("s"),
    )


def test_a_file_without_a_header_is_trained_on_and_forgotten_from(
    ok: Ok, run: Any, ratings: pl.DataFrame, tmp_path: Path
) -> None:
    dat, model = tmp_path / "ratings.dat", tmp_path / "model"
    dat.write_text("\n".join("::".join(map(str, row)) for row in ratings.rows()) + "\n")
    refused = run("train", dat, *SMALL, "--out", model)
    assert refused.code == 2
    assert "--no-header" in refused.err
    refused = run("train", dat, "--no-header", *SMALL, "--out", model)
    assert refused.code == 2
    assert "--min-rating X" in refused.err
    assert "--any-rating" in refused.err
    places = ("--no-header", "--min-rating", 3, "--time-column", 4)
    trained = ok("train", dat, *places, *SMALL, "--out", model)
    liked = ratings.filter(pl.col("rating") >= 3)
    assert trained["interactions"] == len(liked)
    # Neither forget nor recommend has to be told again, and dates are understood in a column of seconds.
    result = ok("forget", model, dat, "--user", 5, "--from", "2024-03-10", "--out", tmp_path / "model2")
    march_10 = 1_710_028_800
    gone = liked.filter(pl.col("userId") == 5, pl.col("timestamp") >= march_10)
    assert result["forgotten"]["interactions"] == len(gone) > 0
    listed = ok("recommend", model, dat, "--user", 5, "-k", 99)["recommendations"]
    owned = set(ratings.filter(pl.col("userId") == 5)["movieId"])
    assert listed
    assert not owned & {each["item_id"] for each in listed}


def test_the_usual_names_of_movielens_need_no_option(
    run: Any, ok: Ok, ratings: pl.DataFrame, tmp_path: Path
) -> None:
    ratings.write_csv(tmp_path / "ratings.csv")
    ran = run(
        "train", tmp_path / "ratings.csv", "--any-rating", *SMALL, "--out", tmp_path / "model", "--json"
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["interactions"] == len(ratings)
    assert "Users are in the column userId, items in the column movieId." in ran.err
    ok("forget", tmp_path / "model", tmp_path / "ratings.csv", "--user", 5, "--out", tmp_path / "model2")


def test_a_tab_is_typed_as_people_type_it(ok: Ok, ratings: pl.DataFrame, tmp_path: Path) -> None:
    ratings.write_csv(tmp_path / "ratings.csv", separator="\t")
    options = ("--separator", "\\t", "--min-rating", 4)
    described = ok("data", "describe", tmp_path / "ratings.csv", *options)
    assert described["interactions"] == len(ratings.filter(pl.col("rating") >= 4))
