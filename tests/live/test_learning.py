"""A live model that learns: new events end where training ends, new users are exact, what goes leaves nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray

from alteraser import (
    ALS,
    DataError,
    IdRecommender,
    Interactions,
    JointNewton,
    LiveModel,
    MismatchError,
    Objective,
    Requests,
    SettingError,
    UnknownInteractions,
    fit,
    interactions,
)
from alteraser.data.interactions import Side

OBJECTIVE = Objective(w0=0.3, l2=0.6, l2_scaling=0.5)
EXACT = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(switch_below=1e-3))


@pytest.fixture(scope="module")
def full(random_data: Any) -> Interactions:
    data: Interactions = random_data(80, 50, density=0.15, seed=6)
    return data


@pytest.fixture(scope="module")
def weighted(full: Interactions) -> Interactions:
    """The same, each event with a weight."""
    frame = full.to_frame()
    return Interactions.from_columns(frame["user_id"], frame["item_id"], pl.Series(np.ones(len(frame))))


@pytest.fixture(scope="module", params=[False, True], ids=["mf", "enmf"])
def original(request: pytest.FixtureRequest, full: Interactions, small_model: Any) -> Any:
    """At its optimum."""
    return fit(small_model(full, dim=4, objective=OBJECTIVE, enmf=request.param), full, trainer=EXACT).model


def events(rows: list[tuple[str, str]]) -> Interactions:
    users, items = zip(*rows, strict=True)
    return Interactions.from_columns(pl.Series(users), pl.Series(items))


def taste(full: Interactions, user: int, n: int, *, name: str) -> Interactions:
    """The first items of a user, as the events of somebody else."""
    by_user = full.by(Side.USERS)
    items = full.item_vocabulary.ids.gather(by_user.columns[by_user.row(user)][:n]).to_list()
    return events([(name, item) for item in items])


def closed_form(model: Any, rows: NDArray[np.int64], weights: NDArray[Any]) -> NDArray[np.float64]:
    """The vector of a user with these items alone, by the normal equations, entry by entry."""
    h, items = model.h.double().numpy(), model.table(Side.ITEMS).double().numpy()
    (missing,), (l2,) = model.row_weights(Side.USERS, np.array([len(rows)]))
    popularity = model.row_weights(Side.ITEMS, np.zeros(len(items), np.int64))[0]  # alike for all here
    hessian, right = l2 * np.eye(len(h)), np.zeros(len(h))
    place = {int(row): at for at, row in enumerate(rows)}
    for item, vector in enumerate(items):
        x = h * vector
        weight = weights[place[item]] if item in place else missing * popularity[item]
        hessian += weight * np.outer(x, x)
        right += weight * x * (item in place)
    solved: NDArray[np.float64] = np.linalg.solve(hessian, right)
    return solved


def test_new_events_end_near_the_optimum_of_all(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full, tolerance=6e-3)
    for number in range(10):
        new = taste(full, number, 5, name=f"new{number}")
        learned = live.learn(new)
        assert learned.converged
        assert learned.n_learned == len(learned.change) == len(new)
    remain = live.remain
    assert remain.n_users == full.n_users + 10
    best = fit(live.model, remain, trainer=EXACT).model.loss(remain)
    start = original.with_parameters(
        original.parameters()
        | {"users": torch.cat([original.users, original.users.new_zeros(10, original.users.shape[1])])}
    )
    assert live.model.loss(remain) - best < 1e-2 * (start.loss(remain) - best)


def test_the_vector_of_a_new_user_is_that_of_its_events(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full, drift_limit=np.inf)  # a clean-up would move items afterwards
    learned = live.learn(taste(full, 3, 6, name="new"))
    model = live.model
    exact = closed_form(model, learned.change.items, np.ones(len(learned.change)))
    np.testing.assert_allclose(model.users[-1].numpy(), exact, rtol=1e-6, atol=1e-9)


def test_a_new_item_is_learned_and_recommended(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full)
    live.learn(events([(f"u{user}", "new item") for user in range(40)]))
    assert live.model.items[-1].abs().sum() > 0
    assert (live.remain.item_vocabulary.ids == "new item").any()
    shown = live.recommend([f"u{user}" for user in range(40, 80)], k=50)
    assert "new item" in shown["item_id"].to_list()
    again = live.recommend([f"u{user}" for user in range(40)], k=50)
    assert "new item" not in again["item_id"].to_list()  # it was seen


def test_what_is_learned_and_then_forgotten_leaves_the_scores_where_they_were(
    full: Interactions, original: Any
) -> None:
    live = LiveModel(original, full, tolerance=6e-3)
    live.learn(taste(full, 3, 6, name="new"))
    live.forget([{"user": "new"}])
    everyone = np.arange(full.n_users)
    before = original.scores(everyone)
    after = live.model.scores(everyone)[:, : full.n_items]
    assert float((after - before).norm() / before.norm()) < 1e-2
    live.clean_up()
    after = live.model.scores(everyone)[:, : full.n_items]
    assert float((after - before).norm() / before.norm()) < 2e-3
    assert live.remain.digest() == full.digest()


def test_one_step_forgets_and_learns(full: Interactions, original: Any) -> None:
    new = taste(full, 9, 5, name="new")
    both, after_each_other = (LiveModel(original, full, tolerance=6e-3) for _ in range(2))
    done = both.apply(forget=[{"user": "u5"}], learn=new)
    assert done.requests.n_honoured == 1
    after_each_other.forget([{"user": "u5"}])
    after_each_other.learn(new)
    assert both.remain.digest() == after_each_other.remain.digest()
    for live in (both, after_each_other):
        live.clean_up()
    everyone = np.arange(both.model.n_users)
    torch.testing.assert_close(
        both.model.scores(everyone), after_each_other.model.scores(everyone), rtol=0, atol=1e-2
    )


def test_a_frame_is_read_as_data_is(full: Interactions, weighted: Interactions, original: Any) -> None:
    frame = pl.DataFrame({"user_id": ["new"], "item_id": ["i1"], "weight": [2.5]})
    assert LiveModel(original, full).learn(frame.drop("weight")).change.after.values.tolist() == [1.0]
    assert LiveModel(original, weighted).learn(frame.to_pandas()).change.after.values.tolist() == [2.5]


@pytest.mark.parametrize("merge", ["sum", "max"])
def test_what_is_learned_is_weighed_as_training_did(merge: Any, full: Interactions, small_model: Any) -> None:
    rng = np.random.default_rng(3)
    frame = full.to_frame().with_columns(plays=pl.Series(rng.integers(1, 5, len(full)).astype(np.float64)))
    read: dict[str, Any] = {"weight": "plays", "merge": merge, "weight_offset": 1.0, "weight_slope": 2.5}
    begin = interactions(frame.head(len(frame) - 20), **read)
    plays = frame.head(1)["plays"][0]
    assert begin.by(Side.USERS).weights.max() == 1 + 2.5 * 4
    assert begin.by(Side.USERS).weights_of(*_rows(begin, frame.head(1)), n_columns=begin.n_items).values[
        0
    ] == (1 + 2.5 * plays)
    model = fit(small_model(begin, dim=4, objective=OBJECTIVE), begin, trainer=EXACT).model
    live = LiveModel(model, begin)
    again = frame.head(15).with_columns(plays=pl.lit(3.0))  # known pairs once more, and new ones
    live.learn(pl.concat([again, frame.tail(20)]).rename({"plays": "weight"}))
    live.forget([{"user": frame["user_id"][30]}])
    whole = pl.concat([frame, again]).filter(pl.col("user_id") != frame["user_id"][30])
    assert live.remain.digest() == interactions(whole, **read).digest()
    assert live._refiner.state.n_entries == live.remain.by(Side.USERS).n_entries
    by_user, entries = live.remain.by(Side.USERS), live._refiner.state.sides[Side.USERS].entries
    packed = entries.packed(np.arange(live.remain.n_users))
    np.testing.assert_array_equal(packed.weights, by_user.weights)


def _rows(data: Interactions, frame: pl.DataFrame) -> tuple[Any, Any]:
    return data.user_vocabulary.rows(frame["user_id"]), data.item_vocabulary.rows(frame["item_id"])


def test_penalties_of_others_do_not_follow_the_number_of_rows(full: Interactions, original: Any) -> None:
    assert original.objective.c_users is None  # it follows the number of items
    live = LiveModel(original, full)
    before = live.model.row_weights(Side.USERS, np.array([3]))[1]
    live.learn(events([("u1", "new item"), ("u2", "newer item")]))
    assert live.model.row_weights(Side.USERS, np.array([3]))[1] == before


def test_lists_are_those_of_the_model_without_what_was_seen(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full)
    live.forget([{"user": "u7"}, {"user": "u3", "items": ["i1"]}], missing="ignore")
    live.learn(taste(full, 9, 5, name="new"))
    remain = live.remain
    of_model = IdRecommender(live.model, remain.user_vocabulary, remain.item_vocabulary)
    users = ["u1", "u3", "new", "u1"]
    assert live.recommend(users, 5).equals(of_model.recommend(users, 5, exclude=remain))
    assert live.recommend("u1", 5, include_seen=True).equals(of_model.recommend("u1", 5))
    allowed = ["i1", "i2", "i3", "i4"]
    shown = live.recommend(users, 5, allow=allowed, deny=["i4"])["item_id"].to_list()
    assert set(shown) <= {"i1", "i2", "i3"}
    with pytest.raises(MismatchError, match="is not in the model"):
        live.recommend("u7")


def test_a_list_for_somebody_unknown_is_that_of_the_closed_form_and_stores_nothing(
    full: Interactions, original: Any
) -> None:
    live = LiveModel(original, full)
    rows, weights = np.array([2, 5, 11]), np.array([1.0, 3.0, 1.0])
    shown = live.recommend_for_items(["i2", "no such item", "i5", "i11"], 50, weights=[1.0, 9.0, 3.0, 1.0])
    vocabulary = full.item_vocabulary.ids.to_list()
    scores = (original.h.numpy() * original.items.numpy()) @ closed_form(
        original, np.array([vocabulary.index(f"i{row}") for row in rows]), weights
    )
    expected = sorted(
        (name for name in vocabulary if name not in {"i2", "i5", "i11"}),
        key=lambda name: -scores[vocabulary.index(name)],
    )
    assert shown["item_id"].to_list() == expected
    np.testing.assert_allclose(
        shown["score"].to_numpy(), [scores[vocabulary.index(name)] for name in expected], rtol=1e-4, atol=1e-7
    )
    assert shown.columns == ["rank", "item_id", "score"]
    assert torch.equal(live.model.users, original.users)
    assert live.remain.digest() == full.digest()
    with pytest.raises(MismatchError, match="None of the 1 items is in the model"):
        live.recommend_for_items(["no such item"])
    with pytest.raises(SettingError, match="2 weights came for 1 items"):
        live.recommend_for_items("i2", weights=[1.0, 2.0])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"user_id": ["u1", "u1"], "item_id": ["new", "new"], "weight": [1.0, 1.0]}, "came twice"),
        (
            {"user_id": ["u1", None], "item_id": ["new", "new"], "weight": [1.0, 1.0]},
            "are null or NaN or empty",
        ),
        ({"user_id": ["u1"], "item_id": ["new"], "weight": [-1.0]}, "negative, infinite or missing"),
        ({"user_id": ["u1"], "item_id": ["new"], "weight": [float("inf")]}, "negative, infinite or missing"),
    ],
)
def test_bad_events_are_refused_and_nothing_changes(
    weighted: Interactions, original: Any, rows: dict[str, Any], told: str
) -> None:
    live = LiveModel(original, weighted)
    with pytest.raises(DataError, match=told):
        live.apply(forget=[{"user": "u3"}], learn=pl.DataFrame(rows))
    assert live.remain.digest() == weighted.digest()
    assert torch.equal(live.model.users, original.users)


def test_a_request_that_cannot_be_met_keeps_new_events_out(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full)
    with pytest.raises(UnknownInteractions):
        live.apply(forget=Requests.of([{"user": "nobody"}]), learn=taste(full, 1, 3, name="new"))
    assert live.remain.digest() == full.digest()
    assert torch.equal(live.model.users, original.users)


def test_a_weight_beyond_what_single_precision_can_follow_is_refused(
    weighted: Interactions, original: Any
) -> None:
    single = original.with_parameters({name: value.float() for name, value in original.parameters().items()})
    live = LiveModel(single, weighted)
    heavy = Interactions.from_columns(pl.Series(["u1"]), pl.Series(["i49"]), pl.Series([1e7]))
    with pytest.raises(SettingError, match="times the median weight"):
        live.learn(heavy)
    assert live.remain.digest() == weighted.digest()


def test_weights_are_refused_where_the_data_has_none(full: Interactions, original: Any) -> None:
    """Also of a frame: passed over in silence, a bad or great weight would be learned as 1."""
    live = LiveModel(original, full)
    frame = pl.DataFrame({"user_id": ["n1"], "item_id": ["i1"], "weight": [-5.0]})
    with pytest.raises(DataError, match="weight"):
        live.learn(frame)
    with pytest.raises(DataError, match="without"):
        live.apply(forget=[{"user": "u7"}], learn=frame.with_columns(weight=pl.lit(2.0)))
    assert live.remain.digest() == full.digest()


def test_events_may_come_as_dictionaries(full: Interactions, original: Any) -> None:
    by_row, by_column, by_frame = (LiveModel(original, full) for _ in range(3))
    by_row.learn([{"user": "n1", "item": "i1"}, {"user": "n1", "item": "i2"}])
    by_column.learn({"user": ["n1", "n1"], "item": ["i1", "i2"]})
    by_frame.learn(pl.DataFrame({"user": ["n1", "n1"], "item": ["i1", "i2"], "rating": [1, 2]}))
    assert by_row.remain.digest() == by_column.remain.digest() == by_frame.remain.digest()


@pytest.mark.parametrize("came", ["ratings.csv", 3, [("n1", "i1")]])
def test_what_is_no_events_is_refused(came: Any, full: Interactions, original: Any) -> None:
    with pytest.raises(DataError, match="frame"):
        LiveModel(original, full).learn(came)


def test_nobody_is_no_user(full: Interactions, original: Any) -> None:
    nobody: Any = None
    with pytest.raises(SettingError, match="one or many ids"):
        LiveModel(original, full).recommend(nobody)


def test_a_single_request_needs_no_list(full: Interactions, original: Any) -> None:
    alone, listed = LiveModel(original, full), LiveModel(original, full)
    alone.forget({"user": "u7"})
    listed.forget([{"user": "u7"}])
    assert alone.remain.digest() == listed.remain.digest()


def test_what_changes_no_weight_moves_nothing(full: Interactions, original: Any) -> None:
    """A pair that is there already counts once, as the data merges by the greatest weight."""
    live = LiveModel(original, full)
    frame = full.to_frame()
    learned = live.learn(pl.DataFrame({"user_id": frame["user_id"][:1], "item_id": frame["item_id"][:1]}))
    assert learned.converged
    assert learned.n_learned == 1
    assert learned.cost.rows_visited == 0
    torch.testing.assert_close(live.model.users, original.users, rtol=0, atol=0)
