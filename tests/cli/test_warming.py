"""`alteraser warm-up` leaves nothing to compile."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest


def test_after_a_warm_up_there_is_nothing_to_compile(ok: Any, command: list[str]) -> None:
    assert set(ok("warm-up")) == {"compiled", "seconds"}
    again = subprocess.run([*command, "warm-up"], capture_output=True, text=True, check=True)
    assert again.stdout == "Nothing to compile: all kernels are in the cache\n"
    assert again.stderr == ""


@pytest.mark.parametrize("delay", [0.0, 1.0, 2.5])
def test_an_interruption_is_not_lost_in_the_compiler(
    command: list[str], tmp_path: Path, delay: float
) -> None:
    with subprocess.Popen(
        [*command, "warm-up"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Compiling once")
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert (out, err) == ("", "Interrupted; nothing was left half-written.\n")
