"""`python -m benchmarks`: measure, keep the results, write the page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from benchmarks import batches, footprint, page, passes, requests, scaling, sequence, unlearning

BENCHMARKS: dict[str, Callable[[str | None], dict[str, Any]]] = {
    "passes": passes.measure,
    "requests": requests.measure,
    "batches": batches.measure,
    "unlearning": unlearning.measure,
    "sequence": sequence.measure,
    "scaling": scaling.measure,
    "footprint": footprint.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[*BENCHMARKS, "page"], help="one of them; page: no measuring")
    parser.add_argument("--data-dir", help="folder of the named data sets (default: $ALTERASER_DATA)")
    arguments = parser.parse_args()
    page.RESULTS.mkdir(exist_ok=True)
    for name, measure in BENCHMARKS.items():
        if arguments.only in (None, name):
            print(f"measuring {name} …", flush=True)
            result = measure(arguments.data_dir)
            (page.RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    page.write()
    print(f"written: {page.PAGE.name}")


if __name__ == "__main__":
    main()
