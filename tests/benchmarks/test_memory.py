"""The memory of a process is its own, whoever started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.memory import peak_bytes, resident_bytes, taken_by

ROOT = Path(__file__).parents[2]
HELD = 200_000_000


def test_the_peak_of_a_child_is_not_that_of_its_parent() -> None:
    held = np.ones(HELD // 8)
    assert peak_bytes() >= resident_bytes() > held.nbytes
    told = subprocess.run(
        [sys.executable, "-S", "-c", "from benchmarks.memory import peak_bytes; print(peak_bytes())"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert 0 < int(told.stdout) < HELD / 2
    _, peak = taken_by([sys.executable, "-S", "-c", "pass"])
    assert 0 < peak < HELD / 2


def test_the_peak_stays_when_memory_is_given_back() -> None:
    before = resident_bytes()
    del_me = np.ones(HELD // 8)
    assert del_me.sum() > 0
    del del_me
    assert peak_bytes() > before + HELD / 2


def test_what_a_command_takes_is_told() -> None:
    seconds, peak = taken_by([sys.executable, "-c", f"held = bytearray(b'x' * {HELD})"])
    assert seconds > 0
    assert peak > HELD
