"""A version is judged by what it has not seen; where it has seen all, a model like it is."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import alteraser as ae


@pytest.fixture(scope="module")
def parts() -> tuple[ae.Interactions, ae.Interactions]:
    return ae.holdout(ae.load_dataset("synthetic"), fraction=0.2, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def version(parts: tuple[ae.Interactions, ae.Interactions]) -> ae.Version:
    trainer, objective = ae.ALS(max_passes=7), ae.Objective(w0=0.2, l2=0.02, c_users=3.0)
    start = ae.ENMF.sized_for(parts[0], dim=8, objective=objective, rng=np.random.default_rng(1))
    return ae.Version.of(ae.fit(start, parts[0], trainer=trainer).model, parts[0], trainer=trainer)


def again(data: ae.Interactions, extra: pl.DataFrame | None = None) -> ae.Interactions:
    """The same interactions as a file of them would give: on rows of their own."""
    frame = data.to_frame().select("user_id", "item_id")
    return ae.interactions(frame if extra is None else pl.concat([frame, extra]))


def test_the_version_itself_is_judged_by_a_test_part(
    version: ae.Version, parts: tuple[ae.Interactions, ae.Interactions]
) -> None:
    train, test = parts
    strangers = pl.DataFrame({"user_id": ["nobody"], "item_id": ["nothing"]})
    found, n_unknown = ae.evaluate_version(version, again(train), again(test, strangers))
    assert n_unknown == 1
    assert found.to_dict() == ae.evaluate(version.model, train, test).to_dict()


def test_users_nobody_knows_are_refused(
    version: ae.Version, parts: tuple[ae.Interactions, ae.Interactions]
) -> None:
    strangers = ae.interactions(pl.DataFrame({"user_id": ["nobody"], "item_id": ["nothing"]}))
    with pytest.raises(ae.MismatchError, match="None of the 1 test interactions has a user and an item"):
        ae.evaluate_version(version, parts[0], strangers)


def test_a_held_out_part_is_judged_by_a_model_that_never_saw_it(
    version: ae.Version, parts: tuple[ae.Interactions, ae.Interactions]
) -> None:
    train, _ = parts
    found, training = ae.evaluate_holdout(version, again(train), fraction=0.3, rng=np.random.default_rng(5))
    learn, held_out = ae.holdout(train, fraction=0.3, rng=np.random.default_rng(5))
    model = training.model
    assert (model.kind, model.settings()) == (version.kind, version.model.settings())
    assert len(training.losses) == 7
    assert training.losses[-1] == pytest.approx(model.loss(learn), rel=1e-4)
    assert found.to_dict() == ae.evaluate(model, learn, held_out).to_dict()
    seen = ae.evaluate(version.model, learn, held_out).values["model"]["ndcg"][10]
    assert seen > found.values["model"]["ndcg"][10]  # what evaluating the version itself would pretend


def test_other_data_is_refused(version: ae.Version, parts: tuple[ae.Interactions, ae.Interactions]) -> None:
    with pytest.raises(ae.MismatchError, match="digest"):
        ae.evaluate_holdout(version, parts[1], rng=np.random.default_rng(0))
