"""Accelerated passes: the guess is right where it can be, the loss never rises, and the end is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alteraser import ALS, ENMF, MF, Anderson, Interactions, Objective, SettingError, ah_newton, fit
from alteraser.sweep.accelerate import History
from alteraser.sweep.sweep import Sweeper, repeat


def test_the_guess_after_enough_linear_steps_is_the_fixed_point() -> None:
    """x → Mx + b with M a contraction of three dimensions: three differences determine (I − M)⁻¹ b."""
    rng = np.random.default_rng(0)
    matrix = torch.from_numpy(rng.normal(size=(3, 3)))
    matrix *= 0.9 / torch.linalg.matrix_norm(matrix, 2)
    offset = torch.from_numpy(rng.normal(size=3))
    history, x = History(window=5), torch.zeros(3, dtype=torch.float64)
    assert history.guess() is None
    for _ in range(4):
        after = matrix @ x + offset
        history.add(x, after)
        x = after
    guess = history.guess()
    assert guess is not None
    answer = torch.linalg.solve(torch.eye(3, dtype=torch.float64) - matrix, offset)
    torch.testing.assert_close(guess, answer, rtol=1e-5, atol=1e-5)


def test_no_more_than_the_window_is_kept_and_a_bad_guess_clears_it() -> None:
    history = History(window=3)
    for number in range(5):
        history.add(torch.tensor([float(number)]), torch.tensor([float(number) / 2]))
    assert [float(x) for x in history.outputs] == [1.0, 1.5, 2.0]
    history.restart()
    assert len(history.outputs) == len(history.residuals) == 1


@pytest.fixture(scope="module")
def slow(random_data: Any) -> Interactions:
    """Data on which plain passes take long: a weak penalty."""
    data: Interactions = random_data(60, 40, seed=5, density=0.2)
    return data


@pytest.mark.parametrize("kind", [MF, ENMF])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_the_loss_never_rises(kind: Any, dtype: torch.dtype, slow: Interactions) -> None:
    objective = Objective(w0=0.1, l2=0.02, l2_scaling=0.3)
    model = kind.sized_for(slow, dim=8, objective=objective, rng=np.random.default_rng(1), dtype=dtype)
    passes = repeat(Sweeper(ah_newton), model, slow, max_passes=60, tolerance=0.0, acceleration=Anderson())
    falls = -np.diff(passes.losses)
    assert (falls[:-1] >= 0).all()
    assert falls[-1] > -1e-5 * passes.losses[-1]  # the pass that ends it may round


def test_it_ends_where_plain_passes_end_in_fewer(slow: Interactions) -> None:
    rng = np.random.default_rng(1)
    objective = Objective(w0=0.1, l2=0.1, l2_scaling=0.3)
    model = MF.sized_for(slow, dim=8, objective=objective, rng=rng, dtype=torch.float64)
    start = fit(model, slow, trainer=ALS(max_passes=30, tolerance=0.0, acceleration=None)).model
    plain = fit(start, slow, trainer=ALS(max_passes=3000, tolerance=1e-14, acceleration=None))
    quick = fit(start, slow, trainer=ALS(max_passes=3000, tolerance=1e-14))
    assert quick.model.loss(slow) == pytest.approx(plain.model.loss(slow), rel=1e-9)
    scores = [each.model.users @ each.model.items.T for each in (plain, quick)]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-4)
    assert len(quick.losses) < 0.5 * len(plain.losses)


@pytest.mark.parametrize("weight", [1.0, 0.0], ids=["a strong penalty", "weights of zero"])
def test_at_a_fixed_point_passes_stay_there(weight: float, build: Any) -> None:
    """Where the empty model is the minimum, passes no longer differ after the first few."""
    matrix = np.random.default_rng(0).random((30, 20)) < 0.2
    data = build(matrix, np.full(matrix.shape, weight))
    model = MF.sized_for(data, dim=4, objective=Objective(w0=0.3, l2=1.0), rng=np.random.default_rng(1))
    trained = fit(model, data, trainer=ALS(max_passes=30, tolerance=0.0))
    assert trained.losses[-1] == pytest.approx(weight * matrix.sum(), abs=1e-9)
    torch.testing.assert_close(trained.model.items, torch.zeros_like(model.items))


def test_a_window_of_one_is_refused() -> None:
    with pytest.raises(SettingError, match="window is 1"):
        Anderson(window=1)
