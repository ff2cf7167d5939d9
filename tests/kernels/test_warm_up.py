"""No kernel is compiled after a warm-up, and none within the seconds that are reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from alteraser.kernels.warm_up import warm_up

HERE = Path(__file__).parent
FIRST_USE = """
import json, sys, time
import numpy as np
import alteraser as ae
data = ae.open_data("synthetic")
model = ae.MF.sized_for(data, dim=8, rng=np.random.default_rng(0))
seconds, walls = [], []
for user in data.user_vocabulary.ids[:2]:
    began = time.perf_counter()
    erasure = ae.AltEraser().forget(model, data, ae.Requests.of([{"user": user}]))
    walls.append(time.perf_counter() - began)
    seconds.append(erasure.cost.seconds)
print(json.dumps({"seconds": seconds, "walls": walls}))
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NUMBA_NUM_THREADS": "1"} | environment,
    )


def test_nothing_that_users_do_compiles_after_a_warm_up(tmp_path: Path) -> None:
    found = json.loads(run(str(HERE / "operations.py"), str(tmp_path)).stdout)
    assert found["n_kernels"] > 25
    assert found["made"] == {}


def test_a_first_use_says_that_it_compiles_and_does_not_count_it(tmp_path: Path) -> None:
    """With an empty cache; the warm-up of a command with what is there then leaves the other precision to compile."""
    first = run("-c", FIRST_USE, NUMBA_CACHE_DIR=str(tmp_path))
    found: dict[str, Any] = json.loads(first.stdout)
    assert first.stderr.count("Compiling once") == 1
    # Compiling took nearly all of the first call, and is missing in what was reported of it.
    assert found["walls"][0] > 20 * found["walls"][1]
    assert found["seconds"][0] < found["walls"][0] / 10
    assert found["seconds"][0] < found["seconds"][1] + 1.0
    again = run("-c", FIRST_USE, NUMBA_CACHE_DIR=str(tmp_path))
    assert "Compiling" not in again.stderr


def test_a_second_warm_up_does_nothing() -> None:
    warm_up()
    assert warm_up() == 0


def test_nothing_happens_where_numba_is_switched_off() -> None:
    code = "import alteraser as ae; print(ae.warm_up())"
    assert run("-c", code, NUMBA_DISABLE_JIT="1").stdout == "0\n"


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_kernel_is_compiled_for_the_types_of_its_annotations(precision: str) -> None:
    import numba
    import numpy as np

    from alteraser.kernels.rows import factorise_rows
    from alteraser.kernels.sparse import FixedFactors, RowWeights, SparseRows, longest_first
    from alteraser.kernels.warm_up import signature

    def floats(*shape: int) -> Any:
        return np.ones(shape, precision)

    columns, weights = np.zeros(3, np.int32), np.ones(3, np.float32)
    rows = SparseRows.from_csr(np.array([0, 1, 3]), columns, weights)
    given = (
        longest_first(np.arange(2), rows),
        rows,
        FixedFactors(floats(2, 3), floats(2)),
        floats(3, 3),
        RowWeights(floats(2), floats(2)),
        floats(2, 16),
        np.ones(2, np.bool_),
    )
    assert signature(factorise_rows, precision) == tuple(map(numba.typeof, given))
