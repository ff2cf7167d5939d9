"""`alteraser warm-up`."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console

from alteraser.cli.options import Json, example
from alteraser.cli.output import show

EXAMPLE = example("alteraser warm-up --json")


def warm_up(json: Json = False) -> None:
    """Compile all kernels now, so that no other command has to wait for it.

    They are kept in numba's cache: beside the installed package, or in the user's cache folder where that cannot be
    written, or in $NUMBA_CACHE_DIR. What is there already is not compiled again.
    """
    from alteraser.kernels.warm_up import warm_up as compile_kernels

    began = time.perf_counter()
    compiled = compile_kernels()
    result = {"compiled": compiled, "seconds": time.perf_counter() - began}
    show(result, as_json=json, human=lambda to: _human(to, result))


def _human(to: Console, result: dict[str, Any]) -> None:
    if result["compiled"]:
        to.print(f"{result['compiled']} kernels compiled in {result['seconds']:.1f} s")
    else:
        to.print("Nothing to compile: all kernels are in the cache")
