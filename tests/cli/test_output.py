"""Results on standard output and all else on standard error, as much of it as is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alteraser.cli import output


@pytest.fixture
def renamed(workspace: Path, tmp_path: Path) -> Path:
    """The data with names of columns that are recognised, which is said."""
    path = tmp_path / "renamed.csv"
    pl.read_csv(workspace / "plain.csv").rename({"user_id": "userId", "item_id": "movieId"}).write_csv(path)
    return path


def test_as_much_is_said_as_is_asked_for(run: Any, renamed: Path) -> None:
    describe = ("data", "describe", renamed, "--json")
    usual, more, less = run(*describe), run("-v", *describe), run(*describe, "--quiet")
    assert usual.out == more.out == less.out
    assert usual.err == "Users are in the column userId, items in the column movieId.\n"
    assert usual.err in more.err
    assert "rows" in more.err
    assert "s in all" in more.err
    assert less.err == ""


def test_errors_and_warnings_are_said_to_who_wants_quiet(run: Any, workspace: Path) -> None:
    assert "Error: " in run("-q", "data", "describe", "nothing.csv").err
    asked = ("recommend", workspace / "model", "--user", "person-003@mail.example")
    assert "already have" in run(*asked, "-q").err


def test_an_id_behind_two_dashes_is_no_option(run: Any) -> None:
    assert "-v is not a model" in run("similar", "--item", "x", "--", "-v").err


def test_without_a_terminal_long_work_says_a_line_now_and_then(
    run: Any, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = ("--w0", 0.3, "--l2", 0.01, "--max-passes", 40, "--tolerance", 0)
    out = ("--out", tmp_path / "model", "--force", "--json")
    train = ("train", workspace / "plain.csv", "--dim", 2, *passes, *out)
    assert "Training" not in run(*train).err  # over before there is anything to say
    monkeypatch.setattr(output, "FIRST_LINE_AFTER", 0.0)
    ran = run(*train)
    lines = [line for line in ran.err.splitlines() if line.startswith("Training: pass ")]
    assert 1 <= len(lines) < ran.json["passes"], "a line for each pass is too many"
    assert all(" of at most 40, loss " in line for line in lines)
    assert "Training" not in run(*train, "-q").err


def test_the_package_runs_as_the_command(workspace: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "alteraser", "data", "describe", workspace / "plain.csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Users" in ran.stdout


def test_shells_can_complete_commands_and_options(command: list[str]) -> None:
    def completed(*words: str) -> list[str]:
        environment = os.environ | {
            "_ALTERASER_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["alteraser", *words]),
            "COMP_CWORD": str(len(words)),
        }
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        return ran.stdout.split()

    assert completed("re") == ["recommend"]
    assert "--include-seen" in completed("recommend", "--in")


def test_one_of_something_is_not_called_many() -> None:
    said = [
        output.counted(number, one) for number, one in ((1, "pass"), (2, "pass"), (0, "batch"), (1, "user"))
    ]
    assert said == ["1 pass", "2 passes", "0 batches", "1 user"]
