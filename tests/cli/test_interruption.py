"""Ctrl-C, SIGTERM and a full disk leave nothing half-written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from alteraser.cli.interruption import Interrupted, interruptible
from alteraser.cli.main import main

# More passes than there is time for; in few dimensions they would end by themselves after two seconds, at the optimum.
ENDLESS = ("--max-passes", "100000000", "--tolerance", "0")
DIM = ("--dim", "256")
Tree = Callable[[Path], dict[str, bytes | None]]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the embedded data, on which passes go on for long enough, and a request."""
    folder = tmp_path_factory.mktemp("large")
    with pytest.raises(SystemExit) as stop:
        main(["train", "synthetic", *DIM, "--max-passes", "1", "--out", str(folder / "model")])
    assert stop.value.code == 0
    (folder / "requests.csv").write_text("user\nuser-0042\n")
    return folder


@pytest.mark.parametrize(
    ("number", "verb"), [(signal.SIGINT, "train"), (signal.SIGTERM, "train"), (signal.SIGINT, "forget")]
)
def test_an_interruption_exits_with_130(
    command: list[str], large: Path, tree: Tree, tmp_path: Path, number: int, verb: str
) -> None:
    before = tree(large)
    arguments = {
        "train": ["train", "synthetic", *DIM],
        "forget": ["forget", str(large / "model"), "synthetic", "--method", "retrain"],
    }
    outputs = {
        "train": ["--out", "out"],
        "forget": ["--requests", str(large / "requests.csv"), "--remaining", "rest.csv", "--out", "out"],
    }
    with subprocess.Popen(
        [*command, *arguments[verb], *ENDLESS, *outputs[verb]],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until_at_work(process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err == "Interrupted; nothing was left half-written.\n"
    assert list(tmp_path.iterdir()) == []
    assert tree(large) == before


def wait_until_at_work(process: subprocess.Popen[str]) -> None:
    """Until numba is loaded and more than a second has been computed since: in the middle of the passes."""
    deadline = time.monotonic() + 60
    maps = Path(f"/proc/{process.pid}/maps")
    while "llvmlite" not in maps.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    loaded = seconds_computed(process)
    while seconds_computed(process) < loaded + 1.5 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is None


def seconds_computed(process: subprocess.Popen[str]) -> float:
    """By the first thread, where the clock on the wall would not tell how busy the machine is."""
    fields = Path(f"/proc/{process.pid}/task/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_second_ctrl_c_does_not_break_off_the_cleaning_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that stands still: a busy machine may take seconds between two signals."""
    monkeypatch.setattr("alteraser.cli.interruption.time", SimpleNamespace(monotonic=lambda: 0.0))
    waiting = tmp_path / "half"

    def work() -> None:
        with interruptible():
            try:
                waiting.touch()
                signal.raise_signal(signal.SIGINT)
                time.sleep(30)  # it may come a moment later
            finally:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)
                waiting.unlink()

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted):
        work()
    assert not waiting.exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def _compiled(ok: Any, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What forgetting compiles is in the cache before there is no room for it there."""
    model, data, requests = (workspace / name for name in ("model", "data.csv", "requests.csv"))
    ok("forget", model, data, "--requests", requests, "--out", tmp_path_factory.mktemp("compiled") / "out")


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize("n_bytes", [0, 1000])
@pytest.mark.parametrize(
    "arguments",
    [
        "train plain.csv --dim 64 --max-passes 1 --out out",
        "forget model data.csv --requests requests.csv --out out --remaining rest.csv",
        "forget model data.csv --requests requests.csv --out out --remaining rest.parquet",
        "forget model data.csv --requests requests.csv --out model --force",
        "data convert plain.csv out.csv",
        "data convert plain.csv out.parquet",
        "data split plain.csv --train a.csv --test b.csv",
        "recommend model --users plain.csv --out lists.csv",
        "compare --data data.csv --requests requests.csv --model a=model --html page.html",
    ],
)
def test_a_full_disk(
    run: Any,
    workspace: Path,
    tree: Tree,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    n_bytes: int,
) -> None:
    shutil.copytree(workspace, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, old[1]))
    try:
        ran = run(*arguments.split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert ran.code == 2, ran.err
    assert "could not be written" in ran.err
    assert "File too large" in ran.err
    assert tree(tmp_path) == before


def test_a_result_that_cannot_be_printed(command: list[str], workspace: Path) -> None:
    describe = [*command, "data", "describe", str(workspace / "plain.csv"), "--json"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(describe, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "could not be printed: No space left on device" in ran.stderr
