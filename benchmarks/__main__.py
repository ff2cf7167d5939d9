"""`python -m benchmarks [NAME …]`: measure, keep the results, write the pages.

`python -m benchmarks kinds`, `never-worse` and `against REV` have options of their own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import (
    against,
    batches,
    footprint,
    huge,
    learning,
    mixed,
    page,
    partial_fit,
    passes,
    requests,
    scaling,
    sequence,
    startup,
    unlearning,
)
from benchmarks.kinds import run as kinds
from benchmarks.never_worse import page as never_worse_page
from benchmarks.never_worse import records
from benchmarks.never_worse import run as never_worse
from evidence.store import Store

BENCHMARKS: dict[str, Callable[[str | None], dict[str, Any]]] = {
    "passes": passes.measure,
    "requests": requests.measure,
    "batches": batches.measure,
    "unlearning": unlearning.measure,
    "sequence": sequence.measure,
    "scaling": scaling.measure,
    "footprint": footprint.measure,
    "startup": startup.measure,
    "learning": learning.measure,
    "partial-fit": partial_fit.measure,
    "mixed": mixed.measure,
    "huge": huge.measure,
}
LONG = ("huge",)
"""What takes hours is measured only if it is named."""
OTHERS: dict[str, Callable[[Sequence[str]], None]] = {
    "kinds": kinds.main,
    "never-worse": never_worse.main,
    "against": against.main,
}


def _before(store: Store, name: str) -> dict[str, Any]:
    """What an earlier protocol gave: it stays in the file when the present one measures anew."""
    earlier = store.read(name) if store.has(name) else {}
    return {"before": earlier["before"]} if "before" in earlier else {}


def main(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] in OTHERS:
        OTHERS[arguments[0]](arguments[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(BENCHMARKS)} (all of them but {', '.join(LONG)} if none is named), or page, which "
        f"measures nothing",
    )
    parser.add_argument("--data-dir", help="folder of the named data sets (default: $ALTERASER_DATA)")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - {*BENCHMARKS, "page"}
    if unknown:
        parser.error(
            f"there is no {', '.join(sorted(unknown))}; the names are {', '.join(BENCHMARKS)} and page"
        )
    store = Store(page.RESULTS)
    store.create()
    for name, measure in BENCHMARKS.items():
        if name in (given.names or set(BENCHMARKS) - set(LONG)):
            print(f"measuring {name} …", flush=True)
            result = store.stamped(measure(given.data_dir))
            store.write(name, {**_before(store, name), **result})
    page.write(store)
    if found := records.read(store):
        never_worse_page.page(found).write()
    print(f"written: {page.PAGE.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
