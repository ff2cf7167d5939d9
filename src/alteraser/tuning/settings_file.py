"""Settings of a training in a TOML file: `tune` writes it, `train --settings` takes it, people may edit it."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alteraser.data.writing import atomic_file
from alteraser.errors import SettingError

# The options of `alteraser train` that a file may hold, with _ for -, and what each of them is.
KEYS: dict[str, type] = {
    "model": str,
    "trainer": str,
    "dim": int,
    "precision": str,
    "w0": float,
    "l2": float,
    "l2_scaling": float,
    "user_activity": float,
    "item_popularity": float,
    "max_passes": int,
    "tolerance": float,
    "learning_rate": float,
    "solve_h": bool,
}
# Those of how to train: another trainer than the one that a file names has its own.
OF_TRAINER = ("max_passes", "tolerance", "learning_rate", "solve_h")
_WORDS = {str: "a text", int: "a whole number", float: "a finite number", bool: "true or false"}


def write_settings(
    settings: Mapping[str, Any], path: str | Path, *, comment: str = "", force: bool = False
) -> None:
    """Write the file, whole or not at all; what is None is left out, so that training has its own default."""
    given = {key: value for key, value in settings.items() if value is not None}
    _check(given, "the settings")
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [f"{key} = {_toml(given[key])}" for key in KEYS if key in given]
    with atomic_file(path, force=force) as waiting:
        waiting.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings in a file, checked: a key that nobody knows is refused, not passed over."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"The settings file {path} could not be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(
            f"The settings file {path} is not TOML ({error}). Lines like `w0 = 0.03` are wanted."
        ) from None
    _check(found, str(path))
    return {key: float(value) if KEYS[key] is float else value for key, value in found.items()}


def _check(settings: Mapping[str, Any], source: str) -> None:
    if unknown := [key for key in settings if key not in KEYS]:
        raise SettingError(
            f"{', '.join(map(repr, unknown))} in {source}: unknown; known are {', '.join(KEYS)}."
        )
    for key, value in settings.items():
        if not _has_type(value, KEYS[key]):
            raise SettingError(f"{key} in {source} is {value!r}; {_WORDS[KEYS[key]]} is wanted.")


def _has_type(value: object, wanted: type) -> bool:
    if isinstance(value, bool) or wanted is bool:
        return isinstance(value, bool) and wanted is bool
    if wanted is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, wanted)


def _toml(value: str | float | bool) -> str:
    """A plain value; a text is written alike in JSON and TOML."""
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
