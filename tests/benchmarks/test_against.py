"""Two revisions side by side: the same originals and requests, and one function for the losses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Side
from alteraser.train.als import ALS
from benchmarks import against, against_worker
from evidence.revision import ROOT

DATA = "synthetic"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("against")


@pytest.fixture(scope="module")
def case(folder: Path) -> Any:
    """A small original on the embedded data, written down as for the workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(against.OBJECTIVES, DATA, {"w0": 0.1, "l2": 0.05})
        patch.setattr(against, "DIM", 8)
        patch.setattr(against, "TO_THE_OPTIMUM", ALS(max_passes=5))
        return against.Case.prepared(DATA, folder, None)


def test_requests_delete_half_of_each_history(case: against.Case, folder: Path) -> None:
    told = json.loads((folder / f"{DATA}.json").read_text(encoding="utf-8"))
    data = load_dataset(DATA)
    counts = dict(zip(data.user_vocabulary.ids, data.by(Side.USERS).counts, strict=True))
    assert len(told["request"]) == 1 + against.N_REQUESTS
    assert len(told["batch"]) == against.N_BATCH
    for request in (*[each for (each,) in told["request"]], *told["batch"]):
        assert len(request["items"]) == counts[request["user"]] // 2
    assert case.deleted["batch"].sum() == sum(len(request["items"]) for request in told["batch"])
    assert not case.deleted["passes"].any()


@pytest.mark.parametrize("task", against.TASKS)
def test_a_task_tells_its_seconds_and_the_loss_is_that_on_what_it_left(
    task: str, case: against.Case, folder: Path, tmp_path: Path
) -> None:
    worker = against_worker.Worker(folder, None)
    answers = [getattr(worker, task)(DATA, part) for part in range(against.PARTS.get(task, 1))]
    assert all(0 < answer.seconds < math.inf for answer in answers)
    model = answers[-1].model()
    np.savez(tmp_path / "reached.npz", users=model.users.numpy(), items=model.items.numpy())
    remain = load_dataset(DATA).without(case.deleted[task])
    reached = case.loss(task, tmp_path / "reached.npz")
    assert reached == pytest.approx(model.loss(remain), rel=1e-6)
    assert reached < case.original.loss(remain)


def test_a_process_runs_the_package_of_its_own_source(
    case: against.Case, folder: Path, tmp_path: Path
) -> None:
    with against.Worker(ROOT / "src", folder, None) as worker:
        assert worker.run("passes", DATA, tables=tmp_path / "tables.npz") > 0
        assert math.isfinite(case.loss("passes", tmp_path / "tables.npz"))
    assert worker._process.returncode is not None
    with pytest.raises(RuntimeError, match=r"imported instead|ended with status"):
        against.Worker(tmp_path, folder, None)


def test_the_table_shows_medians_and_quartiles_of_the_ratios() -> None:
    seconds = {"new": [0.001, 0.002, 0.003], "old": [0.002, 0.002, 0.002]}
    losses, gaps = {"new": 10.0, "old": 11.0}, {"new": 0.01, "old": 0.02}
    figure = against.Figure("request", "ml-1m", seconds, losses, gaps)
    assert figure.ratio == pytest.approx((0.75, 1.0, 1.25))
    row = against.table([figure]).splitlines()[-1]
    assert (
        row
        == "| request | ml-1m | 2.00 | 2.00 | 1.000 | 0.750 | 1.250 | 10.0000 | 11.0000 | 1.00e-02 | 2.00e-02 |"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-revision"], "no revision"),
        (["HEAD", "--what", "passes,speed"], "there is no speed"),
        (["HEAD", "--rounds", "0"], "from 1 up"),
    ],
)
def test_what_cannot_be_compared_is_said_before_anything_is_trained(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        against.main(arguments)
    assert said in capsys.readouterr().err
