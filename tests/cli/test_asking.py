"""Requests as people type them: `forget --user`, `--item`, `--pair`, a period, standard input; `verify` the same."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Ok = Callable[..., Any]
FIRST, SECOND, THIRD = (f"person-{number:03d}@mail.example" for number in range(3))


def left(workspace: Path) -> pl.DataFrame:
    return pl.read_csv(workspace / "data.csv")


def forget(workspace: Path, out: Path, *asked: object) -> tuple[object, ...]:
    return "forget", workspace / "model", workspace / "data.csv", *asked, "--out", out, "--max-passes", 0


def test_each_user_item_and_pair_is_a_request_of_its_own(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    typed = ("--user", FIRST, "--user", THIRD, "--item", "Thing 00", "--pair", SECOND, "Thing 03")
    result = ok(*forget(workspace, tmp_path / "model2", *typed, "--pair", SECOND, "Thing 04"))
    gone = left(workspace).filter(
        pl.col("member").is_in([FIRST, THIRD])
        | (pl.col("product") == "Thing 00")
        | ((pl.col("member") == SECOND) & pl.col("product").is_in(["Thing 03", "Thing 04"]))
    )
    assert result["requests"]["honoured"] == 5
    assert result["forgotten"] == {"interactions": len(gone), "users": 2, "items": 1}


def test_what_is_typed_adds_to_a_file(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    file = ("--requests", workspace / "requests.csv")
    result = ok(*forget(workspace, tmp_path / "model2", *file, "--user", THIRD, "--user", FIRST))
    assert (result["requests"]["honoured"], result["requests"]["repeated"]) == (5, 1)


def test_a_period_narrows_all_that_is_typed(ok: Ok, workspace: Path, tmp_path: Path) -> None:
    typed = ("--user", FIRST, "--item", "Thing 05", "--from", "2024-03-05", "--to", "2024-03-20")
    result = ok(*forget(workspace, tmp_path / "model2", *typed))
    gone = left(workspace).filter(
        (pl.col("member") == FIRST) | (pl.col("product") == "Thing 05"),
        pl.col("day").is_between(pl.lit("2024-03-05"), pl.lit("2024-03-20")),
    )
    assert result["forgotten"]["interactions"] == len(gone) > 0


def test_a_period_of_all_users_has_to_be_meant(run: Any, ok: Ok, workspace: Path, tmp_path: Path) -> None:
    period = ("--from", "2024-03-05", "--to", "2024-03-06")
    refused = run(*forget(workspace, tmp_path / "model2", *period))
    assert refused.code == 2
    assert "--everyone" in refused.err
    result = ok(*forget(workspace, tmp_path / "model2", *period, "--everyone"))
    gone = left(workspace).filter(pl.col("day").is_in(["2024-03-05", "2024-03-06"]))
    assert result["requests"]["honoured"] == 1
    assert result["forgotten"]["interactions"] == len(gone) > 0


@pytest.mark.parametrize(
    "text",
    [
        f"user,item\n{FIRST},\n{SECOND},Thing 03\n",
        f"user\titem\n{FIRST}\t\n{SECOND}\tThing 03\n",
        f'\ufeff{{"user": "{FIRST}"}}\n{{"user": "{SECOND}", "items": ["Thing 03"]}}\n',
    ],
    ids=["csv", "tsv", "json"],
)
def test_requests_come_from_standard_input(
    ok: Ok, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    result = ok(*forget(workspace, tmp_path / "model2", "--requests", "-"))
    own = left(workspace).filter(pl.col("member") == FIRST)
    assert result["forgotten"] == {"interactions": len(own) + 1, "users": 1, "items": 0}


def test_an_error_in_standard_input_names_the_line(
    run: Any, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"user\n{FIRST}\nnobody\n".encode())))
    refused = run(*forget(workspace, tmp_path / "model2", "--requests", "-"))
    assert refused.code == 2
    assert "standard input line 3" in refused.err
    assert not (tmp_path / "model2").exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ((), ["--user ID", "--item ID", "--pair USER ITEM", "--requests FILE"]),
        (("--user", THIRD, "--user", "nobody"), ["1 of 2 requests", "--user number 2"]),
        (("--user", ""), ["--user number 1", "empty"]),
        (("--pair", THIRD), ["--pair"]),
        (("--pair", THIRD, "--missing", "ignore"), ["--pair"]),
        (("--everyone",), ["everyone", "without a period"]),
        (("--requests", "requests.csv", "--from", "2024-03-01"), ["--from", "columns from and to"]),
        (("--user", THIRD, "--from", "soon"), ["--user number 1", "ISO date"]),
    ],
    ids=str,
)
def test_what_is_typed_wrongly_is_refused(
    run: Any, workspace: Path, tmp_path: Path, typed: tuple[str, ...], said: list[str]
) -> None:
    refused = run(*forget(workspace, tmp_path / "model2", *typed))
    assert refused.code == 2
    for text in said:
        assert text in refused.err
    assert "person-" not in refused.err
    assert not (tmp_path / "model2").exists()


def test_verify_takes_what_is_typed(run: Any, ok: Ok, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a key that is long enough\n")
    key = ("--key-file", tmp_path / "key")
    typed = ("--user", FIRST, "--pair", SECOND, "Thing 03")
    ok(*forget(workspace, tmp_path / "model2", *typed, *key))
    assert ok("verify", tmp_path / "model2", *typed, *key)["honoured"] == 2
    more = run("verify", tmp_path / "model2", "--user", THIRD, *typed, "--user", FIRST, *key)
    assert more.code == 1
    assert "2 of 3 requests were honoured" in more.out
    assert "--user number 1\n" in more.out
    told = json.loads(run("verify", tmp_path / "model2", "--user", THIRD, *typed, *key, "--json").out)
    assert told["not_honoured"] == {"--user": [1]}
