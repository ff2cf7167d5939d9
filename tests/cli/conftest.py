"""The command run within the test process, and a small workspace to run it on."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from alteraser.cli.main import main

COLUMNS = ("--user-column", "member", "--item-column", "product", "--time-column", "day", "--any-rating")


@dataclass(frozen=True)
class Ran:
    """What a run of the command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


def _run(*arguments: object) -> Ran:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(each) for each in arguments])
        except SystemExit as exit_:
            code = exit_.code or 0
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    assert isinstance(code, int)
    return Ran(code, *texts)


def _ok(*arguments: object) -> Any:
    """The JSON that a run which has to succeed prints."""
    ran = _run(*arguments, "--json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.fixture(scope="session")
def run() -> Callable[..., Ran]:
    return _run


@pytest.fixture(scope="session")
def ok() -> Callable[..., Any]:
    return _ok


def _member(number: int) -> str:
    return f"person-{number:03d}@mail.example"


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`data.csv` with columns of its own names, `plain.csv` with the usual ones, `model`, `requests.csv`.

    None of them is to be changed. The model was trained on `data.csv`. The requests name person-000 and Thing 00
    wholly, and two pairs of person-001.
    """
    folder = tmp_path_factory.mktemp("workspace")
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 25)) < 0.3)
    users = np.concatenate([users, [1, 1, 1, 1]])
    items = np.concatenate([items, [3, 4, 5, 6]])
    table = pl.DataFrame(
        {
            "member": [_member(user) for user in users.tolist()],
            "product": [f"Thing {item:02d}" for item in items],
            "day": [f"2024-03-{1 + (user + item) % 28:02d}" for user, item in zip(users, items, strict=True)],
            "rating": rng.integers(1, 6, len(users)),
        }
    ).unique(["member", "product"], maintain_order=True)
    table.write_csv(folder / "data.csv")
    table.select(user_id="member", item_id="product").write_csv(folder / "plain.csv")
    requests = f"user,item\n{_member(0)},\n,Thing 00\n{_member(1)},Thing 03\n{_member(1)},Thing 04\n"
    (folder / "requests.csv").write_text(requests)
    settings = ("--dim", 4, "--w0", 0.1, "--l2", 0.02, "--max-passes", 20)
    _ok("train", folder / "data.csv", *COLUMNS, *settings, "--out", folder / "model")
    return folder


def _tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="session")
def tree() -> Callable[[Path], dict[str, bytes | None]]:
    """Every file of a folder, hidden ones too, with its content."""
    return _tree


@pytest.fixture(scope="session")
def command() -> list[str]:
    """The command as a process of its own; it heeds Ctrl-C even where the tests run in the background."""
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from alteraser.cli.main import main; main()"
    )
    return [sys.executable, "-c", start]
