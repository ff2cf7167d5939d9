"""A model as a folder: tensors, ids and a manifest with the digest of each file; never pickle.

parameters.safetensors   the model's own tensors: `users` [n_users, dim], `items` [n_items, dim], and `h` [dim] for ENMF
users.parquet            column `id` in row order, null where a whole id was forgotten
items.parquet            the same for items
manifest.json            format version, settings, SHA-256 of each file, and what `versions` has to say: never an id
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from alteraser.data.interactions import Vocabulary
from alteraser.errors import AlteraserError, ModelFileError
from alteraser.models.base import Storable
from alteraser.models.registry import kinds, registered

FORMAT, VERSION = "alteraser-model", 2
READABLE = (1, VERSION)  # format 1 kept less of each batch of requests
PARAMETERS, USERS, ITEMS, MANIFEST = (
    "parameters.safetensors",
    "users.parquet",
    "items.parquet",
    "manifest.json",
)


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
            "files": {name: _sha256(content) for name, content in files.items()},
            **self.record,
        }
        text = json.dumps(manifest | {"sha256": _manifest_digest(manifest)}, indent=2, allow_nan=False)
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


def read_checkpoint(folder: Path) -> tuple[Checkpoint, str]:
    """The model in a folder and the manifest's digest; every file is checked before anything is made of it."""
    manifest = _read_manifest(folder)
    digest = _manifest_digest(manifest)
    files = {name: _read_checked(folder, name, wanted) for name, wanted in manifest.pop("files").items()}
    with making_sense_of(folder):
        tensors = safetensors.torch.load(files[PARAMETERS])
        checkpoint = Checkpoint(
            model=_model(manifest.pop("model"), tensors, manifest.pop("settings")),
            user_vocabulary=_vocabulary(files[USERS]),
            item_vocabulary=_vocabulary(files[ITEMS]),
            record={name: value for name, value in manifest.items() if name not in ("format", "version")},
        )
    sizes = (checkpoint.model.n_users, checkpoint.model.n_items)
    if sizes != (len(checkpoint.user_vocabulary), len(checkpoint.item_vocabulary)):
        raise ModelFileError(
            f"{folder}: the tables and the lists of ids differ in size. Take it from a backup."
        )
    return checkpoint, digest


@contextmanager
def making_sense_of(folder: Path) -> Iterator[None]:
    """Whatever fails in the block because the manifest or a file is not what it should be is a `ModelFileError`."""
    try:
        yield
    except ModelFileError:
        raise
    except (
        AlteraserError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        safetensors.SafetensorError,
        pl.exceptions.PolarsError,
    ) as error:
        raise ModelFileError(
            f"{folder} is not a whole model ({type(error).__name__} while reading it). Take it from a backup or train "
            f"it again."
        ) from None


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


def _vocabulary(content: bytes) -> Vocabulary:
    return Vocabulary(pl.read_parquet(io.BytesIO(content), columns=["id"])["id"])


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise ModelFileError(
            f"{folder} is not a model: {MANIFEST} could not be read ({error.strerror}). Give the folder that "
            f"`alteraser train` or `forget` wrote."
        ) from None
    except ValueError:
        raise ModelFileError(
            f"{folder / MANIFEST} is damaged: it is not JSON. Take the model from a backup."
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{folder / MANIFEST} does not describe an alteraser model.")
    if manifest.get("version") not in READABLE:
        raise ModelFileError(
            f"{folder} has format version {manifest.get('version')!r}; this alteraser reads "
            f"{' and '.join(map(str, READABLE))}. Use the version that wrote it, or train the model again."
        )
    if manifest.pop("sha256", None) != _manifest_digest(manifest):
        raise ModelFileError(
            f"{folder / MANIFEST} was changed after it was written. Take the model from a backup."
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or set(files) != {PARAMETERS, USERS, ITEMS}:
        raise ModelFileError(
            f"{folder / MANIFEST} does not name the files {PARAMETERS}, {USERS} and {ITEMS}."
        )
    return manifest


def _read_checked(folder: Path, name: str, digest: str) -> bytes:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise ModelFileError(
            f"{folder / name} could not be read ({error.strerror}). Take the model from a backup."
        ) from None
    if _sha256(content) != digest:
        raise ModelFileError(
            f"{folder / name} is damaged or belongs to another model: its SHA-256 differs from the manifest's. Take "
            f"the model from a backup or train it again."
        )
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _manifest_digest(manifest: dict[str, Any]) -> str:
    return _sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())
