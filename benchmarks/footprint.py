"""What the command takes as a whole: start-up, the demo, and the memory of training."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.memory import taken_by

LIMITS = {"help_seconds": 1.0, "demo_seconds": 60.0, "als_ml_1m_peak_gb": 1.2}


def measure(data_dir: str | None) -> dict[str, Any]:
    """Seconds of `alteraser --help` and `alteraser demo`, and the peak memory of training ml-1m with ALS."""
    command = str(Path(sys.executable).with_name("alteraser"))
    with tempfile.TemporaryDirectory() as folder:
        helps = [taken_by([command, "--help"])[0] for _ in range(5)]
        demo, _ = taken_by([command, "demo", "--out", f"{folder}/demo"])
        where = ["--data-dir", data_dir] if data_dir else []
        train = [command, "train", "ml-1m", *where, "--max-passes", "20", "--out", f"{folder}/model"]
        seconds, peak = taken_by(train)
    return {
        "help_seconds": statistics.median(helps),
        "demo_seconds": demo,
        "als_ml_1m_peak_gb": peak / 1e9,
        "als_ml_1m_20_passes_seconds": seconds,
        "limits": LIMITS,
    }
