"""w0 and l2 that follow from the data."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from alteraser.data.datasets import load_dataset
from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from alteraser.tuning.choose import MARGIN, MAX_TRIALS, Choice, Trial, choose_objective
from alteraser.tuning.concerns import concerns


@pytest.fixture(scope="module")
def data() -> Interactions:
    return load_dataset("synthetic")


@pytest.fixture(scope="module")
def choice(data: Interactions) -> Choice:
    return choose_objective(data, dim=16, rng=np.random.default_rng(0))


def test_a_good_trial_is_chosen_and_beats_popularity(data: Interactions, choice: Choice) -> None:
    best = choice.chosen
    assert best in choice.trials
    assert best.ndcg >= max(trial.ndcg for trial in choice.trials) / MARGIN
    assert best.ndcg > 1.5 * choice.most_popular
    assert 5 <= len(choice.trials) <= MAX_TRIALS
    assert choice.objective == Objective(w0=best.w0, l2=best.l2).scaled_to(data)


def test_the_same_seed_makes_the_same_choice(data: Interactions, choice: Choice) -> None:
    assert choose_objective(data, dim=16, rng=np.random.default_rng(0)) == choice


def test_what_is_given_wins_and_c_follows_a_given_w0(data: Interactions) -> None:
    given = choose_objective(data, dim=4, rng=np.random.default_rng(0), w0=0.05)
    assert {trial.w0 for trial in given.trials} == {0.05}
    assert given.objective.c_users == pytest.approx(0.05 * data.n_items, rel=0.05)
    assert len({trial.l2 for trial in given.trials}) == 3
    given = choose_objective(data, dim=4, rng=np.random.default_rng(0), l2=0.02)
    assert {trial.l2 for trial in given.trials} == {0.02}
    assert len({trial.w0 for trial in given.trials}) >= 2
    given = choose_objective(data, dim=4, rng=np.random.default_rng(0), w0=0.05, l2=0.02, l2_scaling=0.5)
    assert [(trial.w0, trial.l2) for trial in given.trials] == [(0.05, 0.02)]
    assert given.objective.l2_scaling == 0.5


def test_where_nothing_can_be_held_out_the_rule_stands() -> None:
    alone = interactions(pl.DataFrame({"user_id": [1, 2, 3], "item_id": [1, 1, 2]}))
    choice = choose_objective(alone, dim=4, rng=np.random.default_rng(0))
    assert choice.objective == Objective.for_data(alone)
    assert choice.chosen is None
    assert choice.trials == ()


@pytest.mark.parametrize("shape", [(300, 300), (1500, 200)], ids=str)
@pytest.mark.parametrize("skew", [0.0, 1.0])
@pytest.mark.parametrize("l2_scaling", [1.0, 0.5])
def test_the_noise_edge_is_the_largest_singular_value_that_chance_brings(
    shape: tuple[int, int], skew: float, l2_scaling: float
) -> None:
    """Pairs drawn at random, items by popularity: what is left of the scaled matrix beside its expectation."""
    rng = np.random.default_rng(0)
    popularity = np.exp(skew * rng.standard_normal(shape[1]))
    chance = np.minimum(0.05 * popularity / popularity.mean(), 0.9)
    users, items = np.nonzero(rng.random(shape) < chance)
    data = interactions(pl.DataFrame({"user_id": users, "item_id": items}))
    objective = Objective(w0=0.2, l2=1.0, l2_scaling=l2_scaling).scaled_to(data)
    n_u, n_v = (data.by(side).counts.astype(float) for side in Side)
    scale = np.sqrt(np.outer(n_u + objective.c_users, n_v + objective.c_items) ** l2_scaling)
    matrix = np.zeros((data.n_users, data.n_items))
    matrix[data.by(Side.USERS).owners(), data.by(Side.USERS).columns] = 1
    noise = (matrix - np.outer(n_u, n_v) / n_u.sum()) / scale
    assert objective.noise_edge(data) == pytest.approx(np.linalg.norm(noise, 2), rel=0.2)


def test_the_rule_follows_the_scale_of_the_weights() -> None:
    """Tripled weights want a tripled w0, and a penalty that weighs as much against them."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"user_id": rng.integers(0, 50, 400), "item_id": rng.integers(0, 40, 400)}).unique()
    plain, tripled = (
        Objective.for_data(interactions(frame.with_columns(weight=pl.lit(weight)), weight="weight"))
        for weight in (1.0, 3.0)
    )
    assert tripled.w0 == pytest.approx(3 * plain.w0, rel=0.1)
    assert tripled.l2 < 3 * plain.l2  # c has grown with w0


@pytest.mark.parametrize(
    ("l2", "said"), [(0.02, []), (0.17, ["drowns a typical user"]), (5.0, ["(nearly) empty"])], ids=str
)
def test_a_penalty_that_is_too_strong_is_told_of(data: Interactions, l2: float, said: list[str]) -> None:
    choice = Choice(Objective(w0=0.3, l2=l2).scaled_to(data))
    start = MF.sized_for(data, dim=16, objective=choice.objective, rng=np.random.default_rng(0))
    found = concerns(ALS().train(start, data, rng=None).model, data, choice)
    assert len(found) == len(said)
    assert all(text in each for text, each in zip(said, found, strict=True))
    assert all("--l2" in each and f"l2 is {l2:g}" in each for each in found)


def test_lists_no_better_than_popularity_are_told_of(data: Interactions, choice: Choice) -> None:
    model = MF.sized_for(data, dim=16, objective=choice.objective, rng=np.random.default_rng(0))
    trained = ALS().train(model, data, rng=None).model
    assert concerns(trained, data, choice) == []
    trial = Trial(0.1, 0.01, ndcg=0.0312)
    hardly = Choice(choice.objective, (trial,), trial, most_popular=0.0311)
    (warning,) = concerns(trained, data, hardly)
    assert "0.0312 against 0.0311" in warning
    assert "alteraser tune" in warning
