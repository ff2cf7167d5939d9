"""Named data sets read from a data folder; `open_data` takes a name or a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

import numpy as np

from alteraser.data.archives import ARCHIVES
from alteraser.data.files import READABLE, read_interactions, readable_ending
from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions
from alteraser.data.read_options import ReadKeywords, ReadOptions
from alteraser.data.synthetic import Synthetic, synthetic
from alteraser.errors import DataError, DatasetNotFound

# Ratings are kept out of the weights: the papers take every rating as one positive.
DATASETS = {
    "ml-1m": ReadOptions(time="time_rank", any_rating=True),
    "amazon-14core": ReadOptions(),
    "kuairec-binary": ReadOptions(time="time_rank"),
    "ml-100k": ReadOptions(time="timestamp", any_rating=True),
    "synthetic": ReadOptions(time="time"),
    "hobbies": ReadOptions(time="time"),
}
# Generated anew each time: "synthetic" is small enough for a quick try, "hobbies" large enough that retraining takes
# seconds.
EMBEDDED = {
    "synthetic": {"n_users": 1_500, "n_items": 600},
    "hobbies": {"n_users": 40_000, "n_items": 3_600},
}
DATA_FOLDER_VARIABLE = "ALTERASER_DATA"
# An embedded set is one fixed set, the same on every machine.
_EMBEDDED_SEED = 0


def usual_read_options(name_or_path: str | Path) -> ReadOptions:
    """How `open_data` reads this name or path unless told otherwise: what a manifest has to remember."""
    return DATASETS.get(str(name_or_path), ReadOptions())


def load_dataset(
    name: str,
    *,
    data_dir: str | Path | None = None,
    read_options: ReadOptions | None = None,
    **options: Unpack[ReadKeywords],
) -> Interactions:
    """A named data set, read in its usual way unless `read_options` or `options` differ.

    It is `<name>/interactions.parquet`, looked for in `data_dir` if given, else in $ALTERASER_DATA and then
    in ~/.cache/alteraser.
    """
    if not is_dataset(name):
        raise DatasetNotFound(f"There is no data set named {name!r}. The names are {', '.join(DATASETS)}.")
    read_options = read_options or DATASETS[name]
    if name in EMBEDDED:
        return interactions(embedded(name).data.to_frame(), read_options=read_options, **options)
    return read_interactions(dataset_file(name, data_dir), read_options=read_options, **options)


def is_dataset(name_or_path: str | Path) -> bool:
    """Whether it is the name of a data set, which goes before a file called the same."""
    return str(name_or_path) in DATASETS


def dataset_file(name: str, data_dir: str | Path | None = None) -> Path:
    """The file of a named data set; raises `DatasetNotFound` if it is in none of its places."""
    places = dataset_places(name, data_dir)
    for path in places:
        if path.is_file():
            return path
    get = f"Get it with `alteraser data fetch {name}`" if name in ARCHIVES else "Put it there"
    raise DatasetNotFound(
        f"The data set {name!r} is not in any of the places looked in: {', '.join(map(str, places))}. {get}, "
        f"name its folder with data_dir= (--data-dir) or ${DATA_FOLDER_VARIABLE}, or use another; "
        f"the names are {', '.join(DATASETS)}."
    )


def embedded(name: str) -> Synthetic:
    """An embedded data set, which needs no file, with its planted tastes."""
    return synthetic(np.random.default_rng(_EMBEDDED_SEED), **EMBEDDED[name])


def open_data(
    name_or_path: str | Path,
    *,
    data_dir: str | Path | None = None,
    read_options: ReadOptions | None = None,
    **options: Unpack[ReadKeywords],
) -> Interactions:
    """The interactions of a named data set or of a file; a name goes before a file called the same."""
    if is_dataset(name_or_path):
        return load_dataset(str(name_or_path), data_dir=data_dir, read_options=read_options, **options)
    path = Path(name_or_path)
    if path.is_file() or (path.exists() and readable_ending(path) is not None):
        return read_interactions(path, read_options=read_options, **options)
    problem = "is a folder" if path.is_dir() else "is neither a file nor the name of a data set"
    raise DataError(
        f"{name_or_path} {problem}. Give the path of a file ({', '.join(READABLE)}) "
        f"or one of the names {', '.join(DATASETS)}."
    )


def dataset_places(name: str, data_dir: str | Path | None = None) -> list[Path]:
    """The files that a named data set may be, in the order they are looked for."""
    return [folder / name / "interactions.parquet" for folder in _folders(data_dir)]


def _folders(data_dir: str | Path | None) -> list[Path]:
    if data_dir is not None:
        return [Path(data_dir)]
    named = os.environ.get(DATA_FOLDER_VARIABLE)
    return [*([Path(named)] if named else []), Path("~/.cache/alteraser").expanduser()]
