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


def test_settings_of_one_trainer_are_not_those_of_another(
    workspace: Path, tmp_path: Path, ok: Callable[..., Any]
) -> None:
    settings = tmp_path / "settings.toml"
    for of, other, theirs in (
        ("als", "adamw", "max_passes = 5\ntolerance = 0.5\nsolve_h = true\n"),
        ("adamw", "als", "max_passes = 5\ntolerance = 0.5\nlearning_rate = 0.03\n"),
    ):
        settings.write_text(f'trainer = "{of}"\ndim = 2\nw0 = 0.1\nl2 = 0.02\n{theirs}')
        own, plain = tmp_path / f"{other}-own", tmp_path / f"{other}-plain"
        train = ("train", workspace / "plain.csv", "--trainer", other)
        ok(*train, "--settings", settings, "--out", own)
        ok(*train, "--dim", 2, "--w0", 0.1, "--l2", 0.02, "--out", plain)
        same = [json.loads((out / "manifest.json").read_text())["training"] for out in (own, plain)]
        assert same[0] == same[1]
        # Named as in the file, the trainer has them all.
        ok("train", workspace / "plain.csv", "--trainer", of, "--settings", settings, "--out", own, "--force")
        assert json.loads((own / "manifest.json").read_text())["training"]["max_passes"] == 5
