"""`tune`: it finds what is good, measures what it says, and goes on where it ended."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import alteraser as ae
from alteraser.errors import DataError, MissingExtra, ModelError, SettingError
from alteraser.measure import ranking
from alteraser.tuning.proposals import Proposals, quiet
from alteraser.tuning.space import Range, SearchSpace
from alteraser.tuning.trials import Trial

SMALL = SearchSpace(dim=Range(3, 3))


@pytest.fixture(scope="module")
def data() -> ae.Interactions:
    return ae.synthetic(np.random.default_rng(0), n_users=80, n_items=50).data


class Stopped(Exception):
    """Somebody pulled the plug."""


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("best", [(0.0007, 0.02), (0.5, 0.0005), (0.06, 0.2)])
def test_twenty_proposals_come_near_the_best_of_a_smooth_surface(
    best: tuple[float, float], seed: int
) -> None:
    """A hill on logarithmic scales with a ridge along w0·l2, as real surfaces have."""

    def height(w0: float, l2: float) -> float:
        across, up = math.log10(w0 / best[0]), math.log10(l2 / best[1])
        return 0.2 * math.exp(-0.3 * (across + up) ** 2 - 0.08 * (across - up) ** 2)

    wide = Range(1e-4, 1.0)
    space, found = SearchSpace(w0=wide, l2=wide), []
    spread = [
        {"w0": w0, "l2": l2}
        for w0, l2 in ((0.1, 0.01), (0.03, 0.1), (0.3, 0.003), (0.01, 0.03), (0.003, 0.01))
    ]
    with quiet():
        proposals = Proposals(space, spread, [], noise_edge=lambda w0: 0.001 / w0, seed=seed)
        for _ in range(20):
            asked, settings = proposals.ask()
            found.append(height(settings["w0"], settings["l2"]))
            proposals.tell(asked, Trial(settings, found[-1]))
    assert max(found) >= 0.99 * 0.2


def test_a_trial_is_a_training_judged_by_what_was_held_out(data: ae.Interactions) -> None:
    told = []
    found = ae.tune(
        data,
        model="mf",
        space=SMALL,
        trials=3,
        seed=4,
        on_trial=lambda trial, number, best: told.append((trial, number, best)),
    )
    learn, held_out = ae.holdout(data, fraction=0.2, rng=np.random.default_rng([4, 1]))
    for trial in found.trials:
        weights = {name: value for name, value in trial.settings.items() if name != "dim"}
        start = ae.MF.sized_for(
            learn, dim=3, objective=ae.Objective(**weights), rng=np.random.default_rng([4, 2])
        )
        model = ae.fit(start, learn, trainer=ae.ALS(max_passes=trial.passes)).model
        relevant = held_out.by(ae.Side.USERS)
        users = relevant.occupied
        lists = ranking.top_k(model, users, 10, exclude=learn.by(ae.Side.USERS))
        gains = ranking.ndcg(ranking.hits(lists, users, relevant), relevant.counts[users], 10)
        assert trial.ndcg == pytest.approx(gains.mean(), rel=1e-6)
    assert [number for _, number, _ in told] == [1, 2, 3]
    assert found.best.ndcg == max(trial.ndcg or 0.0 for trial in found.trials)
    assert [trial for trial, _, best in told if best][-1] == found.best
    assert found.settings == {"model": "mf", **found.best.settings} | {
        "trainer": "als",
        "max_passes": 200 if found.best.converged else found.best.passes,
        "tolerance": 1e-5,
        "solve_h": False,
    }


def test_training_ends_where_more_of_it_makes_lists_worse(build: Any) -> None:
    """Neighbours on a ring: a few passes still tell places apart, the optimum of eight dimensions only regions."""
    rng, n, dim = np.random.default_rng(0), 800, 8
    positives = np.zeros((n, n), dtype=bool)
    for user in range(n):
        positives[user, (user + rng.choice(24, 6, replace=False)) % n] = True
    ring = build(positives)
    space = SearchSpace(w0=Range(0.03, 0.1), l2=Range(0.0005, 0.01), dim=Range(dim, dim))
    found = ae.tune(ring, model="mf", space=space, trials=2)
    learn, held_out = ae.holdout(ring, fraction=0.2, rng=np.random.default_rng([0, 1]))
    weights = {name: value for name, value in found.best.settings.items() if name != "dim"}
    start = ae.MF.sized_for(
        learn, dim=dim, objective=ae.Objective(**weights), rng=np.random.default_rng([0, 2])
    )
    relevant, users = held_out.by(ae.Side.USERS), held_out.by(ae.Side.USERS).occupied

    def ndcg(max_passes: int) -> float:
        model = ae.fit(start, learn, trainer=ae.ALS(max_passes=max_passes)).model
        return float(
            ranking.ndcg_of_users(model, users, relevant, 10, exclude=learn.by(ae.Side.USERS)).mean()
        )

    assert not found.best.converged
    assert found.settings["max_passes"] == found.best.passes
    assert found.best.ndcg == pytest.approx(ndcg(found.best.passes), rel=1e-6)
    assert (found.best.ndcg or 0.0) > 1.1 * ndcg(200)


def test_an_interrupted_search_goes_on(data: ae.Interactions, tmp_path: Path) -> None:
    study = tmp_path / "study.json"

    def pull(_: Trial, number: int, __: bool) -> None:
        if number == 3:
            raise Stopped

    whole = ae.tune(data, space=SMALL, trials=7, study=tmp_path / "whole.json")
    with pytest.raises(Stopped):
        ae.tune(data, space=SMALL, trials=7, study=study, on_trial=pull)
    assert len(json.loads(study.read_text())["trials"]) == 3
    resumed = ae.tune(data, space=SMALL, trials=7, study=study)
    assert (resumed.n_resumed, len(resumed.trials)) == (3, 7)
    assert [trial.settings for trial in resumed.trials] == [trial.settings for trial in whole.trials]
    assert [trial.ndcg for trial in resumed.trials] == pytest.approx([trial.ndcg for trial in whole.trials])
    again = ae.tune(data, space=SMALL, trials=7, study=study)
    assert (again.n_resumed, again.settings) == (7, resumed.settings)
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["study.json", "whole.json"]


def test_another_search_or_another_file_is_refused_and_kept(data: ae.Interactions, tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    ae.tune(data, space=SMALL, trials=1, study=study)
    before = study.read_bytes()
    with pytest.raises(SettingError, match="another search: space, seed differ"):
        ae.tune(data, space=SearchSpace(dim=Range(4, 4)), trials=2, study=study, seed=1)
    half = data.only(np.arange(len(data)) % 2 == 0)
    with pytest.raises(SettingError, match="another search: data_sha256,"):
        ae.tune(half, space=SMALL, trials=2, study=study)
    assert study.read_bytes() == before
    for content in ("user_id,item_id\n1,2\n", "[1, 2]", '{"format": "alteraser-study", "version": 2}'):
        study.write_text(content)
        with pytest.raises(SettingError, match="is no study"):
            ae.tune(data, space=SMALL, trials=2, study=study)
        assert study.read_text() == content


def test_a_budget_that_is_over_ends_the_search_after_one_trial(data: ae.Interactions) -> None:
    assert len(ae.tune(data, space=SMALL, trials=9, budget_seconds=1e-9).trials) == 1


def test_processes_find_what_one_finds(data: ae.Interactions) -> None:
    """The points that are tried first are the same; which of them ends first is not."""
    alone, together = (ae.tune(data, space=SMALL, trials=4, jobs=jobs) for jobs in (1, 2))
    found = [
        np.array(
            sorted((trial.settings["w0"], trial.settings["l2"], trial.ndcg or -1.0) for trial in each.trials)
        )
        for each in (alone, together)
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_a_setting_that_cannot_be_trained_is_passed_over(data: ae.Interactions) -> None:
    """Steps of this length diverge; where they do not, the loss does not count, the NDCG does."""
    wild = ae.AdamW(learning_rate=1e6, max_epochs=3)
    with pytest.raises(ModelError, match=r"No trial could be trained.*learning_rate"):
        ae.tune(data, space=SMALL, trials=2, trainer=wild)


@pytest.mark.parametrize(
    "settings",
    [{"trials": 0}, {"jobs": 0}, {"budget_seconds": 0.0}, {"budget_seconds": math.nan}, {"seed": -1}],
)
def test_nonsense_is_refused(data: ae.Interactions, settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(settings))} is"):
        ae.tune(data, space=SMALL, **settings)


def test_too_little_data_is_refused(build: Any) -> None:
    with pytest.raises(DataError, match="enough interactions"):
        ae.tune(build(np.eye(4, dtype=bool)), space=SMALL)


def test_without_optuna_the_extra_is_named(data: ae.Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"pip install 'alteraser\[tune\]'"):
        ae.tune(data, space=SMALL, trials=1)
