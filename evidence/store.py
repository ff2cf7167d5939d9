"""Results on disk: JSON files that are never seen half written, each measurement with the commit it was made at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alteraser.data.writing import atomic_file
from alteraser.errors import DataError, WriteError
from evidence.revision import revision

Result = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A folder of results, and the commit that is measured while it is open.

    A file holds one measurement, or a list of them that grows while they are made and can be resumed.
    """

    folder: Path
    commit: str | None = field(default_factory=revision)

    def create(self) -> None:
        """Makes the folder unless it is there."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"{self.folder} cannot be a folder for results: {error.strerror}.") from None

    def has(self, name: str) -> bool:
        return self._path(name).is_file()

    def stamped(self, measured: Mapping[str, Any]) -> Result:
        """A measurement with the commit it was made at."""
        return {"commit": self.commit, **measured}

    def write(self, name: str, result: Mapping[str, Any]) -> None:
        """Puts a result in the place of what had this name."""
        # A figure that is no number is written as NaN: it is a finding, and pages show it as a miss.
        text = json.dumps(result, indent=1) + "\n"
        with atomic_file(self._path(name), force=True) as waiting:
            waiting.write_text(text, encoding="utf-8")

    def read(self, name: str) -> Result:
        """The result of this name."""
        try:
            result = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            result = None
        if not isinstance(result, dict):
            raise DataError(
                f"{self._path(name)} is not a whole result. Delete it, or put back what was there, and measure again."
            )
        return result

    def grown(self, name: str, key: str) -> list[Result]:
        """The measurements that a growing file holds under `key`; none if there is no file yet."""
        found: list[Result] = self.read(name)[key] if self.has(name) else []
        return found

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def all(self) -> Iterator[tuple[str, Result]]:
        """Every result with its name, in the order of the names."""
        for name in self.names():
            yield name, self.read(name)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"
