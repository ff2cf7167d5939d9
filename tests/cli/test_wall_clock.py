"""A command says how long its work took, and how long it took in all."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

COMMANDS = (
    "train plain.csv --dim 4 --max-passes 3 --out {out}/model",
    "forget model data.csv --requests requests.csv --out {out}/model2",
)


def test_the_wall_time_is_that_of_the_whole_process(
    command: list[str], workspace: Path, tmp_path: Path
) -> None:
    for each in COMMANDS:
        began = time.perf_counter()
        words = each.format(out=tmp_path).split()
        ran = subprocess.run([*command, *words, "--json"], cwd=workspace, capture_output=True, check=True)
        outside = time.perf_counter() - began
        result = json.loads(ran.stdout)
        seconds = result["cost"]["seconds"] if "cost" in result else result["seconds"]
        # Imports take most of it; a tick of the system's clock is a hundredth of a second.
        assert 2 * seconds < result["wall_seconds"] < outside + 0.05


def test_people_are_told_both(run: Any, workspace: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(workspace)
    for each, what in zip(COMMANDS, ("training", "forgetting"), strict=True):
        said = run(*each.format(out=tmp_path).split()).out
        assert re.search(rf"\d+\.\d+ s of {what}, \d+\.\d s in all", said)
