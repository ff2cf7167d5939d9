"""A model as a folder: tensors, ids and a manifest with the digest of each file; never pickle.

parameters.safetensors   the model's own tensors: `users` [n_users, dim], `items` [n_items, dim], and `h` [dim] for ENMF
users.parquet            column `id` in row order, null where a whole id was forgotten
items.parquet            the same for items
manifest.json            format version, settings, SHA-256 of each file, and what `versions` has to say: never an id
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import safetensors.torch
import torch
from torch import Tensor

from alteraser.data.interactions import Vocabulary
from alteraser.errors import ModelFileError
from alteraser.models.base import Storable
from alteraser.models.folder import (
    FORMAT,
    ITEMS,
    MANIFEST,
    PARAMETERS,
    USERS,
    VERSION,
    check_sizes,
    manifest_digest,
    raising_model_file_errors,
    read_folder,
    sha256,
)
from alteraser.models.registry import kinds, registered


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoint:
    """A model with the ids of its rows, and what else its manifest says, in plain JSON values."""

    model: Storable
    user_vocabulary: Vocabulary
    item_vocabulary: Vocabulary
    record: Mapping[str, Any]

    def files(self) -> dict[str, bytes]:
        """The content of the folder's files by their names; that of the manifest holds the digests of the others."""
        files = {PARAMETERS: safetensors.torch.save(_tensors(self.model))}
        for name, vocabulary in ((USERS, self.user_vocabulary), (ITEMS, self.item_vocabulary)):
            pl.DataFrame({"id": vocabulary.ids}).write_parquet(content := io.BytesIO())
            files[name] = content.getvalue()
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "model": self.model.kind,
            "settings": self.model.settings(),
            "files": {name: sha256(content) for name, content in files.items()},
            **self.record,
        }
        text = json.dumps(manifest | {"sha256": manifest_digest(manifest)}, indent=2, allow_nan=False)
        return files | {MANIFEST: (text + "\n").encode()}


def storable(model: object) -> Storable:
    """The model itself; raises if it is of no kind that can be stored."""
    if isinstance(model, Storable) and model.kind in kinds():
        return model
    raise ModelFileError(
        f"A {type(model).__name__} came; known are {', '.join(kinds())}. To have another model stored, make it "
        f"`alteraser.Storable` and `alteraser.register` its class."
    )


def digest_of(files: Mapping[str, bytes]) -> str:
    """The digest that the manifest among the files has of itself, and so of all of them."""
    return str(json.loads(files[MANIFEST])["sha256"])


def read_checkpoint(path: Path) -> tuple[Checkpoint, str]:
    """The model in a folder and the manifest's digest; every file is checked before anything is made of it."""
    manifest, files, digest = folder = read_folder(path)
    with raising_model_file_errors(path):
        tensors = safetensors.torch.load(files[PARAMETERS])
        users, items = folder.vocabularies()
        checkpoint = Checkpoint(
            model=_model(manifest.pop("model"), tensors, manifest.pop("settings")),
            user_vocabulary=users,
            item_vocabulary=items,
            record={name: value for name, value in manifest.items() if name not in ("format", "version")},
        )
    check_sizes(path, (checkpoint.model.n_users, checkpoint.model.n_items), (users, items))
    return checkpoint, digest


def _tensors(model: Storable) -> dict[str, Tensor]:
    tensors = model.tensors()
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise ModelFileError(
                f"The model's table {name!r} holds numbers that are not finite; it is not written."
            )
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def _model(kind: str, tensors: dict[str, Tensor], settings: Mapping[str, Any]) -> Storable:
    for which, tensor in tensors.items():
        if not (tensor.is_floating_point() and torch.isfinite(tensor).all()):
            raise ModelFileError(
                f"The tensor {which!r} holds numbers that are not finite. Take the model from a backup."
            )
    return registered(kind).from_tensors(tensors, settings)
