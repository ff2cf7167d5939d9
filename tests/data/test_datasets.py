"""Named sets are found where they are said to be; the embedded one shows its planted tastes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from alteraser.data.datasets import load_dataset, open_data, usual_read_options
from alteraser.data.interactions import Side
from alteraser.data.read_options import ReadOptions
from alteraser.data.synthetic import TOPICS, synthetic, topic_of
from alteraser.errors import DataError, DatasetNotFound, SettingError

FOLDER = os.environ.get("ALTERASER_DATA")
real_data = pytest.mark.skipif(
    FOLDER is None, reason="ALTERASER_DATA does not name a folder with the data sets"
)


@real_data
@pytest.mark.parametrize(
    ("name", "n_events", "n_users", "n_items", "timed"),
    [
        ("ml-1m", 1_000_209, 6_040, 3_706, True),
        ("amazon-14core", 35_931, 1_435, 1_522, False),
        ("kuairec-binary", 217_175, 1_411, 3_276, True),
        ("ml-100k", 100_000, 943, 1_682, True),
    ],
)
def test_the_public_sets_have_the_published_sizes(
    name: str, n_events: int, n_users: int, n_items: int, timed: bool
) -> None:
    data = load_dataset(name, data_dir=FOLDER)
    assert (len(data), data.n_users, data.n_items) == (n_events, n_users, n_items)
    assert data.by(Side.USERS).n_entries == n_events
    assert (data.times is not None) == timed
    assert "weight" not in data.events.columns


@real_data
def test_options_override_the_usual_read_options() -> None:
    data = load_dataset("ml-100k", data_dir=FOLDER, min_rating=4, weight="rating", time=None)
    assert len(data) == 55_375  # the number of ratings of 4 and 5 that GroupLens publishes
    assert data.times is None


def put(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    pl.DataFrame({"user_id": [1], "item_id": [2]}).write_parquet(folder / name / "interactions.parquet")


def test_a_set_is_looked_for_in_the_folder_the_environment_and_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ALTERASER_DATA", str(tmp_path / "named"))
    with pytest.raises(DatasetNotFound) as caught:
        load_dataset("amazon-14core")
    for part in ("named", "home/.cache/alteraser", "ml-1m", "kuairec-binary", "synthetic", "--data-dir"):
        assert part in str(caught.value)
    cache = tmp_path / "home" / ".cache" / "alteraser"
    for folder in (cache, tmp_path / "given"):
        folder.mkdir(parents=True)
        put(folder, "amazon-14core")
    assert len(load_dataset("amazon-14core")) == 1
    assert len(load_dataset("amazon-14core", data_dir=tmp_path / "given")) == 1
    with pytest.raises(DatasetNotFound):
        load_dataset("amazon-14core", data_dir=tmp_path / "elsewhere")


def test_data_opens_by_name_or_path(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user_id,item_id\n1,2\n")
    assert len(open_data(path)) == len(open_data(str(path))) == 1
    assert open_data("synthetic", min_interactions=20).by(Side.USERS).counts.min() >= 20
    assert open_data("synthetic", read_options=ReadOptions()).times is None
    assert usual_read_options("synthetic") == ReadOptions(time="time")
    assert usual_read_options(path) == ReadOptions()
    for wrong in (tmp_path / "b.csv", "ml-2m"):
        with pytest.raises(DataError, match=r"neither a file nor the name of a data set.*ml-1m"):
            open_data(wrong)
    with pytest.raises(DataError, match="is a folder"):
        open_data(tmp_path)


def test_the_embedded_set_is_the_same_for_a_seed() -> None:
    first = synthetic(np.random.default_rng(1))
    assert first.data.to_frame().equals(synthetic(np.random.default_rng(1)).data.to_frame())
    assert first.data.digest() != synthetic(np.random.default_rng(2)).data.digest()


def test_the_embedded_set_shows_what_was_planted() -> None:
    made = synthetic(np.random.default_rng(0))
    frame = made.data.to_frame()
    assert (made.data.n_users, made.data.n_items) == (1500, 600)
    assert abs(len(frame) / 1500 - 40) < 1
    elsewhere = [
        made.topics_of_items[item] not in made.tastes_of_users[user]
        for user, item in frame.select("user_id", "item_id").iter_rows()
    ]
    assert 0.10 < np.mean(elsewhere) < 0.15
    assert {len(tastes) for tastes in made.tastes_of_users.values()} == {1, 2, 3}
    assert set(made.topics_of_items.values()) == set(TOPICS)
    assert all(made.topics_of_items[name] == topic_of(name) for name in made.topics_of_items)
    assert len(made.topics_of_items) == 600
    times = frame["time"]
    assert times.dt.year().unique().to_list() == [2024]
    assert times.dt.month().n_unique() == 12


def test_the_embedded_set_has_long_tails_and_no_repeated_pairs() -> None:
    data = synthetic(np.random.default_rng(0)).data
    assert data.by(Side.USERS).n_entries == len(data)
    for side in Side:
        counts = np.sort(data.by(side).counts)
        assert counts[-len(counts) // 10 :].sum() > 0.2 * counts.sum()
        assert counts.max() > 2.5 * np.median(counts)


def test_the_larger_embedded_set_is_there_by_name() -> None:
    data = load_dataset("hobbies")
    assert (data.n_users, data.n_items) == (40_000, 3_600)
    assert abs(data.by(Side.USERS).n_entries / 40_000 - 40) < 1
    assert {"user-0042", "user-39999"} <= set(data.user_vocabulary.ids)
    assert data.times is not None


def test_sizes_that_cannot_be_drawn_are_refused_and_others_are_not() -> None:
    with pytest.raises(SettingError, match="48 items"):
        synthetic(np.random.default_rng(0), n_items=10)
    many = synthetic(np.random.default_rng(0), n_users=30, n_items=1500)
    assert len(many.topics_of_items) == 1500
