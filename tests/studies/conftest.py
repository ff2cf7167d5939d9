"""What the tests of the studies share: small data, and everything timed once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from alteraser.data.interactions import Interactions
from alteraser.data.synthetic import synthetic
from studies import run


@pytest.fixture(autouse=True, scope="session")
def _once() -> Iterator[None]:
    """Here nobody reads the seconds: medians of several runs would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "REPEATS", 1)
        yield


@pytest.fixture(scope="session")
def data() -> Interactions:
    # A draw on which retraining gets to AltEraser's loss in every run, so that the tests see where it then ends.
    return synthetic(np.random.default_rng(1), n_users=120, n_items=60, mean_interactions=12).data
