"""The files of a model folder, read and checked: what can be said of them without torch."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import safetensors

from alteraser.data.interactions import Vocabulary
from alteraser.errors import AlteraserError, ModelFileError

FORMAT, VERSION = "alteraser-model", 2
READABLE = (1, VERSION)  # format 1 kept less of each batch of requests
PARAMETERS, USERS, ITEMS, MANIFEST = (
    "parameters.safetensors",
    "users.parquet",
    "items.parquet",
    "manifest.json",
)


class ModelFolder(NamedTuple):
    """What a model folder holds: the manifest without its digests, the files by name, the manifest's digest."""

    manifest: dict[str, Any]
    files: dict[str, bytes]
    digest: str

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The ids of the users' and of the items' rows."""
        return _vocabulary(self.files[USERS]), _vocabulary(self.files[ITEMS])


def read_folder(path: Path) -> ModelFolder:
    """The model folder; every file is checked against the manifest before anything is made of it."""
    manifest = _read_manifest(path)
    digest = manifest_digest(manifest)
    files = {name: _read_checked(path, name, wanted) for name, wanted in manifest.pop("files").items()}
    return ModelFolder(manifest, files, digest)


def check_sizes(path: Path, tables: tuple[int, int], ids: tuple[Vocabulary, Vocabulary]) -> None:
    """Raises unless there is an id for each row of the tables."""
    if tables != (len(ids[0]), len(ids[1])):
        raise ModelFileError(
            f"{path}: the tables and the lists of ids differ in size. Take it from a backup."
        )


@contextmanager
def raising_model_file_errors(folder: Path) -> Iterator[None]:
    """Within the block, what fails because the manifest or a file is not what it should be is a `ModelFileError`."""
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
    if manifest.pop("sha256", None) != manifest_digest(manifest):
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
    if sha256(content) != digest:
        raise ModelFileError(
            f"{folder / name} is damaged or belongs to another model: its SHA-256 differs from the manifest's. Take "
            f"the model from a backup or train it again."
        )
    return content


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def manifest_digest(manifest: dict[str, Any]) -> str:
    return sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())
