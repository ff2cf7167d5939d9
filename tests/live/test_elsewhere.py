"""The row problems of forgetting by passes can be solved in other processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from alteraser import AltEraser, ForgettingRows, Passes, Requests, fit, hf_newton
from tests.sweep.pool import Pool


@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
def test_passes_forget_elsewhere_what_they_forget_here(
    enmf: bool, random_data: Any, small_model: Any
) -> None:
    data = random_data(30, 20)
    original = fit(small_model(data, enmf=enmf), data).model
    requests = Requests.of([{"user": "u3"}, {"user": "u5", "item": "i5"}, {"item": "i7"}])
    scopes: list[ForgettingRows | Passes] = [
        ForgettingRows(block_rows=8),
        Passes(block_rows=8),
        Passes(hf_newton, block_rows=8),
    ]
    with Pool() as pool:
        for scope in scopes:
            before = pool.n_blocks
            here, there = (
                AltEraser(each).forget(original, data, requests).model
                for each in (scope, replace(scope, executor=pool))
            )
            assert pool.n_blocks > before
            torch.testing.assert_close(there.users, here.users, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(there.items, here.items, rtol=1e-9, atol=1e-9)
