"""Results on disk: one JSON file per run, written when it ends, so that an interrupted evaluation goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alteraser.data.writing import atomic_file
from alteraser.errors import DataError, WriteError


@dataclass(frozen=True)
class Store:
    """A folder of results."""

    folder: Path

    def create(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"{self.folder} cannot be a folder for results: {error.strerror}.") from None

    def has(self, name: str) -> bool:
        return self._path(name).is_file()

    def write(self, name: str, result: dict[str, Any]) -> None:
        with atomic_file(self._path(name), force=True) as waiting:
            waiting.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def read(self, name: str) -> dict[str, Any]:
        try:
            result: dict[str, Any] = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise DataError(
                f"{self._path(name)} is not a whole result. Delete it and run again with --resume."
            ) from None
        return result

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name in self.names():
            yield name, self.read(name)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"
