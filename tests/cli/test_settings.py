"""`alteraser train --settings`: the file's settings are the defaults, and given options win."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_the_file_sets_what_is_not_given(workspace: Path, tmp_path: Path, ok: Callable[..., Any]) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('model = "mf"\ndim = 3\nw0 = 0.07\nl2 = 0.02\nmax_passes = 5\ntolerance = 0.001\n')
    out = tmp_path / "model"
    ok("train", workspace / "plain.csv", "--settings", settings, "--l2", 0.5, "--max-passes", 4, "--out", out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["model"] == "mf"
    found = {key: manifest["settings"][key] for key in ("dim", "w0", "l2")}
    assert found == {"dim": 3, "w0": 0.07, "l2": 0.5}
    assert (manifest["training"]["max_passes"], manifest["training"]["tolerance"]) == (4, 0.001)
