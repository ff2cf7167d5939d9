"""`alteraser verify` says which lines of a file were honoured, and never whose they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ok = Callable[..., Any]


@pytest.fixture(scope="module")
def forgotten(ok: Ok, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model2`, and the key in `key`."""
    folder = tmp_path_factory.mktemp("verified")
    (folder / "key").write_text("a key that is long enough\n")
    ok(
        *("forget", workspace / "model", workspace / "data.csv", "--requests", workspace / "requests.csv"),
        *("--key-file", folder / "key", "--out", folder / "model2"),
    )
    return folder


def test_all_were_honoured(ok: Ok, run: Any, workspace: Path, forgotten: Path) -> None:
    asked = ("verify", forgotten / "model2", "--requests", workspace / "requests.csv")
    result = ok(*asked, "--key-file", forgotten / "key")
    [batch] = result["batches"]
    assert (result["requests"], result["honoured"], result["lines_not_honoured"]) == (4, 4, [])
    assert (batch["number"], batch["method"], batch["requests"]) == (1, "AltEraser", 4)
    said = run(*asked, "--key-file", forgotten / "key")
    assert said.code == 0
    assert "4 of 4 requests were honoured" in said.out
    assert f"in batch 1 of 1, forgotten on {batch['date']} with AltEraser" in said.out


def test_some_were_not(run: Any, workspace: Path, forgotten: Path, tmp_path: Path) -> None:
    more = (
        workspace / "requests.csv"
    ).read_text() + "person-009@mail.example,\n,Thing 09\n,Thing 00\n,Other\n"
    (tmp_path / "more.csv").write_text(more)
    asked = ("verify", forgotten / "model2", "--requests", tmp_path / "more.csv")
    said = run(*asked, "--key-file", forgotten / "key")
    assert said.code == 1
    assert "4 of 7 requests" in said.out
    assert "more.csv lines 6-7, 9" in said.out
    assert "person-" not in said.out + said.err
    assert "Thing" not in said.out + said.err
    document = run(*asked, "--key-file", forgotten / "key", "--json")
    assert document.code == 1
    assert json.loads(document.out)["lines_not_honoured"] == [6, 7, 9]


def test_a_wrong_key_finds_none(run: Any, workspace: Path, forgotten: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("another that is long enough")
    asked = ("verify", forgotten / "model2", "--requests", workspace / "requests.csv")
    said = run(*asked, "--key-file", tmp_path / "key")
    assert said.code == 1
    assert "0 of 4 requests" in said.out
    assert "or not under this key" in said.out


def test_of_a_folder_of_format_1_it_says_what_cannot_be_told(run: Any, tmp_path: Path) -> None:
    format1 = Path(__file__).parents[1] / "versions" / "format1"
    asked = ("verify", format1 / "mf-erased", "--key-file", format1 / "key.txt", "--requests")
    whole = run(*asked, format1 / "requests.csv")
    assert whole.code == 0
    assert "at a date that was not kept" in whole.out
    (tmp_path / "one.csv").write_text("user\nreader-1\n")
    one = run(*asked, tmp_path / "one.csv")
    assert one.code == 1
    assert "kept no digest of each request" in one.out
