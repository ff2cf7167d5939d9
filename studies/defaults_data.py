"""The data that default settings are judged on: nine data sets, parts of them, and generated ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alteraser.data.datasets import DATA_FOLDER_VARIABLE
from alteraser.data.files import read_interactions
from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.data.split import holdout
from alteraser.data.synthetic import synthetic
from alteraser.errors import SettingError

# Their files and the columns of users, from small to large.
ORIGINALS = {
    "amazon-14core": ("interactions.parquet", "user_id"),
    "ml-100k": ("interactions.parquet", "user_id"),
    "kuairec-binary": ("interactions.parquet", "user_id"),
    "tafeng": ("baskets.parquet", "user_id"),
    "ml-1m": ("interactions.parquet", "user_id"),
    "amazon-sports": ("interactions.parquet", "user_id"),
    "amazon-book-kgat": ("interactions.parquet", "user_id"),
    "amazon-beauty": ("interactions.parquet", "user_id"),
    "diginetica": ("sessions.parquet", "session_id"),
}
GENERATED = {
    "generated-sparse": {"n_users": 4000, "n_items": 1200, "mean_interactions": 8},
    "generated-dense": {"n_users": 800, "n_items": 500, "mean_interactions": 60},
    "generated-many-users": {"n_users": 20_000, "n_items": 600, "mean_interactions": 15},
}
KEPT = 0.25  # of users, of items; and of pairs, whose density then falls alike


@dataclass(frozen=True)
class DataCase:
    """One data set of the study, and the original that it is derived from: a rule must have seen neither."""

    name: str
    origin: str
    load: Callable[[Path], Interactions]


def data_cases() -> Iterator[DataCase]:
    """All of them, originals first."""
    for name in ORIGINALS:
        yield DataCase(name, name, lambda folder, name=name: _original(name, folder))  # type: ignore[misc]
    for name in ORIGINALS:
        for part, keep in (("users", _fewer_users), ("items", _fewer_items), ("pairs", _fewer_pairs)):
            yield DataCase(
                f"{name}-{part}",
                name,
                lambda folder, name=name, keep=keep: keep(_original(name, folder)),  # type: ignore[misc]
            )
    for name, settings in GENERATED.items():
        yield DataCase(
            name,
            name,
            lambda _, settings=settings: synthetic(np.random.default_rng(0), **settings).data,  # type: ignore[misc]
        )


def data_folder(given: Path | None) -> Path:
    """The folder of data sets: the given one, or that of the environment."""
    found = given or os.environ.get(DATA_FOLDER_VARIABLE)
    if found is None:
        raise SettingError(f"No folder of data sets: name it with --data-dir or ${DATA_FOLDER_VARIABLE}.")
    return Path(found)


def named_case(name: str) -> DataCase:
    for case in data_cases():
        if case.name == name:
            return case
    raise SettingError(
        f"There is no case {name!r}; known are {', '.join(case.name for case in data_cases())}."
    )


def _original(name: str, folder: Path) -> Interactions:
    file, user = ORIGINALS[name]
    path = folder / name / file
    if not path.is_file():
        raise SettingError(f"{path} is not there. Name the folder of data sets in ${DATA_FOLDER_VARIABLE}.")
    return read_interactions(path, user=user, item="item_id", any_rating=True)


def _fewer_users(data: Interactions) -> Interactions:
    return _kept(data, Side.USERS)


def _fewer_items(data: Interactions) -> Interactions:
    return _kept(data, Side.ITEMS)


def _fewer_pairs(data: Interactions) -> Interactions:
    kept, _ = holdout(data, fraction=1 - KEPT, rng=np.random.default_rng(1))
    return _renumbered(kept)


def _kept(data: Interactions, side: Side) -> Interactions:
    """The data of a random quarter of the rows of a side, as it would come in a file of its own."""
    chosen = np.random.default_rng(1).random(data.n_users if side is Side.USERS else data.n_items) < KEPT
    rows = data.users if side is Side.USERS else data.items
    return _renumbered(data.only(chosen[rows]))


def _renumbered(data: Interactions) -> Interactions:
    return interactions(data.to_frame())
