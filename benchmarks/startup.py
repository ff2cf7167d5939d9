"""What whoever types a command waits for: wall time from the shell on ml-1m, kernels compiled and files in memory."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.timing import in_turn, median_ratio

ROUNDS = 11
# Seconds, on two cores that do nothing else.
LIMITS = {"recommend": 1.5, "recommend, seen items included": 1.5, "forget": 3.0, "help": 1.0}
BASE = "python"
USER = "42"


def measure(data_dir: str | None) -> dict[str, Any]:
    """Seconds of commands in turn with a Python that imports numpy and polars, and their ratios to it."""
    command = str(Path(sys.executable).with_name("alteraser"))
    where = ["--data-dir", data_dir] if data_dir else []
    with tempfile.TemporaryDirectory() as folder:
        model, user = f"{folder}/model", ["--user", USER]
        _run([command, "warm-up"])
        _run([command, "train", "ml-1m", *where, "--out", model])
        commands = {
            BASE: [sys.executable, "-c", "import numpy, polars"],
            "help": [command, "--help"],
            "recommend": [command, "recommend", model, "ml-1m", *where, *user],
            "recommend, seen items included": [command, "recommend", model, *user, "--include-seen"],
            "forget": [
                command,
                "forget",
                model,
                "ml-1m",
                *where,
                *user,
                "--out",
                f"{folder}/model2",
                "--force",
            ],
        }
        seconds = in_turn({name: _task(each) for name, each in commands.items()}, rounds=ROUNDS)
    return summary(seconds)


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """The median seconds of each command, and the median of its ratios to the Python of the same round."""
    return {
        "rounds": len(seconds[BASE]),
        "seconds": seconds,
        "median_seconds": {name: statistics.median(each) for name, each in seconds.items()},
        "ratios": {name: median_ratio(seconds, name, BASE) for name in LIMITS},
        "limits": LIMITS,
    }


def _task(command: list[str]) -> Callable[[], None]:
    return lambda: _run(command)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
