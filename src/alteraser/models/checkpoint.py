"""A model as a folder: tensors, ids and a manifest with the digest of each file; never pickle.

parameters.safetensors   the model's own tensors: `users` [n_users, dim], `items` [n_items, dim], and `h` [dim] for ENMF
users.parquet            column `id` in row order, null where a whole id was forgotten
items.parquet            the same for items
manifest.json            format version, settings, how it was trained, SHA-256 of each file, digest of the data, and of
                         each batch of requests that made the model its keyed digest and count: never an id
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from alteraser.data.files import written_read_options
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.data.read_options import ReadOptions
from alteraser.data.writing import atomic_folder
from alteraser.errors import AlteraserError, MismatchError, ModelFileError
from alteraser.models.base import Factored, Storable
from alteraser.models.registry import kinds, registered

FORMAT, VERSION = "alteraser-model", 1
PARAMETERS, USERS, ITEMS, MANIFEST = (
    "parameters.safetensors",
    "users.parquet",
    "items.parquet",
    "manifest.json",
)


@dataclass(frozen=True)
class Batch:
    """A batch of requests that was forgotten: its keyed digest and the number of its distinct requests."""

    digest: str
    count: int


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model with what its files say of it: whose rows it has, what it was trained on and how, what it forgot.

    `training` holds plain settings that `train.named` makes a trainer of; None where nobody said.
    """

    model: Storable
    user_vocabulary: Vocabulary
    item_vocabulary: Vocabulary
    read_options: ReadOptions
    data_digest: str
    erased: tuple[Batch, ...] = ()
    training: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        model: Factored,
        data: Interactions,
        *,
        read_options: ReadOptions | None = None,
        erased: tuple[Batch, ...] = (),
        training: Mapping[str, Any] | None = None,
    ) -> StoredModel:
        """The model as trained on `data`, which was read as `read_options` says.

        Unless given, `read_options` is that of the file which `write_interactions` makes of the data.
        """
        model.check_belongs(data)
        if not isinstance(model, Storable) or model.kind not in kinds():
            raise ModelFileError(
                f"A {type(model).__name__} came; known are {', '.join(kinds())}. To have another model stored, make it "
                f"`alteraser.Storable` and `alteraser.register` its class."
            )
        return cls(
            model=model,
            user_vocabulary=data.user_vocabulary,
            item_vocabulary=data.item_vocabulary,
            read_options=read_options or written_read_options(data),
            data_digest=data.digest(),
            erased=erased,
            training=training,
        )

    @property
    def kind(self) -> str:
        """The model's name in the manifest and for the command."""
        return self.model.kind

    def aligned(self, data: Interactions) -> Interactions:
        """`data` on the model's rows; raises unless it is what the model was trained on, or what remained of it.

        Where the training data was the core of a larger store, the model's ids are that core, and the rest of the
        store is left out: cut anew after a deletion, the core would lose more than was deleted.
        """
        if self.read_options.min_interactions is None:
            data = data.aligned(self.user_vocabulary, self.item_vocabulary)
        else:
            data, _ = data.known_to(self.user_vocabulary, self.item_vocabulary)
        if data.digest() != self.data_digest:
            raise MismatchError(
                "The data is not what this model was trained on (its digest differs from the manifest's). Give the "
                "file it was trained on, read with the same options, or after a forgetting the remaining data it wrote."
            )
        return data

    def on(self, data: Interactions) -> Storable:
        """The model with its rows in the order of the data's vocabulary; ids it does not know have empty rows."""
        tables = {}
        for side, own, wanted in (
            (Side.USERS, self.user_vocabulary, data.user_vocabulary),
            (Side.ITEMS, self.item_vocabulary, data.item_vocabulary),
        ):
            rows = torch.from_numpy(own.rows(wanted.ids))
            known = self.model.table(side)[rows.clamp_min(0)]
            tables[side.value] = torch.where((rows >= 0)[:, None], known, self.model.empty_row(side))
        return self.model.with_parameters({**self.model.parameters(), **tables})


def save_model(stored: StoredModel, path: str | Path, *, force: bool = False) -> None:
    """Write the model's folder, whole or not at all; `LeftBehind` says that only the old one could not be removed."""
    with atomic_folder(path, marked_by=MANIFEST, force=force) as folder:
        # Written by Python, a full disk is an OSError, and the file may be read by whom the others may be read.
        (folder / PARAMETERS).write_bytes(safetensors.torch.save(_tensors(stored.model)))
        for name, vocabulary in ((USERS, stored.user_vocabulary), (ITEMS, stored.item_vocabulary)):
            pl.DataFrame({"id": vocabulary.ids}).write_parquet(folder / name)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "model": stored.kind,
            "settings": stored.model.settings(),
            "training": None if stored.training is None else dict(stored.training),
            "files": {name: _sha256((folder / name).read_bytes()) for name in (PARAMETERS, USERS, ITEMS)},
            "data": {"sha256": stored.data_digest, "reading": stored.read_options.to_dict()},
            "requests": [{"hmac_sha256": batch.digest, "count": batch.count} for batch in stored.erased],
        }
        text = json.dumps(manifest | {"sha256": _manifest_digest(manifest)}, indent=2)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def load_model(path: str | Path) -> StoredModel:
    """The model in a folder; every file is checked against the manifest before anything is made of it."""
    folder = Path(path)
    manifest = _read_manifest(folder)
    files = {name: _read_checked(folder, name, digest) for name, digest in manifest["files"].items()}
    try:
        stored = StoredModel(
            model=_model(manifest["model"], safetensors.torch.load(files[PARAMETERS]), manifest["settings"]),
            user_vocabulary=_vocabulary(files[USERS]),
            item_vocabulary=_vocabulary(files[ITEMS]),
            read_options=ReadOptions.from_dict(manifest["data"]["reading"]),
            data_digest=str(manifest["data"]["sha256"]),
            erased=tuple(
                Batch(str(each["hmac_sha256"]), int(each["count"])) for each in manifest["requests"]
            ),
            training=_training(manifest.get("training")),
        )
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
    sizes = (stored.model.n_users, stored.model.n_items)
    if sizes != (len(stored.user_vocabulary), len(stored.item_vocabulary)):
        raise ModelFileError(
            f"{folder}: the tables and the lists of ids differ in size. Take it from a backup."
        )
    return stored


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


def _training(record: Any) -> dict[str, Any] | None:
    if record is None:
        return None
    if not isinstance(record, dict) or not all(
        isinstance(x, str | int | float | None) for x in record.values()
    ):
        raise ModelFileError(
            "How the model was trained is not told in plain settings. Take it from a backup."
        )
    return record


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
    if manifest.get("version") != VERSION:
        raise ModelFileError(
            f"{folder} has format version {manifest.get('version')!r}; this alteraser reads version {VERSION}. Use the "
            f"version that wrote it, or train the model again."
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
