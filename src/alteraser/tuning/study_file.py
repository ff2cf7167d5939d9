"""The trials of a search in a file, so that it can be resumed: plain JSON, written anew after each trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alteraser.data.writing import atomic_file
from alteraser.errors import SettingError
from alteraser.tuning.trials import Trial

FORMAT, VERSION = "alteraser-study", 1


def write_study(path: Path, search: Mapping[str, Any], trials: Sequence[Trial]) -> None:
    """Write what is searched and the trials so far, whole or not at all.

    It replaces the file, which `read_study` has found to be absent or of this search.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "search": dict(search),
        "trials": [trial.to_dict() for trial in trials],
    }
    with atomic_file(path, force=True) as waiting:
        waiting.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_study(path: Path, search: Mapping[str, Any]) -> list[Trial]:
    """The trials in the file, none if there is no file; raises if it holds something else or another search."""
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        ours = (content["format"], content["version"]) == (FORMAT, VERSION)
        known, trials = dict(content["search"]), [Trial(**each) for each in content["trials"]]
    except OSError as error:
        raise SettingError(f"The study {path} could not be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError):
        ours = False
    if not ours:
        raise SettingError(
            f"{path} is no study that this alteraser could go on with. Choose another file (--study), or remove it."
        )
    if other := [name for name in search if known.get(name) != search[name]]:
        raise SettingError(
            f"The study {path} is of another search: {', '.join(other)} differ. Choose another file (--study), or "
            f"remove it to begin anew."
        )
    return trials
