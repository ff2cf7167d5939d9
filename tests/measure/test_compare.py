"""`compare`: groups, the reference, what is left out without test data, and plain JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError, SettingError
from alteraser.measure import ranking
from alteraser.measure.agreement import rbo, rbo_extrapolated, re_predict
from alteraser.measure.compare import compare
from alteraser.models.mf import MF
from alteraser.models.objective import Objective

KS = (2, 4)


@pytest.fixture(scope="module")
def parts(build: Any) -> tuple[Interactions, Interactions, Interactions]:
    """What remains, the test set and what was forgotten; users 0 to 2 forget, and user 2 forgets everything."""
    rng = np.random.default_rng(0)
    share = rng.random((10, 12))
    remain, test, forget = share < 0.4, (share >= 0.4) & (share < 0.6), share >= 0.9
    forget[3:] = False
    forget[:3, 0], remain[:3, 0], test[:3, 0] = True, False, False
    remain[2] = False
    remain[[0, 1, 3, 4, 5, 6, 7, 8, 9], 1] = True
    test[:, 1] = False
    test[5] = False
    return build(remain), build(test), build(forget)


@pytest.fixture(scope="module")
def models(parts: Any, small_model: Any) -> dict[str, Any]:
    return {name: small_model(parts[0], seed=seed) for seed, name in enumerate(("original", "retrained"))}


def test_figures_are_the_means_over_each_group(parts: Any, models: Any) -> None:
    remain, test, forget = parts
    report = compare(models, remain=remain, test=test, forget=forget, reference="retrained", ks=KS)
    groups = {
        "forgetting": np.array([0, 1]),
        "others": np.arange(3, 10),
    }  # nobody recommends to user 2 any more
    assert report.n_users == {"forgetting": 2, "others": 7}
    for name, model in models.items():
        assert set(report.values[name]) == set(groups)
        for group, users in groups.items():
            seen, relevant = remain.by(Side.USERS), test.by(Side.USERS)
            lists = ranking.top_k(model, users, 4, exclude=seen)
            wanted = ranking.top_k(models["retrained"], users, 4, exclude=seen)
            bare, bare_wanted = (ranking.top_k(each, users, 4) for each in (model, models["retrained"]))
            judged = relevant.counts[users] > 0  # user 5 has no test items
            assert judged.tolist() == [user != 5 for user in users]
            found = ranking.hits(lists[judged], users[judged], relevant)
            n_relevant = relevant.counts[users[judged]]
            figures = report.values[name][group]
            for k in KS:
                assert figures["recall"][k] == pytest.approx(ranking.recall(found, n_relevant, k).mean())
                assert figures["ndcg"][k] == pytest.approx(ranking.ndcg(found, n_relevant, k).mean())
                assert figures["hit_rate"][k] == pytest.approx(ranking.hit_rate(found, k).mean())
                assert figures["mrr"][k] == pytest.approx(ranking.mrr(found, k).mean())
                assert figures["coverage"][k] == ranking.coverage(lists, remain.n_items, k)
                assert figures["rbo"][k] == pytest.approx(rbo(lists, wanted, k).mean())
                assert figures["rbo_extrapolated"][k] == pytest.approx(
                    rbo_extrapolated(lists, wanted, k).mean()
                )
                assert figures["rbo_training"][k] == pytest.approx(rbo(bare, bare_wanted, k).mean())
        assert report.re_predict[name] == re_predict(model, forget)
        assert report.loss[name] == model.loss(remain)


@pytest.mark.parametrize("ks", [(2, 4), (10, 12, 50)], ids=["short", "longer than the catalogue"])
def test_the_reference_agrees_with_itself_and_others_do_not(
    parts: Any, models: Any, ks: tuple[int, ...]
) -> None:
    remain, test, forget = parts
    report = compare(models, remain=remain, test=test, forget=forget, reference="retrained", ks=ks)
    for group in ("forgetting", "others"):
        for measure in ("rbo", "rbo_extrapolated", "rbo_training"):
            for k in ks:
                assert report.values["retrained"][group][measure][k] == pytest.approx(1, abs=1e-12)
                assert report.values["original"][group][measure][k] < 1


def test_a_wholly_forgotten_item_is_in_no_list(build: Any) -> None:
    """A model that still knows item 0 would put it first; without it both models rank items 4, 1, 2, 3."""
    full = build(np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 1]], dtype=bool))
    remain = full.without(full.items == 0).with_tombstones(full)
    test = build(np.array([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=bool))
    scores = {"original": [9.0, 3.0, 2.0, 1.0, 8.0], "retrained": [0.0, 3.0, 2.0, 1.0, 8.0]}
    models = {
        name: MF(torch.ones(3, 1), torch.tensor(each)[:, None], Objective(w0=0.3, l2=0.01)) for name, each in scores.items()
    }
    report = compare(models, remain=remain, test=test, reference="retrained", ks=(1, 5))
    for name in models:
        figures = report.values[name]["everyone"]
        assert figures["coverage"] == {1: 1 / 5, 5: 3 / 5}  # items 1, 2 and 3
        for measure in ("rbo", "rbo_extrapolated", "rbo_training"):
            assert figures[measure] == {1: pytest.approx(1), 5: pytest.approx(1)}, measure
        for measure in ("recall", "ndcg", "hit_rate", "mrr"):
            assert figures[measure] == {1: 1, 5: 1}, measure


def test_without_a_test_set_there_is_no_accuracy(parts: Any, models: Any) -> None:
    remain, _, forget = parts
    report = compare(models, remain=remain, forget=forget, reference="retrained", ks=KS)
    for groups in report.values.values():
        for figures in groups.values():
            assert set(figures) == {"coverage", "rbo", "rbo_extrapolated", "rbo_training"}


def test_without_forget_and_reference_there_is_one_group_and_no_agreement(parts: Any, models: Any) -> None:
    remain, test, _ = parts
    report = compare(models, remain=remain, test=test, ks=KS)
    assert report.n_users == {"everyone": 9}
    assert report.re_predict == {}
    assert set(report.values["original"]["everyone"]) == {"coverage", "recall", "ndcg", "hit_rate", "mrr"}


def test_the_report_is_plain_json(parts: Any, models: Any) -> None:
    remain, test, forget = parts
    report = compare(models, remain=remain, test=test, forget=forget, reference="retrained", ks=KS)
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["reference"] == "retrained"
    assert plain["ks"] == [2, 4]
    assert (
        plain["models"]["original"]["others"]["ndcg"]["4"] == report.values["original"]["others"]["ndcg"][4]
    )
    assert plain["models"]["original"]["re_predict"] == report.re_predict["original"]


def test_when_nothing_was_forgotten_there_is_no_memory_to_measure(parts: Any, models: Any) -> None:
    remain, _, forget = parts
    nothing = forget.only(np.zeros(len(forget), dtype=bool))
    report = compare(models, remain=remain, forget=nothing, ks=KS)
    assert report.n_users == {"others": 9}
    assert (
        json.loads(json.dumps(report.to_dict(), allow_nan=False))["models"]["original"]["re_predict"] is None
    )


def test_what_cannot_be_compared_is_refused(parts: Any, models: Any) -> None:
    with pytest.raises(SettingError):
        compare({}, remain=parts[0])
    with pytest.raises(SettingError, match="reference"):
        compare(models, remain=parts[0], reference="nobody")
    for ks in ((), (0,), (5, -1)):
        with pytest.raises(SettingError):
            compare(models, remain=parts[0], ks=ks)


@pytest.mark.parametrize("what", ["test", "forget"])
def test_data_that_numbers_its_users_otherwise_is_refused(what: str, parts: Any, models: Any) -> None:
    """Rows are compared by what they stand for: other data of the same size must not pass for the same."""
    remain, test, forget = parts
    frame = test.to_frame().with_columns(user_id="x" + pl.col("user_id"))
    other = interactions(frame).known_to(interactions(frame).user_vocabulary, remain.item_vocabulary)[0]
    given = {"test": test, "forget": forget} | {what: other}
    with pytest.raises(MismatchError, match=what):
        compare(models, remain=remain, ks=KS, **given)
    compare(models, remain=remain.with_tombstones(remain), ks=KS, test=test, forget=forget)
