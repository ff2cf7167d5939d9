"""What the benchmark of the kinds of requests draws, compares with and says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alteraser.data.interactions import Interactions, Side
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from benchmarks.formula import Formula, Pairs
from benchmarks.generated import generated
from benchmarks.kinds import page, run
from benchmarks.kinds.originals import EARLY, OPTIMUM, Originals
from benchmarks.kinds.reference import References, in_double, loss
from benchmarks.kinds.requests import ACCOUNT, ITEM, KINDS, LARGE, Sampler, concerned, emptied, with_times
from evidence.store import Store


@pytest.fixture(scope="module")
def data() -> Interactions:
    return with_times(generated(12_000, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def start(data: Interactions) -> MF:
    return MF.sized_for(data, dim=8, objective=Objective(w0=0.1, l2=0.03), rng=np.random.default_rng(0))


@pytest.mark.parametrize("kind", KINDS)
def test_requests_delete_what_they_are_said_to(kind: str, data: Interactions) -> None:
    sampler = Sampler(data)
    for asked in sampler.sample(kind, 3):
        assert np.array_equal(asked.requests.match(data).mask, asked.deleted)
        assert asked.deleted.any()
    again = Sampler(data).sample(kind, 3)
    assert all(
        np.array_equal(a.deleted, b.deleted) for a, b in zip(sampler.sample(kind, 3), again, strict=True)
    )


def test_those_concerned_still_have_something(data: Interactions) -> None:
    account, item = (Sampler(data).sample(kind, 1)[0] for kind in (ACCOUNT, ITEM))
    assert len(concerned(account, data)) == 0
    assert len(emptied(account, data)[Side.USERS]) == 1
    left = data.without(item.deleted)
    assert set(concerned(item, data)) <= set(left.users.tolist())
    assert len(emptied(item, data)[Side.ITEMS]) == 1


def test_the_reference_of_an_optimum_is_the_optimum_that_remains(data: Interactions, start: MF) -> None:
    trained = ALS(max_passes=500, tolerance=1e-13).train(in_double(start), data, rng=None).model
    references = References(trained, data, at_optimum=True)
    for kind in (ACCOUNT, ITEM):
        remain = data.without(Sampler(data).sample(kind, 1)[0].deleted)
        reference = references.find(remain)
        assert reference.residual_left <= 1e-3
        before, now = (
            Formula(model, Pairs.of(remain)).gradient_norm
            for model in (trained.without_empty_rows(remain), reference.model)
        )
        assert now < 2e-3 * before
        passes = ALS(max_passes=500, tolerance=1e-13).train(trained, remain, rng=None).model
        assert loss(reference.model, remain) == pytest.approx(loss(passes, remain), rel=1e-8)


def test_the_reference_of_another_original_keeps_its_gradient(data: Interactions, start: MF) -> None:
    early = ALS(max_passes=3, tolerance=0).train(in_double(start), data, rng=None).model
    asked = Sampler(data).sample(ACCOUNT, 1)[0]
    remain = data.without(asked.deleted)
    reference = References(early, data, at_optimum=False).find(remain)
    users, items = Formula(early, Pairs.of(data)).gradient
    users[emptied(asked, data)[Side.USERS]] = 0
    now = Formula(reference.model, Pairs.of(remain)).gradient
    before = Formula(early.without_empty_rows(remain), Pairs.of(remain)).gradient
    opened, left = (
        np.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(gradient, (users, items), strict=True)))
        for gradient in (before, now)
    )
    assert left < 0.1 * opened
    assert left / opened == pytest.approx(reference.residual_left, rel=1e-2)


def test_cells_are_measured_written_and_judged(
    data: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(run, "load_data", lambda *_: data)
    monkeypatch.setattr(run, "ORIGINALS_FOLDER", tmp_path / "trained")
    monkeypatch.setattr(page, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(page, "PAGE", tmp_path / "kinds.md")
    cells = [
        "--dataset",
        "ml-1m",
        "--original",
        OPTIMUM,
        "--original",
        EARLY,
        "--kind",
        ACCOUNT,
        "--kind",
        LARGE[0],
    ]
    run.main([*cells, "--requests", "3", "--references", "1"])
    assert len(capsys.readouterr().out.splitlines()) == 12
    run.main([*cells, "--resume"])
    assert capsys.readouterr().out == ""
    found = {
        (cell["what"], cell["original"], cell["kind"]): cell
        for cell in Store(tmp_path / "results").read("ml-1m")["cells"]
    }
    assert len(found[run.TIMES, OPTIMUM, ACCOUNT]["passes"]) == 3
    figures = found[run.REFERENCES, OPTIMUM, ACCOUNT]["references"][0]
    assert 0 < figures["left_of_whole"] < figures["left_of_rest"] < 1
    assert "left_of_whole" not in found[run.REFERENCES, EARLY, ACCOUNT]["references"][0]
    scopes = found[run.SCOPES, OPTIMUM, ACCOUNT]
    assert set(scopes["seconds"]) == {"auto", "affected", "all"}
    assert all(over > 0 for over in page.over_the_cheaper(scopes))
    text = (tmp_path / "kinds.md").read_text()
    assert "### From three passes" in text
    assert "| left of the rest, mean of each cell | at most 0.25 |" in text


def test_an_original_at_its_optimum_has_no_gap_of_its_own(data: Interactions, tmp_path: Path) -> None:
    originals = Originals("data", data, tmp_path)
    model = originals.model(OPTIMUM)
    assert model.dtype is torch.float32
    best = References(model, data, at_optimum=True).find(data).model
    assert loss(in_double(model), data) - loss(best, data) < 1e-9 * loss(best, data)
    assert torch.equal(originals.model(OPTIMUM).users, model.users)
