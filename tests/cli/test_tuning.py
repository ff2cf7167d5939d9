"""`alteraser tune`: the file it writes trains the model it promised; interrupted, it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path, workspace: Path) -> Path:
    (tmp_path / "data.csv").write_bytes((workspace / "plain.csv").read_bytes())
    return tmp_path


def test_what_tune_writes_train_takes(folder: Path, ok: Callable[..., Any]) -> None:
    out, page = folder / "settings.toml", folder / "page.html"
    found = ok(
        "tune",
        folder / "data.csv",
        "--dim",
        "2:4",
        "--model",
        "mf",
        "--trials",
        3,
        "--out",
        out,
        "--html",
        page,
    )
    assert len(found["trials"]) == 3
    assert found["wall_seconds"] > sum(trial["seconds"] for trial in found["trials"])
    assert found["ndcg"] == max(trial["ndcg"] for trial in found["trials"])
    assert tomllib.loads(out.read_text()) == found["settings"]
    assert page.read_text().count("<svg") == 2
    ok("train", folder / "data.csv", "--settings", out, "--out", folder / "model")
    manifest = json.loads((folder / "model" / "manifest.json").read_text())
    assert (manifest["model"], manifest["training"]["trainer"]) == ("mf", "als")
    for name in ("w0", "l2", "dim"):
        assert manifest["settings"][name] == found["settings"][name]


def test_people_see_the_trials(folder: Path, run: Callable[..., Any]) -> None:
    arguments = ("tune", folder / "data.csv", "--w0", "0.1:0.3", "--dim", 2, "--out", folder / "s.toml")
    ran = run(*arguments, "--trials", 2)
    assert ran.code == 0, ran.err
    assert [line.partition(":")[0] for line in ran.err.splitlines()] == ["Trial 1 of 2", "Trial 2 of 2"]
    assert "Trials, the best first" in ran.out
    more = run(*arguments, "--trials", 3, "--force")
    assert [line.partition(":")[0] for line in more.err.splitlines()] == ["Trial 3 of 3"]
    assert "2 of the trials were in the study already" in more.out
    assert " s in all." in more.out


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted_it_keeps_the_trials(command: list[str], folder: Path, jobs: int) -> None:
    """Ctrl-C reaches the processes of the search, too."""
    arguments = [
        "tune",
        "data.csv",
        "--dim",
        "2",
        "--trials",
        "100000",
        "--jobs",
        str(jobs),
        "--out",
        "s.toml",
    ]
    with subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Trial 1 of")
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-2:] == [
        "The trials made so far are kept in s.toml.study.json: run the same command again to go on from there.",
        "Interrupted; nothing was left half-written.",
    ]
    assert "Traceback" not in err
    assert sorted(each.name for each in folder.iterdir()) == ["data.csv", "s.toml.study.json"]
    assert json.loads((folder / "s.toml.study.json").read_text())["trials"]
