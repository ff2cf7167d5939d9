"""Which revision of the software is measured."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ":!benchmarks/results"  # a result that was just written is no change of the code
CODE = ("src", "benchmarks", "studies", "evidence", RESULTS)
DIRTY = "-dirty"


@cache
def revision() -> str | None:
    """The commit of the working tree, marked if its code has changed since; None where that cannot be known.

    It is asked for before anything is measured and stays the same while the process lives, as does the code that the
    process has imported.
    """
    package = find_spec("alteraser")
    if package is None or package.origin is None or not Path(package.origin).is_relative_to(ROOT):
        return None  # a package that was installed from elsewhere
    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--", *CODE)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + (DIRTY if changed else "")


def git(*arguments: str) -> str:
    """What git says of this repository."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()
