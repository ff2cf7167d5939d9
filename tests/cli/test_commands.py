"""What each command does when all is well, and that --json prints one document and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.torch

Ok = Callable[..., Any]


@pytest.fixture(scope="module")
def models(ok: Ok, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `unlearned` and `retrained`."""
    folder = tmp_path_factory.mktemp("models")
    asked = ("forget", workspace / "model", workspace / "data.csv", "--requests", workspace / "requests.csv")
    ok(*asked, "--out", folder / "unlearned", "--remaining", folder / "rest.parquet")
    ok(*asked, "--out", folder / "retrained", "--method", "retrain")
    return folder


def test_describe(ok: Ok, run: Any, workspace: Path) -> None:
    data = pl.read_csv(workspace / "data.csv")
    columns = ("--user-column", "member", "--item-column", "product", "--time-column", "day", "--any-rating")
    described = ok("data", "describe", workspace / "data.csv", *columns)
    assert described["users"] == data["member"].n_unique()
    assert described["items"] == data["product"].n_unique()
    assert described["interactions"] == described["events"] == len(data)
    assert described["density"] == pytest.approx(len(data) / (described["users"] * described["items"]))
    assert described["per_user"]["max"] == data["member"].value_counts()["count"].max()
    assert [text[:10] for text in described["times"]] == [data["day"].min(), data["day"].max()]
    assert described["weights"] is None
    shown = run("data", "describe", workspace / "data.csv", *columns).out
    assert re.search(rf"Interactions \(distinct pairs\) +│ +{len(data)} ", shown)


def test_describe_knows_a_set_by_its_name(ok: Ok) -> None:
    assert ok("data", "describe", "synthetic")["users"] > 100


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_convert_keeps_the_interactions(ok: Ok, workspace: Path, tmp_path: Path, name: str) -> None:
    columns = ("--user-column", "member", "--item-column", "product", "--time-column", "day", "--any-rating")
    result = ok(
        "data", "convert", workspace / "data.csv", tmp_path / name, *columns, "--weight-column", "rating"
    )
    assert result["out"] == str(tmp_path / name)
    weighted = ("--weight-column", "rating")
    before = ok("data", "describe", workspace / "data.csv", *columns, *weighted)
    after = ok("data", "describe", tmp_path / name, "--time-column", "time", "--weight-column", "weight")
    assert after == before


def test_split_shares_each_users_items(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    result = ok(
        "data", "split", workspace / "plain.csv", "--fraction", 0.25, "--train", train, "--test", test
    )
    whole, first, second = (pl.read_csv(path) for path in (workspace / "plain.csv", train, test))
    assert result["train"]["interactions"] == len(first)
    assert pl.concat([first, second]).sort(pl.all()).equals(whole.sort(pl.all()))
    assert len(second) == pytest.approx(len(whole) / 4, abs=len(whole) / 20)
    again = tmp_path / "again.csv"
    ok(
        "data",
        "split",
        workspace / "plain.csv",
        "--fraction",
        0.25,
        "--train",
        train,
        "--test",
        again,
        "--force",
    )
    assert again.read_bytes() == test.read_bytes()


def test_split_by_time(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    columns = ("--user-column", "member", "--item-column", "product", "--time-column", "day", "--any-rating")
    outs = ("--train", tmp_path / "train.parquet", "--test", tmp_path / "test.parquet")
    ok("data", "split", workspace / "data.csv", *columns, "--how", "last", *outs)
    latest = pl.read_parquet(tmp_path / "train.parquet").group_by("user_id").agg(pl.col("time").max())
    held = pl.read_parquet(tmp_path / "test.parquet").join(latest, on="user_id")
    assert held["user_id"].is_unique().all()
    assert (held["time"] >= held["time_right"]).all()


@pytest.mark.parametrize(
    "options",
    [
        ("--model", "mf"),
        ("--model", "enmf", "--solve-h"),
        ("--model", "enmf", "--trainer", "adamw", "--learning-rate", 0.05),
        ("--l2-scaling", 0, "--w0", 0.1, "--l2", 0.5, "--user-activity", 0.5, "--item-popularity", 0.5),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_train(ok: Ok, workspace: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    out = tmp_path / "model"
    train = ("train", workspace / "plain.csv", "--dim", 3, "--max-passes", 4, "--out", out, *options)
    result = ok(*train)
    assert result["passes"] <= 4
    assert result["loss"] > 0
    first = safetensors.torch.load_file(out / "parameters.safetensors")
    assert first["users"].shape == (result["users"], 3)
    ok(*train, "--force")
    second = safetensors.torch.load_file(out / "parameters.safetensors")
    assert all(bool((first[name] == second[name]).all()) for name in first)
    modes = {path.stat().st_mode for path in out.iterdir()}
    assert len(modes) == 1, "some of a model's files can be read by others than the rest"


def test_recommend_lists_the_best_items_a_user_does_not_have(ok: Ok, run: Any, workspace: Path) -> None:
    user, model = "person-003@mail.example", workspace / "model"
    own = set(pl.read_csv(workspace / "data.csv").filter(pl.col("member") == user)["product"])
    listed = ok("recommend", model, "--user", user, "-k", 5, "--exclude", workspace / "data.csv")[
        "recommendations"
    ]
    assert [each["rank"] for each in listed] == [1, 2, 3, 4, 5]
    assert not own & {each["item_id"] for each in listed}
    scores = [each["score"] for each in listed]
    assert scores == sorted(scores, reverse=True)
    everything = ok("recommend", model, "--user", user, "-k", 999)["recommendations"]
    assert {each["item_id"] for each in everything} > own
    kept = [each for each in everything if each["item_id"] not in own][:5]
    assert [each["item_id"] for each in kept] == [each["item_id"] for each in listed]
    assert (
        listed[0]["item_id"]
        in run("recommend", model, "--user", user, "--exclude", workspace / "data.csv").out
    )


@pytest.mark.parametrize("name", ["lists.csv", "lists.parquet"])
def test_recommend_to_many(ok: Ok, workspace: Path, tmp_path: Path, name: str) -> None:
    users = tmp_path / "users.csv"
    users.write_text("user_id\nperson-007@mail.example\nperson-003@mail.example\n")
    result = ok("recommend", workspace / "model", "--users", users, "-k", 3, "--out", tmp_path / name)
    assert result == {"out": str(tmp_path / name), "users": 2, "rows": 6}
    table = pl.read_csv(tmp_path / name) if name.endswith("csv") else pl.read_parquet(tmp_path / name)
    assert table.columns == ["user_id", "rank", "item_id", "score"]
    assert table["user_id"].unique(maintain_order=True).to_list() == pl.read_csv(users)["user_id"].to_list()
    one = ok("recommend", workspace / "model", "--user", "person-003@mail.example", "-k", 3)[
        "recommendations"
    ]
    assert table[3:]["item_id"].to_list() == [each["item_id"] for each in one]


def test_recommend_to_users_typed_one_after_another_each_once(ok: Ok, run: Any, workspace: Path) -> None:
    users = [f"person-{number:03d}@mail.example" for number in (7, 3, 7)]
    named = [part for user in users for part in ("--user", user)]
    asked = ("recommend", workspace / "model", workspace / "data.csv", *named)
    listed = ok(*asked, "-k", 3)["recommendations"]
    assert [each["user_id"] for each in listed] == [users[0]] * 3 + [users[1]] * 3
    owned = set(pl.read_csv(workspace / "data.csv").select("member", "product").rows())
    assert not owned & {(each["user_id"], each["item_id"]) for each in listed}
    everything = ok(*asked, "-k", 25, "--include-seen")["recommendations"]
    assert len(everything) == 50
    assert run(*asked).err == run(*asked, "--include-seen").err == ""


def test_recommend_warns_that_lists_may_hold_what_users_have(run: Any, workspace: Path) -> None:
    asked = ("recommend", workspace / "model", "--user", "person-003@mail.example")
    ran = run(*asked, "--json")
    assert ran.code == 0
    assert len(ran.json["recommendations"]) == 10
    assert "already have" in ran.err
    assert "--include-seen" in ran.err
    assert run(*asked, "--include-seen").err == ""


def test_numeric_ids_are_asked_for_as_they_are_written(ok: Ok, tmp_path: Path) -> None:
    pl.DataFrame({"user_id": [1, 1, 2, 2, 10], "item_id": [7, 8, 7, 9, 8]}).write_parquet(
        tmp_path / "d.parquet"
    )
    ok("train", tmp_path / "d.parquet", "--dim", 2, "--max-passes", 2, "--out", tmp_path / "model")
    assert len(ok("recommend", tmp_path / "model", "--user", 10)["recommendations"]) == 3
    (tmp_path / "r.csv").write_text("user\n10\n")
    asked = ("forget", tmp_path / "model", tmp_path / "d.parquet", "--requests", tmp_path / "r.csv")
    assert ok(*asked, "--out", tmp_path / "model2")["forgotten"]["users"] == 1


def test_similar_items(ok: Ok, run: Any, workspace: Path) -> None:
    listed = ok("similar", workspace / "model", "--item", "Thing 05", "-k", 4)["similar"]
    tensors = safetensors.torch.load_file(workspace / "model" / "parameters.safetensors")
    names = pl.read_parquet(workspace / "model" / "items.parquet")["id"].to_list()
    items = tensors["items"].double().numpy()
    items = items / np.linalg.norm(items, axis=1, keepdims=True)
    angles = items @ items[names.index("Thing 05")]
    order = [names[row] for row in np.argsort(-angles) if names[row] != "Thing 05"][:4]
    assert [each["item_id"] for each in listed] == order
    assert listed[0]["similarity"] <= 1
    assert order[0] in run("similar", workspace / "model", "--item", "Thing 05").out


def test_forgotten_items_are_neither_recommended_nor_similar(ok: Ok, models: Path) -> None:
    model = models / "unlearned"
    listed = ok("recommend", model, "--user", "person-003@mail.example", "-k", 999)["recommendations"]
    assert len(listed) == 24
    assert len(ok("similar", model, "--item", "Thing 05", "-k", 999)["similar"]) == 23


def test_compare_and_its_page(run: Any, workspace: Path, models: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("member,product,day\nperson-001@mail.example,Thing 03,2024-01-01\nnobody,Thing 03,\n")
    paths = {
        "retrained": models / "retrained",
        "unlearned": models / "unlearned",
        "original": workspace / "model",
    }
    compare = (
        *("compare", "--data", workspace / "data.csv", "--requests", workspace / "requests.csv"),
        *(part for name, path in paths.items() for part in ("--model", f"{name}={path}")),
        *("--reference", "retrained", "--test", test),
    )
    ran = run(*compare, "--html", tmp_path / "page.html", "--json")
    assert ran.code == 0
    assert ran.err == "1 test interaction with a user or an item not in the data: left out.\n"
    report = json.loads(ran.out)
    assert list(report["models"]) == list(paths)
    assert report["models"]["retrained"]["forgetting"]["rbo"]["10"] == 1
    scores = {name: each["re_predict"] for name, each in report["models"].items()}
    assert scores["unlearned"] < scores["original"]
    assert report["models"]["unlearned"]["loss"] < report["models"]["original"]["loss"]
    assert "recall" in report["models"]["unlearned"]["forgetting"]
    page = (tmp_path / "page.html").read_text()
    assert all(name in page for name in paths)
    assert "Re-predict score of the forgotten pairs" in run(*compare).out
    data = pl.read_csv(workspace / "data.csv")
    gone = data.filter(
        (pl.col("member") == "person-000@mail.example")
        | (pl.col("product") == "Thing 00")
        | (
            (pl.col("member") == "person-001@mail.example")
            & pl.col("product").is_in(["Thing 03", "Thing 04"])
        )
    )
    assert f"<strong>{len(gone)}</strong>of {len(data)} interactions" in page
    assert f"<strong>{gone['member'].n_unique()}</strong>of 40 users" in page
    assert "<strong>1</strong>of them had everything forgotten" in page
    assert "@mail.example" not in page, "the list shown does not say whose it is"
    lists = re.findall(r"<ol>(.*?)</ol>", page)
    assert len(lists) == 3
    assert all(each.count("<li") == 10 for each in lists)
    assert "Thing 00" not in page, "a forgotten item is in no list"


def test_models_are_compared_without_requests(run: Any, ok: Ok, workspace: Path, tmp_path: Path) -> None:
    other, test = tmp_path / "other", tmp_path / "test.csv"
    columns = ("--user-column", "member", "--item-column", "product", "--time-column", "day", "--any-rating")
    test.write_text("member,product\nperson-002@mail.example,Thing 03\n")
    ok("train", workspace / "data.csv", *columns, "--dim", 2, "--max-passes", 5, "--out", other)
    compare = (
        *("compare", "--data", workspace / "data.csv", "--test", test, "--reference", "four"),
        *("--model", f"four={workspace / 'model'}", "--model", f"two={other}"),
    )
    report = ok(*compare, "--html", tmp_path / "page.html")
    assert report["n_users"] == {"everyone": 40}
    assert "ndcg" in report["models"]["two"]["everyone"]
    assert report["models"]["four"]["everyone"]["rbo"]["10"] == 1
    assert report["models"]["two"]["re_predict"] is None
    page = (tmp_path / "page.html").read_text()
    assert "What was forgotten" not in page
    assert "Re-predict" not in page
    assert page.count("<ol>") == 2
    assert "Re-predict" not in run(*compare).out


def test_models_of_other_data_are_not_compared_without_requests(
    run: Any, workspace: Path, models: Path
) -> None:
    columns = ("--user-column", "member", "--item-column", "product", "--time-column", "day", "--any-rating")
    compare = ("compare", "--data", workspace / "data.csv", *columns)
    ran = run(*compare, "--model", f"unlearned={models / 'unlearned'}")
    assert ran.code == 2
    assert "--requests" in ran.err


def test_compare_says_of_a_model_that_it_is_further_down_a_chain(
    run: Any, ok: Ok, workspace: Path, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "more.csv").write_text("user\nperson-009@mail.example\n")
    further = ("forget", models / "unlearned", models / "rest.parquet", "--requests", tmp_path / "more.csv")
    ok(*further, "--out", tmp_path / "further")
    compare = ("compare", "--data", workspace / "data.csv", "--requests", workspace / "requests.csv")
    known, strange = f"original={workspace / 'model'}", f"further={tmp_path / 'further'}"
    ran = run(*compare, "--model", known, "--model", strange)
    assert ran.code == 0
    assert ran.err.startswith("The model further was trained neither on this data nor")
    assert ran.err.count("\n") == 1


def test_what_a_user_rated_low_or_without_a_weight_is_excluded(
    ok: Ok, workspace: Path, tmp_path: Path
) -> None:
    """How confident or how late an interaction was is of no matter for leaving out what the user has."""
    user, model = "person-001@mail.example", tmp_path / "model"
    columns = ("--user-column", "member", "--item-column", "product", "--time-column", "day")
    options = (*columns, "--weight-column", "rating", "--min-rating", 4, "--merge", "last")
    ok("train", workspace / "data.csv", *options, "--dim", 2, "--max-passes", 2, "--out", model)
    data = pl.read_csv(workspace / "data.csv")
    own = data.filter(pl.col("member") == user)
    assert (own["rating"] < 4).any()
    data.select("member", "product").write_csv(tmp_path / "pairs.csv")
    for exclude in (workspace / "data.csv", tmp_path / "pairs.csv"):
        listed = ok("recommend", model, "--user", user, "-k", 99, "--exclude", exclude)["recommendations"]
        assert listed
        assert not set(own["product"]) & {each["item_id"] for each in listed}


def test_a_test_part_needs_neither_weights_nor_times(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    columns = ("--user-column", "member", "--item-column", "product", "--time-column", "day", "--any-rating")
    options = (*columns, "--weight-column", "rating", "--merge", "last")
    ok("train", workspace / "data.csv", *options, "--dim", 2, "--max-passes", 2, "--out", tmp_path / "model")
    (tmp_path / "test.csv").write_text("member,product\nperson-001@mail.example,Thing 09\n")
    compare = ("compare", "--data", workspace / "data.csv", "--requests", workspace / "requests.csv")
    report = ok(*compare, "--model", f"a={tmp_path / 'model'}", "--test", tmp_path / "test.csv", *options)
    assert "recall" in report["models"]["a"]["forgetting"]


def test_more_items_than_there_are_can_be_asked_for(ok: Ok, workspace: Path) -> None:
    for command in (("recommend", "--user", "person-003@mail.example"), ("similar", "--item", "Thing 05")):
        verb, *options = command
        assert len(ok(verb, workspace / "model", *options, "-k", 10**12).popitem()[1]) in (24, 25)


def test_names_with_markup_are_shown_as_they_are(run: Any, workspace: Path, tmp_path: Path) -> None:
    """Brackets are no markup of the terminal, a dollar no formula of a plot, <b> no element of a page."""
    table = pl.read_csv(workspace / "plain.csv").with_columns(
        pl.col("item_id").str.replace("Thing ", "[/b]<b>:smile:$^{")
    )
    table.write_csv(tmp_path / "data.csv")
    out = tmp_path / "model[red]"
    said = run("train", tmp_path / "data.csv", "--dim", 2, "--max-passes", 2, "--out", out).out
    assert f"written to {out}" in said
    assert "[/b]<b>:smile:$^{" in run("recommend", out, "--user", "person-003@mail.example").out
    (tmp_path / "r.csv").write_text("user\nperson-003@mail.example\n")
    compare = ("compare", "--data", tmp_path / "data.csv", "--requests", tmp_path / "r.csv")
    named = ("--model", f"[/x]<script>$^{{={out}")
    shown = run(*compare, *named, "--html", tmp_path / "page.html")
    assert shown.code == 0, shown.err
    assert "[/x]<script>$^{" in shown.out
    assert "<script" not in (tmp_path / "page.html").read_text()
