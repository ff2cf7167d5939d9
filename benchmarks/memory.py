"""How much memory this process holds, and has held; and what a command takes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def peak_bytes() -> int:
    """The most that the process has held so far.

    It is not asked of `getrusage`: there a child begins with the peak of the process that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def resident_bytes() -> int:
    """What it holds now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def taken_by(command: Sequence[str]) -> tuple[float, int]:
    """Seconds and the peak of a command in bytes, its own process alone.

    A small process starts it, since what whoever starts it has held counts as the command's.
    """
    starter = [sys.executable, "-S", str(Path(__file__)), *command]
    done = subprocess.run(starter, stdout=subprocess.PIPE, text=True, check=True)
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def _taken(command: Sequence[str]) -> tuple[float, int]:
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"{command[0]} {command[1]} failed"
    return time.perf_counter() - began, usage.ru_maxrss * 1024


if __name__ == "__main__":
    print(json.dumps(_taken(sys.argv[1:])))
