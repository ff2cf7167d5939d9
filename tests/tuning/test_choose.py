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
from alteraser.tuning.choose import MAX_CANDIDATES, Candidate, Choice, choose_objective
from alteraser.tuning.concerns import concerns
from alteraser.tuning.validation import ValidationSlice


@pytest.fixture(scope="module")
def data() -> Interactions:
    return load_dataset("synthetic")


@pytest.fixture(scope="module")
def choice(data: Interactions) -> Choice:
    return choose_objective(data, dim=16, rng=np.random.default_rng(0))


def test_the_best_candidate_is_chosen_and_beats_popularity(data: Interactions, choice: Choice) -> None:
    best = choice.best
    assert best is not None
    assert best in choice.candidates
    assert best.ndcg > 0.98 * max(candidate.ndcg for candidate in choice.candidates)
    assert best.ndcg > 1.5 * choice.most_popular
    assert 5 <= len(choice.candidates) <= MAX_CANDIDATES
    assert choice.objective == Objective(w0=best.w0, l2=best.l2).scaled_to(data)


@pytest.mark.parametrize("dim", [4, 64])
def test_the_choice_is_as_good_after_training_as_any_of_its_candidates(data: Interactions, dim: int) -> None:
    """A few passes tell which settings will be good in the end, also where many dimensions fit chance."""
    choice = choose_objective(data, dim=dim, rng=np.random.default_rng(0))
    part = ValidationSlice.of(data, rng=np.random.default_rng(1))
    reached = {}
    for candidate in choice.candidates:
        objective = Objective(w0=candidate.w0, l2=candidate.l2)
        start = MF.sized_for(part.learn, dim=dim, objective=objective, rng=np.random.default_rng(2))
        reached[candidate] = part.ndcg(ALS().train(start, part.learn, rng=None).model)
    assert choice.best is not None
    assert reached[choice.best] > 0.95 * max(reached.values())


def test_the_same_seed_makes_the_same_choice(data: Interactions, choice: Choice) -> None:
    assert choose_objective(data, dim=16, rng=np.random.default_rng(0)) == choice


def test_what_is_given_wins_and_c_follows_a_given_w0(data: Interactions) -> None:
    given = choose_objective(data, dim=4, rng=np.random.default_rng(0), w0=0.05)
    assert {each.w0 for each in given.candidates} == {0.05}
    assert given.objective.c_users == pytest.approx(0.05 * data.n_items, rel=0.05)
    assert len({each.l2 for each in given.candidates}) >= 4
    given = choose_objective(data, dim=4, rng=np.random.default_rng(0), l2=0.02)
    assert {each.l2 for each in given.candidates} == {0.02}
    assert len({each.w0 for each in given.candidates}) >= 2
    given = choose_objective(data, dim=4, rng=np.random.default_rng(0), w0=0.05, l2=0.02, l2_scaling=0.5)
    assert [(each.w0, each.l2) for each in given.candidates] == [(0.05, 0.02)]
    assert given.objective.l2_scaling == 0.5


def test_where_nothing_can_be_held_out_the_rule_stands() -> None:
    alone = interactions(pl.DataFrame({"user_id": [1, 2, 3], "item_id": [1, 1, 2]}))
    choice = choose_objective(alone, dim=4, rng=np.random.default_rng(0))
    assert choice.objective == Objective.for_data(alone)
    assert choice.best is None
    assert choice.candidates == ()


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
    found = concerns(ALS().train(start, data, rng=None), data, choice)
    assert len(found) == len(said)
    assert all(text in each for text, each in zip(said, found, strict=True))
    assert all("--l2" in each and f"l2 is {l2:g}" in each for each in found)


def test_a_training_cut_short_is_not_blamed_on_the_penalty(data: Interactions, choice: Choice) -> None:
    start = MF.sized_for(data, dim=16, objective=choice.objective, rng=np.random.default_rng(0))
    (warning,) = concerns(ALS(max_passes=0).train(start, data, rng=None), data, choice)
    assert "nearly" in warning
    assert "--max-passes" in warning
    assert "--l2" not in warning


def test_lists_no_better_than_popularity_are_told_of(data: Interactions, choice: Choice) -> None:
    model = MF.sized_for(data, dim=16, objective=choice.objective, rng=np.random.default_rng(0))
    trained = ALS().train(model, data, rng=None)
    assert concerns(trained, data, choice) == []
    best = Candidate(0.1, 0.01, ndcg=0.0312)
    hardly = Choice(choice.objective, (best,), best, most_popular=0.0311)
    (warning,) = concerns(trained, data, hardly)
    assert "0.0312 against 0.0311" in warning
    assert "alteraser tune" in warning
