"""What the command takes as a whole: start-up, the demo, and the memory of training."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIMITS = {"help_seconds": 1.0, "demo_seconds": 60.0, "als_ml_1m_peak_gb": 1.2}


def measure(data_dir: str | None) -> dict[str, Any]:
    """Seconds of `alteraser --help` and `alteraser demo`, and the peak memory of training ml-1m with ALS."""
    command = str(Path(sys.executable).with_name("alteraser"))
    with tempfile.TemporaryDirectory() as folder:
        helps = [_run([command, "--help"])[0] for _ in range(5)]
        demo, _ = _run([command, "demo", "--out", f"{folder}/demo"])
        where = ["--data-dir", data_dir] if data_dir else []
        train = [command, "train", "ml-1m", *where, "--max-passes", "20", "--out", f"{folder}/model"]
        seconds, peak = _run(train)
    return {
        "help_seconds": statistics.median(helps),
        "demo_seconds": demo,
        "als_ml_1m_peak_gb": peak / 1e9,
        "als_ml_1m_20_passes_seconds": seconds,
        "limits": LIMITS,
    }


def _run(command: list[str]) -> tuple[float, int]:
    """Seconds and the largest resident set in bytes of a command, its own process alone."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"{command[1]} failed"
    return time.perf_counter() - began, _bytes(usage)


def _bytes(usage: resource.struct_rusage) -> int:
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)
