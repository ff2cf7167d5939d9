"""Loads what recommending needs of a version, without torch, which takes longest to import."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import safetensors.numpy

from alteraser.data.read_options import ReadOptions
from alteraser.measure.recommender import IdRecommender
from alteraser.models.folder import PARAMETERS, check_sizes, raising_model_file_errors, read_folder
from alteraser.models.scoring import TENSOR_NAMES, ScoringTables


class RecommendingVersion(NamedTuple):
    """The model of a version asked by ids, and how its data was read."""

    recommender: IdRecommender
    read_options: ReadOptions


def load_recommender(path: str | Path) -> RecommendingVersion:
    """What recommending needs of the version in a folder, with all files checked as `load_version` checks them.

    A model of a kind that is not built in is loaded by its class.
    """
    folder = read_folder(Path(path))
    if folder.manifest.get("model") not in TENSOR_NAMES:
        from alteraser.versions.version import load_version

        version = load_version(path)
        return RecommendingVersion(version.recommender, version.read_options)
    with raising_model_file_errors(Path(path)):
        tensors = safetensors.numpy.load(folder.files[PARAMETERS])
        model = ScoringTables.of(folder.manifest["model"], tensors, folder.manifest["settings"])
        users, items = folder.vocabularies()
        read_options = ReadOptions.from_dict(folder.manifest["data"]["reading"])
    check_sizes(Path(path), (model.n_users, model.n_items), (users, items))
    return RecommendingVersion(IdRecommender(model, users, items), read_options)
