"""`alteraser data fetch`: the terms first, one JSON document, and nothing left of what failed."""

from __future__ import annotations

import dataclasses
import hashlib
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alteraser.data.archives import ARCHIVES

TERMS = ("research", "redistributed", "commercial", "Harper", "Konstan", "10.1145/2827872")


@pytest.fixture
def published(
    server: Any,
    zipped: Callable[[dict[str, str]], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """The server, with a small ml-1m on it that counts as the published one."""
    server.body = zipped({"ml-1m/ratings.dat": "1::10::5::200\n1::11::4::100\n2::10::3::300\n"})
    digest = hashlib.md5(server.body, usedforsecurity=False).hexdigest()
    monkeypatch.setitem(ARCHIVES, "ml-1m", dataclasses.replace(ARCHIVES["ml-1m"], md5=digest))
    monkeypatch.setenv("ALTERASER_DATASET_URL", server.url)
    monkeypatch.setenv("ALTERASER_DATA", str(tmp_path / "sets"))
    return server


def test_fetch_then_describe(ok: Any, run: Any, published: Any, tmp_path: Path) -> None:
    ran = run("data", "fetch", "ml-1m", "--json")
    assert ran.code == 0, ran.err
    path = tmp_path / "sets" / "ml-1m" / "interactions.parquet"
    assert ran.json == {
        "name": "ml-1m",
        "url": f"{published.url}ml-1m.zip",
        "md5": ARCHIVES["ml-1m"].md5,
        "out": str(path),
        "interactions": 3,
        "terms": ARCHIVES["ml-1m"].terms,
    }
    assert all(term in ran.err for term in TERMS)
    assert ok("data", "describe", "ml-1m")["users"] == 2
    again = run("data", "fetch", "ml-1m")
    assert again.code == 2
    assert "is there already" in again.err
    forced = run("data", "fetch", "ml-1m", "--force")
    assert (forced.code, forced.out) == (0, f"3 interactions of ml-1m written to {path}\n")
    elsewhere = tmp_path / "elsewhere"
    assert ok("data", "fetch", "ml-1m", "--data-dir", elsewhere)["out"].startswith(str(elsewhere))


def test_the_terms_are_shown_before_anything_is_asked_for(
    run: Any, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int]] = []
    monkeypatch.setattr("alteraser.cli.data.note", lambda text: shown.append((text, len(published.asked))))
    assert run("data", "fetch", "ml-1m").code == 0
    assert shown == [(ARCHIVES["ml-1m"].terms, 0)]


def test_a_bar_on_a_terminal_and_none_elsewhere(
    run: Any, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Downloading" not in run("data", "fetch", "ml-1m").err
    monkeypatch.setenv("FORCE_COLOR", "1")
    ran = run("data", "fetch", "ml-1m", "--force", "--json")
    assert "Downloading ml-1m" in ran.err
    assert f"{len(published.body)}/{len(published.body)} bytes" in ran.err
    assert ran.json["interactions"] == 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 404}, "status 404"),
        ({"missing": 10}, "broke off after"),
        ({"body": b"something else"}, "MD5 checksum"),
    ],
)
def test_what_fails_exits_with_2_and_leaves_nothing(
    run: Any, published: Any, tmp_path: Path, answer: dict[str, Any], said: str
) -> None:
    for setting, value in answer.items():
        setattr(published, setting, value)
    ran = run("data", "fetch", "ml-1m", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("Error: ") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_cannot_be_fetched(run: Any) -> None:
    ran = run("data", "fetch", "synthetic")
    assert ran.code == 2
    assert "'ml-1m', 'ml-100k'" in ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_in_the_middle_of_a_download(
    command: list[str], published: Any, tmp_path: Path, number: int
) -> None:
    published.missing, published.stalls = 10_000, True
    with subprocess.Popen(
        [*command, "data", "fetch", "ml-1m"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert published.sent.wait(60)
        assert (tmp_path / "sets" / "ml-1m").is_dir()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("Interrupted; nothing was left half-written.\n")
    assert list(tmp_path.iterdir()) == []
