"""No way to forget raises the loss on what remains, from whatever original, and none says converged where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from alteraser import ALS, AltEraser, Interactions, JointNewton, LiveModel, Objective, Requests, fit
from alteraser.data.interactions import Side

OBJECTIVES = {"plain": Objective(w0=0.3, l2=0.5, l2_scaling=0.0), "scaled": Objective(w0=0.3, l2=0.02)}
PRECISIONS = {"single": torch.float32, "double": torch.float64}
ROUNDING = {"single": 1e-6, "double": 1e-12}
SCOPES: list[AltEraser] = [AltEraser(scope="forgetting"), AltEraser(scope="affected"), AltEraser(scope="all")]


@pytest.fixture(scope="module")
def full(random_data: Any) -> Interactions:
    data: Interactions = random_data(70, 45, density=0.15, seed=3)
    return data


def half_of(data: Interactions, user: int) -> dict[str, Any]:
    row = data.by(Side.USERS)
    items = row.columns[row.starts[user] : row.starts[user + 1] : 2]
    return {"user": f"u{user}", "items": [f"i{item}" for item in items]}


KINDS: dict[str, Callable[[Interactions], list[dict[str, Any]]]] = {
    "halves": lambda data: [half_of(data, user) for user in range(0, 60, 2)],
    "account": lambda _: [{"user": "u7"}],
    "item": lambda _: [{"item": "i3"}],
    "pair": lambda data: [
        {"user": "u9", "item": f"i{data.by(Side.USERS).columns[data.by(Side.USERS).starts[9]]}"}
    ],
}


def cases() -> list[tuple[int | None, bool, str, str]]:
    """Every two values of different settings meet, and so do all of model, objective and precision; on more data the
    benchmark of the loss does the same."""
    chosen = []
    for place, passes in enumerate((1, 3, 6, 12, None)):
        enmf, scaled = divmod(place % 4, 2)
        for opposite in (0, 1):
            single = enmf ^ scaled ^ opposite
            chosen.append(
                (
                    passes,
                    bool(enmf ^ opposite),
                    ("plain", "scaled")[scaled ^ opposite],
                    ("double", "single")[single],
                )
            )
    return chosen


@pytest.fixture(
    scope="module",
    params=cases(),
    ids=lambda given: "-".join(map(str, given)),
)
def case(request: pytest.FixtureRequest, full: Interactions, small_model: Any) -> tuple[Any, float]:
    """An original after so many passes, or as training leaves it by default; and what is rounding in its loss."""
    passes, enmf, objective, precision = request.param
    start = small_model(full, dim=8, objective=OBJECTIVES[objective], enmf=enmf, dtype=PRECISIONS[precision])
    trainer = ALS() if passes is None else ALS(max_passes=passes, tolerance=0.0, acceleration=None)
    return fit(start, full, trainer=trainer).model, ROUNDING[precision]


def loss_of(model: Any, data: Interactions, dense_loss: Any) -> float:
    return float(
        dense_loss(data, model.objective, *(value.double() for value in model.parameters().values()))
    )


def test_no_scope_raises_the_loss(case: tuple[Any, float], full: Interactions, dense_loss: Any) -> None:
    original, rounding = case
    for scope in SCOPES:
        for kind, requests in KINDS.items():
            outcome = scope.forget(original, full, Requests.of(requests(full)))
            remain = outcome.remain
            before, after = (loss_of(model, remain, dense_loss) for model in (original, outcome.model))
            assert after <= before * (1 + rounding), (scope, kind)


def test_no_request_of_a_live_model_raises_the_loss(
    case: tuple[Any, float], full: Interactions, dense_loss: Any
) -> None:
    """Through clean-ups, too: those that a low limit brings, and those that are asked for."""
    model, rounding = case
    live = LiveModel(model, full, drift_limit=1e-5)
    kinds = [KINDS["account"](full), KINDS["item"](full), KINDS["pair"](full)]
    requests = [
        *kinds,
        *([half_of(full, user)] for user in range(15, 62, 2)),
        [{"item": "i8"}, {"user": "u60"}],
    ]
    for number, request in enumerate(requests):
        live.forget(Requests.of(request), missing="ignore")
        if number % 5 == 4:
            live.clean_up()
        now, remain = live.model, live.remain
        before, after = (loss_of(each, remain, dense_loss) for each in (model, now))
        assert after <= before * (1 + rounding)
        model = now


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
def test_converged_means_that_the_tolerance_is_met(
    precision: str, objective: str, enmf: bool, full: Interactions, small_model: Any, dense_loss: Any
) -> None:
    """From an original at its optimum, where the gap that a request opens and what is left of it are known."""
    exact = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(switch_below=1e-3))
    optimum = fit(
        small_model(full, dim=4, objective=OBJECTIVES[objective], enmf=enmf), full, trainer=exact
    ).model
    original = in_precision(PRECISIONS[precision], optimum)
    for kind, requests in KINDS.items():
        requested = Requests.of(requests(full))
        outcome = AltEraser(scope="affected").forget(original, full, requested)
        live = LiveModel(original, full)
        erased = live.forget(requested)
        assert outcome.converged
        assert erased.converged
        for model, tolerance in ((outcome.model, 0.012), (live.model, 0.3)):
            best = fit(in_precision(torch.float64, model), outcome.remain, trainer=exact).model
            opened, left = (
                loss_of(each, outcome.remain, dense_loss) - loss_of(best, outcome.remain, dense_loss)
                for each in (original, model)
            )
            assert left <= tolerance * opened, kind


def in_precision(dtype: torch.dtype, model: Any) -> Any:
    return model.with_parameters({name: value.to(dtype) for name, value in model.parameters().items()})
