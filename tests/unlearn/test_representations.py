"""A representation ends up in logs and tracebacks: it tells how many there are, and never which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alteraser.data.interactions import Interactions
from alteraser.data.read_options import ReadOptions
from alteraser.data.requests import Requests
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Rows, Sweeper, repeat
from alteraser.train.als import ALS
from alteraser.unlearn.alteraser import AltEraser
from alteraser.versions.version import Version


@pytest.mark.parametrize("enmf", [False, True])
def test_representations_hold_no_ids_no_rows_and_no_vectors(
    random_data: Any, small_model: Any, enmf: bool
) -> None:
    full: Interactions = random_data()
    model = small_model(full, enmf=enmf)
    assert repr(model).startswith(f"{'ENMF' if enmf else 'MF'}(12 users, 9 items, dim 3, ")
    assert repr(Rows.occupied(full)) == "Rows(12 users, 9 items)"
    for result in (
        ALS(max_passes=1).train(model, full, rng=np.random.default_rng(0)),
        repeat(Sweeper(ah_newton), model, full, max_passes=1, tolerance=0),
        Version.of(model, full, read_options=ReadOptions()),
        AltEraser(max_passes=1).forget(model, full, Requests.of([{"user": "u3"}])),
    ):
        shown = repr(result)
        assert repr(result.model) in shown
        assert not any(word in shown for word in ("tensor", "array", "u3", "\n"))
