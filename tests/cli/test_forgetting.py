"""`alteraser forget`: what was asked for is gone from everything written, and a forgetting can follow another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import safetensors.torch
import torch

Ok = Callable[..., Any]


def parameters(model: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(model / "parameters.safetensors")


def same(first: Path, second: Path) -> bool:
    a, b = parameters(first), parameters(second)
    return all(torch.equal(a[name], b[name]) for name in a)


def manifest(model: Path) -> Any:
    return json.loads((model / "manifest.json").read_text())


def texts(file: Path) -> str:
    """All that a file says: its bytes as they are and, if they are compressed, what they hold."""
    raw = file.read_bytes().decode("latin-1")
    return raw + (pl.read_parquet(file).write_csv() if file.suffix == ".parquet" else "")


@pytest.fixture(scope="module")
def forgotten(ok: Ok, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model2` and `rest.parquet`; the columns of the data come from the model's manifest."""
    folder = tmp_path_factory.mktemp("forgotten")
    ok(*forget(workspace, folder / "model2", "--remaining", folder / "rest.parquet"))
    return folder


def forget(workspace: Path, out: Path, *options: object) -> tuple[object, ...]:
    data, requests = workspace / "data.csv", workspace / "requests.csv"
    return "forget", workspace / "model", data, "--requests", requests, "--out", out, *options


def test_nothing_written_or_said_names_the_forgotten(run: Any, workspace: Path, tmp_path: Path) -> None:
    model2, rest, rest_csv = tmp_path / "model2", tmp_path / "rest.parquet", tmp_path / "rest.csv"
    said = []
    for remaining in (rest, rest_csv):
        ran = run(*forget(workspace, model2, "--remaining", remaining, "--force"))
        assert ran.code == 0, ran.err
        said.append(ran.out + ran.err)
    pl.read_parquet(rest).select(user_id="member").unique().write_csv(users := tmp_path.parent / "users.csv")
    for arguments in (
        ("recommend", model2, rest, "--users", users, "--out", tmp_path / "lists.parquet"),
        ("recommend", model2, "--users", users, "--out", tmp_path / "lists.csv"),
        (
            *("compare", "--data", workspace / "data.csv", "--requests", workspace / "requests.csv"),
            *("--model", f"original={workspace / 'model'}", "--model", f"unlearned={model2}"),
            *("--reference", "unlearned", "--html", tmp_path / "page.html"),
        ),
    ):
        ran = run(*arguments)
        assert ran.code == 0, ran.err
        said.append(ran.out + ran.err)
    assert "person-" not in "".join(said)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4 + 2 + 2 + 1
    for path in files:
        assert "person-000" not in texts(path), path
        assert "Thing 00" not in texts(path), path
    # The pairs are gone though their users and items stay.
    for path in (rest, rest_csv):
        table = pl.read_parquet(path) if path is rest else pl.read_csv(path)
        own = table.filter(pl.col("member").str.starts_with("person-001"))["product"].to_list()
        assert "Thing 05" in own
        assert not {"Thing 03", "Thing 04"} & set(own)
    original, unlearned = parameters(workspace / "model"), parameters(model2)
    assert (unlearned["users"][0] == 0).all()
    assert (original["users"][0] != 0).any()


def test_the_result_counts_what_was_done(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    data = pl.read_csv(workspace / "data.csv")
    gone = data.filter(
        pl.col("member").str.starts_with("person-000")
        | (pl.col("product") == "Thing 00")
        | (pl.col("member").str.starts_with("person-001") & pl.col("product").is_in(["Thing 03", "Thing 04"]))
    )
    result = ok(*forget(workspace, tmp_path / "model2"))
    assert result["forgotten"] == {"interactions": len(gone), "users": 1, "items": 1}
    assert result["requests"] == {
        "honoured": 4,
        "repeated": 0,
        "not_trained_on": 0,
        "met_before": 0,
        "perhaps_met_before": 0,
        "missing": 0,
        "null_times": 0,
    }
    assert result["remaining_interactions"] == len(data) - len(gone)
    assert result["cost"]["loss_after"] < result["cost"]["loss_before"]
    assert result["cost"]["gradient_after"] < result["cost"]["gradient_before"]
    assert result["remaining"] is None


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "retrain"),
        ("--method", "retrain", "--trainer", "adamw", "--max-passes", 3),
        ("--method", "warm-start", "--max-passes", 3),
        ("--method", "warm-start", "--trainer", "als", "--tolerance", 1e-3),
        ("--solver", "hf-newton", "--max-passes", 1),
        ("--solver", "adamw", "--max-passes", 0),
        ("--solver", "ah-newton", "--max-passes", 0),
        ("--scope", "forgetting"),
        ("--scope", "affected", "--tolerance", 0.1),
        ("--scope", "affected", "--budget-seconds", 1e-6),
        ("--scope", "all", "--budget-seconds", 1e-6),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_every_method_and_solver_forgets(
    ok: Ok, workspace: Path, tmp_path: Path, options: tuple[object, ...]
) -> None:
    result = ok(*forget(workspace, tmp_path / "model2", *options))
    assert result["forgotten"]["interactions"] > 0
    unlearned = parameters(tmp_path / "model2")
    assert (unlearned["users"][0] == 0).all()
    assert not same(workspace / "model", tmp_path / "model2")


def test_a_seed_repeats_a_retraining(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = ("--method", "retrain", "--max-passes", 2, "--seed", seed)
        ok(*forget(workspace, tmp_path / name, *options))
    assert same(tmp_path / "a", tmp_path / "b")
    assert not same(tmp_path / "a", tmp_path / "c")


def test_a_forgetting_follows_another(ok: Ok, forgotten: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.jsonl"
    more.write_text('{"user": "person-002@mail.example", "from": "2024-03-01", "to": "2024-03-31"}\n')
    out, rest = tmp_path / "model3", tmp_path / "rest3.csv"
    result = ok(
        *("forget", forgotten / "model2", forgotten / "rest.parquet", "--requests", more),
        *("--out", out, "--remaining", rest),
    )
    assert result["forgotten"]["users"] == 2
    assert [each["count"] for each in manifest(out)["history"]] == [4, 1]
    assert manifest(out)["history"][0] == manifest(forgotten / "model2")["history"][0]
    assert "person-002" not in texts(rest)
    # The csv and what the manifest remembers of it serve a third one.
    more.write_text('{"item": "Thing 07"}\n')
    ok("forget", out, rest, "--requests", more, "--out", tmp_path / "model4")
    assert len(manifest(tmp_path / "model4")["history"]) == 3


def test_the_same_requests_again_are_a_retry(
    run: Any, ok: Ok, workspace: Path, forgotten: Path, tmp_path: Path
) -> None:
    model2, rest, out = forgotten / "model2", forgotten / "rest.parquet", tmp_path / "model3"
    again = ("forget", model2, rest, "--requests", workspace / "requests.csv", "--out", out)
    # With one more that never was there, it is not the same batch.
    refused = run(*again, "--user", "zoe")
    assert refused.code == 2
    assert "5 of 5 requests" in refused.err
    assert "requests.csv line 2" in refused.err
    assert "4 of these may have been met before" in refused.err
    assert "person-" not in refused.err
    assert not out.exists()
    said = run(*again)
    assert said.code == 0, said.err
    assert "No request matches anything in the data: the new model is the old one" in said.out
    assert "4 requests skipped: met before, as by a retry, or never in the data" in said.out
    options = ("--missing", "ignore", "--remaining", tmp_path / "rest3.parquet", "--force")
    result = ok(*again, "--user", "zoe", *options)
    assert result["requests"] == {
        "honoured": 0,
        "repeated": 0,
        "not_trained_on": 0,
        "met_before": 0,
        "perhaps_met_before": 4,
        "missing": 1,
        "null_times": 0,
    }
    assert result["forgotten"]["interactions"] == 0
    assert same(model2, out)
    assert manifest(out)["history"] == manifest(model2)["history"]
    assert pl.read_parquet(rest).equals(pl.read_parquet(tmp_path / "rest3.parquet"))
    for method in ("retrain", "warm-start"):
        said = run(*again, "--missing", "ignore", "--force", "--method", method)
        assert "No request matches anything" in said.out
        assert same(model2, out)


def test_a_period_and_a_pair_again_are_a_retry(run: Any, ok: Ok, workspace: Path, tmp_path: Path) -> None:
    before = workspace / "model", workspace / "data.csv"
    period = ("--user", "person-002@mail.example", "--from", "2024-03-01", "--to", "2024-03-14")
    for number, asked in enumerate((period, ("--pair", "person-001@mail.example", "Thing 03"))):
        after = tmp_path / f"model{number}", tmp_path / f"rest{number}.csv"
        assert ok("forget", *before, *asked, "--out", after[0], "--remaining", after[1])["forgotten"]
        said = run("forget", *after, *asked, "--out", tmp_path / "again", "--force")
        assert said.code == 0, said.err
        assert "1 request skipped: met before, as by a retry, or never in the data" in said.out
        assert same(after[0], tmp_path / "again")
        before = after
    # Not the last batch any more.
    refused = run("forget", *before, *period, "--user", "person-003@mail.example", "--out", tmp_path / "no")
    assert refused.code == 2
    assert "cannot be told apart without the key" in refused.err


def test_a_retry_with_the_key_is_met_before(run: Any, ok: Ok, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("the first key of them all\n")
    model2, rest, key = tmp_path / "model2", tmp_path / "rest.csv", ("--key-file", tmp_path / "key")
    ok(*forget(workspace, model2, "--remaining", rest, *key))
    again = ("forget", model2, rest, "--requests", workspace / "requests.csv", *key)
    said = run(*again, "--out", tmp_path / "model3")
    assert said.code == 0, said.err
    assert "the new model is the old one" in said.out
    assert "4 requests met before: the model has forgotten that already" in said.out
    assert same(model2, tmp_path / "model3")
    result = ok(*again, "--user", "person-005@mail.example", "--out", tmp_path / "model4")
    counts = {"honoured": 1, "repeated": 0, "not_trained_on": 0, "met_before": 4, "perhaps_met_before": 0}
    counts |= {"missing": 0, "null_times": 0}
    assert result["requests"] == counts
    # A typing error beside a retry is still one.
    refused = run(*again, "--user", "nobody", "--out", tmp_path / "model5")
    assert refused.code == 2
    assert "1 of 5 requests" in refused.err
    assert "--user number 1" in refused.err
    assert not (tmp_path / "model5").exists()


def test_requests_that_are_partly_missing(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    some = tmp_path / "some.csv"
    some.write_text("user\nperson-003@mail.example\nnobody\nperson-003@mail.example\n")
    arguments = ("forget", workspace / "model", workspace / "data.csv", "--requests", some)
    result = ok(*arguments, "--missing", "ignore", "--out", tmp_path / "out")
    assert result["requests"] == {
        "honoured": 1,
        "repeated": 1,
        "not_trained_on": 0,
        "met_before": 0,
        "perhaps_met_before": 0,
        "missing": 1,
        "null_times": 0,
    }


def test_the_digest_of_the_requests_depends_on_the_key(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "a.key").write_text("the first key of them all\n")
    (tmp_path / "b.key").write_text("another key, just as long")
    shuffled = tmp_path / "shuffled.csv"
    header, *lines = (workspace / "requests.csv").read_text().splitlines()
    shuffled.write_text("\n".join([header, *reversed(lines), lines[0]]) + "\n")

    def digest(*options: object, requests: Path = workspace / "requests.csv") -> str:
        out = tmp_path / "out"
        ok(
            *("forget", workspace / "model", workspace / "data.csv", "--requests", requests),
            *("--out", out, "--force", "--max-passes", 0, *options),
        )
        [batch] = manifest(out)["history"]
        assert batch["count"] == 4
        return str(batch["hmac_sha256"])

    keyed = digest("--key-file", tmp_path / "a.key")
    assert digest("--key-file", tmp_path / "a.key") == keyed
    assert digest("--key-file", tmp_path / "a.key", requests=shuffled) == keyed
    assert digest("--key-file", tmp_path / "b.key") != keyed
    assert digest() != digest()


def test_the_model_remembers_how_a_named_data_set_was_read(ok: Ok, tmp_path: Path, workspace: Path) -> None:
    """Filters and times of the training are those of the forgetting, though no option repeats them."""
    folder = tmp_path / "sets" / "ml-100k"
    folder.mkdir(parents=True)
    table = pl.read_csv(workspace / "data.csv", try_parse_dates=True)
    table = table.rename({"member": "user_id", "product": "item_id"}).with_columns(
        timestamp=pl.col("day").dt.epoch("s"), confidence=1.0 + pl.col("rating") / 5
    )
    table.write_parquet(folder / "interactions.parquet")
    where = ("--data-dir", tmp_path / "sets")
    trained = ok(
        *(
            "train",
            "ml-100k",
            *where,
            "--min-rating",
            3,
            "--min-interactions",
            3,
            "--weight-column",
            "confidence",
        ),
        *("--dim", 4, "--max-passes", 5, "--out", tmp_path / "model"),
    )
    assert trained["interactions"] < len(table)
    requests = tmp_path / "requests.csv"
    requests.write_text(
        "user,from,to\nperson-005@mail.example,2024-03-01,2024-03-20\n".replace(
            "2024-03-01", str(table["timestamp"].min())
        ).replace("2024-03-20", str(table["timestamp"].max()))
    )
    asked = (
        "forget",
        tmp_path / "model",
        "ml-100k",
        *where,
        "--requests",
        requests,
        "--out",
        tmp_path / "model2",
    )
    result = ok(*asked, "--remaining", tmp_path / "rest.csv")
    assert result["remaining_interactions"] == trained["interactions"] - result["forgotten"]["interactions"]
    # The remaining data has its ratings, also low ones and rare items, and is read as before.
    rest = pl.read_csv(tmp_path / "rest.csv", try_parse_dates=True)
    assert rest.equals(table.filter(~pl.col("user_id").str.starts_with("person-005")))
    requests.write_text("item\nThing 09\n")
    ok(
        "forget",
        tmp_path / "model2",
        tmp_path / "rest.csv",
        "--requests",
        requests,
        "--out",
        tmp_path / "model3",
    )


def test_a_retraining_does_not_start_where_the_original_did(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    """With no pass made a model is its first random rows; those of one seed must not be the same twice."""
    untrained = ("--max-passes", 0, "--seed", 3)
    data, requests = workspace / "plain.csv", tmp_path / "r.csv"
    ok("train", data, "--dim", 4, *untrained, "--out", tmp_path / "model")
    again = (*untrained, "--method", "retrain")
    requests.write_text("user\nperson-005@mail.example\n")
    ok("forget", tmp_path / "model", data, "--requests", requests, *again, "--out", tmp_path / "model2")
    left = pl.read_csv(data).filter(~pl.col("user_id").str.starts_with("person-005"))
    left.write_csv(tmp_path / "left.csv")
    requests.write_text("user\nperson-006@mail.example\n")
    arguments = ("forget", tmp_path / "model2", tmp_path / "left.csv", "--requests", requests, *again)
    ok(*arguments, "--out", tmp_path / "model3")
    starts = [parameters(tmp_path / name)["users"] for name in ("model", "model2", "model3")]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        kept = (starts[first] != 0).any(1) & (starts[second] != 0).any(1)
        assert kept.sum() >= 38
        assert not (starts[first][kept] == starts[second][kept]).any()


def test_a_chain_goes_on_from_the_core_of_the_users_own_store(
    run: Any, ok: Ok, workspace: Path, tmp_path: Path
) -> None:
    """The store shrinks by what was forgotten and is never cut: nobody leaves the core for another's deletion."""
    whole = pl.read_csv(workspace / "plain.csv")
    core = int(whole.group_by("user_id").len()["len"].sort()[4])
    store, requests = tmp_path / "store.csv", tmp_path / "r.csv"
    whole.write_csv(store)
    options = ("--min-interactions", core, "--dim", 3, "--max-passes", 3)
    trained = ok("train", store, *options, "--out", tmp_path / "model0")
    assert trained["users"] < 40
    left = trained["interactions"]
    for number, item in enumerate(("Thing 05", "Thing 06", "Thing 07")):
        requests.write_text(f"item\n{item}\n")
        arguments = ("forget", tmp_path / f"model{number}", store, "--requests", requests)
        result = ok(*arguments, "--out", tmp_path / f"model{number + 1}")
        left -= result["forgotten"]["interactions"]
        assert result["remaining_interactions"] == left
        named = (
            "--model",
            f"a={tmp_path / f'model{number}'}",
            "--model",
            f"b={tmp_path / f'model{number + 1}'}",
        )
        ran = run("compare", "--data", store, "--requests", requests, *named)
        assert (ran.code, ran.err) == (0, "")
        if number == 0:  # also without the model that came before
            ok("compare", "--data", store, "--requests", requests, *named[2:])
        whole = whole.filter(pl.col("item_id") != item)
        whole.write_csv(store)
    # It is still the model's own data that is wanted.
    whole.filter(pl.col("item_id") != "Thing 08").write_csv(store)
    requests.write_text("item\nThing 09\n")
    refused = run("forget", tmp_path / "model3", store, "--requests", requests, "--out", tmp_path / "model4")
    assert refused.code == 2
    assert "not what this model was trained on" in refused.err


def test_a_model_remembers_how_it_was_trained(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    data, requests, model = workspace / "plain.csv", tmp_path / "r.csv", tmp_path / "model"
    requests.write_text("user\nperson-005@mail.example\n")
    adamw = ("--trainer", "adamw", "--learning-rate", 0.03, "--max-passes", 3, "--tolerance", 0.5)
    ok("train", data, "--dim", 3, *adamw, "--out", model)
    record = manifest(model)["training"]
    settings = {"learning_rate": 0.03, "max_passes": 3, "tolerance": 0.5, "batch_users": 256}
    assert record == {"trainer": "adamw", **settings}

    def forgotten(name: str, *options: object) -> Any:
        arguments = ("forget", model, data, "--requests", requests, *options, "--out", tmp_path / name)
        return ok(*arguments)["cost"]["passes"]

    retrain = ("--method", "retrain")
    assert forgotten("again", *retrain) == 3
    forgotten("spelt out", *retrain, *adamw)
    assert same(tmp_path / "again", tmp_path / "spelt out")
    forgotten("faster", *retrain, "--learning-rate", 0.1)
    assert not same(tmp_path / "again", tmp_path / "faster")
    assert manifest(tmp_path / "faster")["training"] == record | {"learning_rate": 0.1}
    assert forgotten("warm", "--method", "warm-start", "--max-passes", 2) == 2
    assert forgotten("alternating", *retrain, "--trainer", "als", "--max-passes", 4, "--tolerance", 0) == 4
    als = {"trainer": "als", "max_passes": 4, "tolerance": 0.0, "solve_h": False}
    assert manifest(tmp_path / "alternating")["training"] == als
    # Only a model that was trained anew was trained in another way than the original.
    forgotten("unlearned")
    for name in ("again", "warm", "unlearned"):
        assert manifest(tmp_path / name)["training"] == record


def test_h_is_solved_where_that_is_asked_for_or_was_done(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    data, requests, model = workspace / "plain.csv", tmp_path / "r.csv", tmp_path / "model"
    requests.write_text("user\nperson-005@mail.example\n")
    ok("train", data, "--dim", 3, "--w0", 0.1, "--l2", 0.02, "--max-passes", 4, "--solve-h", "--out", model)
    assert manifest(model)["training"]["solve_h"] is True
    moved = {}
    for name, options in {
        "kept": (),
        "solved": ("--solve-h",),
        "retrained": ("--method", "retrain"),
        "retrained, h fixed": ("--method", "retrain", "--no-solve-h"),
    }.items():
        out = tmp_path / name
        ok("forget", model, data, "--requests", requests, *options, "--out", out)
        start = parameters(model)["h"] if "retrained" not in name else torch.ones(3)
        moved[name] = not torch.allclose(parameters(out)["h"], start, atol=1e-6)
    assert moved == {"kept": False, "solved": True, "retrained": True, "retrained, h fixed": False}


def test_a_model_can_be_replaced_in_its_place(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    out = tmp_path / "model2"
    ok(*forget(workspace, out, "--max-passes", 0))
    before = parameters(out)
    ok(*forget(workspace, out, "--force"))
    assert not torch.equal(before["items"], parameters(out)["items"])
    assert list(tmp_path.iterdir()) == [out]


def test_a_tolerance_that_was_not_met_is_said(run: Any, workspace: Path, tmp_path: Path) -> None:
    """Where time is over before the first step; not where that was all that was asked for."""
    short = run(*forget(workspace, tmp_path / "short", "--scope", "affected", "--budget-seconds", "1e-9"))
    assert short.code == 0
    assert "The tolerance was not met" in short.out
    for options in (["--scope", "forgetting"], ["--scope", "affected"]):
        whole = run(*forget(workspace, tmp_path / "whole", "--force", *options))
        assert "not met" not in whole.out
