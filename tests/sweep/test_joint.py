"""Joint Newton steps: built from the true second derivatives, never uphill, and ending where passes end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alteraser import (
    ALS,
    ENMF,
    MF,
    AltEraser,
    Anderson,
    Interactions,
    JointNewton,
    Objective,
    SettingError,
    ah_newton,
    fit,
    hf_newton,
)
from alteraser.data.interactions import Side
from alteraser.live.scopes import Passes
from alteraser.sweep.executors import Local
from alteraser.sweep.sweep import Rows, Sweeper, repeat

OBJECTIVE = Objective(w0=0.1, l2=0.1, l2_scaling=0.3)


@pytest.fixture(scope="module")
def slow(random_data: Any) -> Interactions:
    """Data on which plain passes take long: a weak penalty."""
    data: Interactions = random_data(60, 40, seed=5, density=0.2)
    return data


@pytest.mark.parametrize("confidences", [False, True], ids=["plain", "confidences"])
@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
def test_its_parts_are_the_derivatives_of_the_dense_loss(
    side: Side, enmf: bool, confidences: bool, random_data: Any, small_model: Any, dense_loss: Any
) -> None:
    objective = Objective(
        w0=0.7,
        l2=0.2,
        l2_scaling=0.5,
        user_activity=0.4,
        item_popularity=1.3,
        mean_user_count=3.0,
        mean_item_count=4.0,
    )
    data = random_data(confidences=confidences, empty=True)
    model = small_model(data, dim=3, objective=objective, enmf=enmf)
    points = {name: value.clone().requires_grad_() for name, value in model.parameters().items()}
    loss = dense_loss(data, objective, *points.values())
    own, other = points[side.value], points[side.other.value]
    (gradient,) = torch.autograd.grad(loss, own, create_graph=True)
    problems, rng = model.row_problems(side, data), np.random.default_rng(0)

    torch.testing.assert_close(-2 * problems.residual(own.detach()), gradient.detach())

    # d(gradient)/d(other) along a change: the derivative of gradient·v in the other table, turned about.
    change = torch.from_numpy(rng.normal(size=other.shape))
    v = torch.zeros_like(own, requires_grad=True)
    (towards,) = torch.autograd.grad((gradient * v).sum(), other, create_graph=True)
    (wanted,) = torch.autograd.grad((towards * change).sum(), v, retain_graph=True)
    torch.testing.assert_close(2 * problems.cross(own.detach(), change), wanted)

    factors = problems.factorised()
    assert factors is not None
    vectors = torch.from_numpy(rng.normal(size=own.shape))
    (product,) = torch.autograd.grad(
        (gradient * vectors).sum(), own
    )  # the rows' own Hessians, as rows are apart
    torch.testing.assert_close(factors.solve(product / 2), vectors)


@pytest.mark.parametrize("switch_below", [np.inf, 1e-3], ids=["from the start", "after passes"])
@pytest.mark.parametrize("kind", [MF, ENMF])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_no_step_raises_the_loss(
    kind: Any, dtype: torch.dtype, switch_below: float, slow: Interactions
) -> None:
    """From a start far off, where steps are refused, and on beyond the point where the loss can show a fall."""
    objective = Objective(w0=0.1, l2=0.02, l2_scaling=0.3)
    model = kind.sized_for(slow, dim=8, objective=objective, rng=np.random.default_rng(1), dtype=dtype)
    model = model.with_parameters({**model.parameters(), "items": 30 * model.items})
    advance = JointNewton(switch_below=switch_below, damping=1e-6).begin(Sweeper(ah_newton), model, slow)
    loss = first = model.loss(slow)
    rounding = (
        1e-6 if dtype == torch.float32 else 1e-13
    )  # of a plain pass, which is what is left at the very end
    for _ in range(60):
        model, reached = advance(model, loss)
        assert reached == model.loss(slow)
        assert reached <= loss * (1 + rounding)
        loss = reached
    assert loss < 0.5 * first


def test_it_goes_on_after_a_fallback(slow: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every step is refused a pass is made, and the next step does not use the factors from before it."""
    model = MF.sized_for(slow, dim=8, objective=OBJECTIVE, rng=np.random.default_rng(1), dtype=torch.float64)
    advance: Any = JointNewton().begin(Sweeper(ah_newton), model, slow)
    monkeypatch.setattr("alteraser.sweep.joint.MAX_REFUSALS", 0)
    after_pass, loss = advance(model, model.loss(slow))
    rows = Rows.occupied(slow)
    torch.testing.assert_close(after_pass.items, Sweeper(ah_newton).sweep(model, slow, rows).items)
    assert not advance.factors
    monkeypatch.setattr("alteraser.sweep.joint.MAX_REFUSALS", 6)
    assert advance(after_pass, loss)[1] < loss


def test_blocks_of_another_executor_are_run_by_it(slow: Interactions) -> None:
    """In this process joint steps need no blocks for themselves, but their losses do; passes need them for all."""
    asked: list[str] = []

    class Counting(Local):
        def map(self, function: Any, blocks: Any, *placed: Any) -> Any:
            asked.append(getattr(function, "func", function).__name__)
            return super().map(function, blocks, *placed)

    model = MF.sized_for(slow, dim=8, objective=OBJECTIVE, rng=np.random.default_rng(1))
    sweeper = Sweeper(ah_newton, executor=Counting())
    repeat(sweeper, model, slow, max_passes=2, tolerance=0.0, acceleration=Anderson())
    assert asked.count("_solve_block") == 4  # two sides, twice
    asked.clear()
    repeat(sweeper, model, slow, max_passes=2, tolerance=0.0, acceleration=JointNewton())
    assert "_solve_block" not in asked
    assert asked.count("_loss_of_positives") >= 3  # at first and after each step


def test_training_ends_at_a_loss_that_was_set(slow: Interactions) -> None:
    model = MF.sized_for(slow, dim=8, objective=OBJECTIVE, rng=np.random.default_rng(1))
    whole = fit(model, slow, trainer=ALS())
    goal = whole.losses[3]
    cut = fit(model, slow, trainer=ALS(loss_goal=goal))
    assert cut.converged
    assert cut.losses == whole.losses[:4]
    assert fit(model, slow, trainer=ALS(loss_goal=0.0)).losses == whole.losses  # never reached


def test_it_ends_where_plain_passes_end_in_far_fewer(slow: Interactions) -> None:
    rng = np.random.default_rng(1)
    model = MF.sized_for(slow, dim=8, objective=OBJECTIVE, rng=rng, dtype=torch.float64)
    start = fit(model, slow, trainer=ALS(max_passes=30, tolerance=0.0, acceleration=None)).model
    ways = (None, Anderson(), JointNewton())
    plain, anderson, joint = (
        fit(start, slow, trainer=ALS(max_passes=5000, tolerance=1e-14, acceleration=way)) for way in ways
    )
    assert joint.model.loss(slow) == pytest.approx(plain.model.loss(slow), rel=1e-9)
    scores = [each.model.users @ each.model.items.T for each in (plain, joint)]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-4)
    assert len(joint.losses) < 0.5 * len(anderson.losses) < 0.5 * len(plain.losses)
    assert joint.model.gradient_norm(slow) < 1e-4 * start.gradient_norm(slow)


@pytest.mark.parametrize(
    ("settings", "solver"), [(JointNewton(max_bytes=1000), ah_newton), (JointNewton(), hf_newton)]
)
def test_where_it_cannot_be_passes_take_over(settings: JointNewton, solver: Any, slow: Interactions) -> None:
    """Factors that would not fit, or a solver that has none: the same as Anderson's passes to the last bit."""
    model = MF.sized_for(slow, dim=8, objective=OBJECTIVE, rng=np.random.default_rng(1))
    ends = [
        repeat(Sweeper(solver), model, slow, max_passes=5, tolerance=0.0, acceleration=way)
        for way in (settings, Anderson())
    ]
    assert ends[0].losses == ends[1].losses
    assert torch.equal(ends[0].model.items, ends[1].model.items)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("dim", [5, 16, 17])
def test_max_bytes_is_what_the_factors_really_take(dim: int, dtype: torch.dtype, slow: Interactions) -> None:
    """Their rows are padded: with dim 5 they take ten times as much as 5² numbers each."""
    model = MF.sized_for(slow, dim=dim, objective=OBJECTIVE, rng=np.random.default_rng(1), dtype=dtype)
    factors = [model.row_problems(side, slow).factorised() for side in model.sides]
    taken = sum(each.space.nbytes for each in factors if each is not None)
    enough, too_little, passes = (
        repeat(Sweeper(ah_newton), model, slow, max_passes=2, tolerance=0.0, acceleration=way).losses
        for way in (JointNewton(max_bytes=taken), JointNewton(max_bytes=taken - 1), Anderson())
    )
    assert too_little == passes
    assert enough != passes


def test_rows_without_interactions_stay_zero(random_data: Any) -> None:
    data = random_data(20, 12, empty=True)
    model = MF.sized_for(data, dim=4, objective=OBJECTIVE, rng=np.random.default_rng(0))
    trained = fit(model, data, trainer=ALS(max_passes=10, tolerance=0.0, acceleration=JointNewton())).model
    assert torch.equal(trained.users[-1], torch.zeros(4))
    assert torch.equal(trained.items[-1], torch.zeros(4))


@pytest.mark.parametrize(
    "setting", [{"switch_below": 0.0}, {"damping": 0.0}, {"forcing": 1.0}, {"max_products": 0}]
)
def test_settings_out_of_range_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=str(next(iter(setting.values())))):
        JointNewton(**setting)


@pytest.mark.parametrize("kind", [MF, ENMF])
def test_forgetting_in_the_dimensions_that_carry_anything_changes_nothing_else(
    kind: Any, slow: Interactions, pair_requests: Any
) -> None:
    """Two of six dimensions at zero, as a strong penalty leaves them: they stay so, the others as without them."""
    rng = np.random.default_rng(3)
    small = kind.sized_for(slow, dim=4, objective=OBJECTIVE, rng=rng, dtype=torch.float64)
    wide = kind.sized_for(slow, dim=6, objective=OBJECTIVE, rng=rng, dtype=torch.float64)
    dimensions = torch.tensor([0, 2, 3, 5])
    wide = wide.with_dimensions(dimensions, small)
    assert torch.equal(wide.active_dimensions(), dimensions)
    narrow = wide.restrict(dimensions)
    assert narrow.loss(slow) == pytest.approx(wide.loss(slow), rel=1e-12)
    users = np.arange(slow.n_users)
    torch.testing.assert_close(narrow.scores(users), wide.scores(users))
    back = wide.with_dimensions(dimensions, narrow)
    for name, value in wide.parameters().items():
        torch.testing.assert_close(back.parameters()[name], value)

    chosen = rng.random(len(slow)) < 0.1
    requests = pair_requests(slow, chosen)
    outcome = AltEraser(Passes(tolerance=0.0, max_passes=3, training_gap=0.0, acceleration=None)).forget(
        wide, slow, requests
    )
    assert torch.equal(outcome.model.active_dimensions(), dimensions)
    sweeper, remain = Sweeper(ah_newton), slow.without(chosen)
    model = sweeper.sweep(wide, remain, Rows.occupied(slow.only(chosen)))
    for _ in range(3):
        model = sweeper.sweep(model, remain, Rows.occupied(remain))
    torch.testing.assert_close(outcome.model.scores(users), model.scores(users))
    torch.testing.assert_close(outcome.model.items, model.items)


def test_a_dimension_that_users_still_need_is_kept(slow: Interactions) -> None:
    model = MF.sized_for(slow, dim=3, objective=OBJECTIVE, rng=np.random.default_rng(0), dtype=torch.float64)
    faint = torch.tensor([1.0, 1e-18, 1e-18], dtype=torch.float64)
    loud = torch.tensor([1.0, 1e18, 1.0], dtype=torch.float64)
    model = model.with_parameters({"users": model.users * loud, "items": model.items * faint})
    assert model.active_dimensions().tolist() == [0, 1]
    nothing = model.with_parameters({"users": model.users * 0, "items": model.items * 0})
    assert nothing.active_dimensions().tolist() == [0, 1, 2]


def test_with_the_step_for_h_no_dimension_is_left_out(slow: Interactions, pair_requests: Any) -> None:
    """What h has in an empty dimension is for the others to have."""
    rng = np.random.default_rng(3)
    small = ENMF.sized_for(slow, dim=4, objective=OBJECTIVE, rng=rng, dtype=torch.float64)
    wide = ENMF.sized_for(slow, dim=6, objective=OBJECTIVE, rng=rng, dtype=torch.float64)
    wide = wide.with_dimensions(torch.arange(4), small)
    requests = pair_requests(slow, rng.random(len(slow)) < 0.1)
    solved, kept = (
        AltEraser(
            Passes(tolerance=0.0, max_passes=8, training_gap=0.0, acceleration=None, solve_shared=shared)
        ).forget(wide, slow, requests)
        for shared in (True, False)
    )
    assert solved.model.h[4:].abs().max() < 1e-6
    assert torch.equal(kept.model.h, wide.h)
    assert solved.loss_after < kept.loss_after
