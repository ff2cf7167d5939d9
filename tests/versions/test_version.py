"""A version forgets into the next one, which keeps the history, from Python as from the command."""

from __future__ import annotations

import importlib.metadata
import json
import re
import resource
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import alteraser as ae
from alteraser.cli.main import main
from alteraser.data.requests import Requests

# Folders written by the last release that wrote format 1: trained on data.csv, and made to forget requests.csv.
FORMAT1 = Path(__file__).parent / "format1"
KEY = b"a key that is long enough"
NOON = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
GENERATIONS = (
    [{"user": "u3"}, {"item": "i2"}],
    [{"user": "u5", "item": "i4"}, {"user": "u5", "item": "i4"}, {"user": "nobody"}],
    [{"user": "u0"}],
)


@pytest.fixture
def data() -> ae.Interactions:
    """Twelve users and nine items; u5 has i4."""
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((12, 9)) < 0.5)
    frame = pl.DataFrame(
        {"user_id": [f"u{row}" for row in [*users, 5]], "item_id": [f"i{row}" for row in [*items, 4]]}
    )
    return ae.interactions(frame.unique(maintain_order=True))


@pytest.fixture
def version(data: ae.Interactions) -> ae.Version:
    trainer = ae.ALS(max_passes=50)
    model = ae.fit(ae.MF.sized_for(data, dim=3, rng=np.random.default_rng(0)), data, trainer=trainer).model
    return ae.Version.of(model, data, trainer=trainer)


def manifest(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text())


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(each) for each in arguments])
    return int(stop.value.code or 0)


def write_requests(path: Path, requests: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in requests))
    return path


def test_three_generations_have_the_same_history_from_python_and_from_the_command(
    version: ae.Version, data: ae.Interactions, tmp_path: Path
) -> None:
    version.save(tmp_path / "command0")
    ae.write_interactions(data, tmp_path / "command0.parquet")
    (tmp_path / "key").write_bytes(KEY)
    here, parents = version, [version.digest]
    for number, asked in enumerate(GENERATIONS):
        here, erasure = here.forget(data, Requests.of(asked), key=KEY, missing="ignore")
        here = here.save(
            tmp_path / f"python{number + 1}",
            remaining=(erasure.remain, tmp_path / f"python{number + 1}.parquet"),
        )
        data = erasure.remain
        parents.append(here.digest)
        before, after = tmp_path / f"command{number}", tmp_path / f"command{number + 1}"
        requests = write_requests(tmp_path / "requests.jsonl", asked)
        assert not command(
            *("forget", before, f"{before}.parquet", "--requests", requests, "--missing", "ignore"),
            *("--key-file", tmp_path / "key", "--out", after, "--remaining", f"{after}.parquet"),
        )
    by_python, by_command = (ae.load_version(tmp_path / f"{each}3") for each in ("python", "command"))
    assert [batch.count for batch in by_python.history] == [2, 1, 1]
    # What differs is when it was done, and with it the digest of the version that was made.
    same = [
        [replace(batch, date=None, parent=None) for batch in each.history] for each in (by_python, by_command)
    ]
    assert same[0] == same[1]
    assert [batch.parent for batch in by_python.history] == parents[:3]
    chain = [manifest(tmp_path / f"command{number}")["sha256"] for number in range(3)]
    assert [batch.parent for batch in by_command.history] == chain
    assert torch.equal(by_python.model.table(ae.Side.USERS), by_command.model.table(ae.Side.USERS))
    assert by_python.data_digest == by_command.data_digest


def test_a_batch_tells_how_it_was_forgotten(version: ae.Version, data: ae.Interactions) -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))
    unlearner = ae.AltEraser(ae.Passes(ae.hf_newton, max_passes=4))
    following, erasure = version.forget(
        data, Requests.of(GENERATIONS[0]), unlearner=unlearner, date=elsewhere
    )
    [batch] = following.history
    assert (batch.method, batch.date) == ("AltEraser", "2026-05-04T12:00:30+00:00")
    assert batch.software == importlib.metadata.version("alteraser")
    assert batch.parent == version.digest
    assert batch.outcome == {
        "converged": erasure.converged,
        "steps": erasure.cost.steps,
        "passes": erasure.cost.passes,
    }
    assert batch.settings is not None
    assert batch.settings["scope"]["max_passes"] == 4
    assert batch.settings["scope"]["solver"]["linear"]["type"] == "CG"
    json.dumps(batch.to_dict(), allow_nan=False)  # all of it is plain
    retrained, _ = version.forget(
        data,
        Requests.of(GENERATIONS[0]),
        unlearner=ae.Retrain(np.random.default_rng(0), ae.AdamW(max_epochs=2)),
    )
    [batch] = retrained.history
    assert batch.settings is not None
    assert batch.settings.keys() == {"trainer", "order"}  # a stream of random numbers is no setting
    assert retrained.trainer == ae.AdamW(max_epochs=2)
    assert following.trainer == version.trainer == ae.ALS(max_passes=50)


def test_what_nobody_has_leaves_no_batch(version: ae.Version, data: ae.Interactions) -> None:
    following, erasure = version.forget(data, Requests.of([{"user": "nobody"}]), missing="ignore")
    assert erasure.requests.n_missing == 1
    assert following.history == ()
    assert following.digest == version.digest


def test_no_id_and_no_number_of_interactions_is_in_the_manifest(
    version: ae.Version, data: ae.Interactions, tmp_path: Path
) -> None:
    """One request, so that a total would be one person's."""
    n_forgotten = int((data.users == data.user_vocabulary.ids.to_list().index("u3")).sum())
    following, erasure = version.forget(data, Requests.of([{"user": "u3"}]), key=KEY)
    assert erasure.requests.n_forgotten == n_forgotten
    following.save(tmp_path / "model")
    text = (tmp_path / "model" / "manifest.json").read_text()
    assert not re.search(r'"[ui]\d+"', text)
    [batch] = manifest(tmp_path / "model")["history"]
    assert batch.keys() == {
        *("parent_sha256", "date", "method", "settings", "outcome", "software"),
        *("count", "hmac_sha256", "requests_hmac_sha256"),
    }
    assert batch["outcome"].keys() == {"converged", "steps", "passes"}
    assert "u3" not in repr(following)


def test_a_version_knows_its_digest_before_and_after_it_is_written(
    version: ae.Version, data: ae.Interactions, tmp_path: Path
) -> None:
    known = version.digest
    assert version.save(tmp_path / "model") is version
    assert known == manifest(tmp_path / "model")["sha256"] == ae.load_version(tmp_path / "model").digest
    following, erasure = version.forget(data, Requests.of(GENERATIONS[0]))
    written = following.save(tmp_path / "model2", remaining=(erasure.remain, tmp_path / "rest.csv"))
    assert written.digest == manifest(tmp_path / "model2")["sha256"]
    assert ae.compact(written).digest != written.digest


@pytest.mark.parametrize("model_limit", [True, False], ids=["the data is too large", "the model is"])
def test_when_writing_fails_neither_file_is_there(
    version: ae.Version, data: ae.Interactions, tmp_path: Path, model_limit: bool
) -> None:
    """With --force what was there stays, too."""
    version.save(tmp_path / "model")
    (tmp_path / "rest.csv").write_text("old")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    following, erasure = version.forget(data, Requests.of(GENERATIONS[0]))
    sizes = (
        len(erasure.remain.to_frame().write_csv()),
        (tmp_path / "model" / "manifest.json").stat().st_size,
    )
    assert sizes[0] < sizes[1]
    limit = sizes[0] - 1 if model_limit else sizes[1] - 1
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        with pytest.raises(ae.WriteError):
            following.save(tmp_path / "model", remaining=(erasure.remain, tmp_path / "rest.csv"), force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_only_the_data_of_the_version_is_written_beside_it(
    version: ae.Version, data: ae.Interactions, tmp_path: Path
) -> None:
    following, _ = version.forget(data, Requests.of(GENERATIONS[0]))
    with pytest.raises(ae.MismatchError, match="remaining data"):
        following.save(tmp_path / "model", remaining=(data, tmp_path / "rest.csv"))
    assert list(tmp_path.iterdir()) == []


def test_a_table_with_all_its_columns_is_written_beside_a_version(
    version: ae.Version, data: ae.Interactions, tmp_path: Path
) -> None:
    table = data.to_frame().with_columns(price=pl.lit(3))
    table.write_parquet(tmp_path / "store.parquet")
    requests = Requests.of(GENERATIONS[0])
    following, _ = version.forget(version.read(tmp_path / "store.parquet"), requests)
    source = ae.open_source(tmp_path / "store.parquet", read_options=version.read_options)
    with pytest.raises(ae.MismatchError, match="remaining data"):
        following.save(tmp_path / "model", remaining=(source, tmp_path / "rest.csv"))
    assert not (tmp_path / "model").exists()
    written = following.save(tmp_path / "model", remaining=(source.without(requests), tmp_path / "rest.csv"))
    rest = pl.read_csv(tmp_path / "rest.csv")
    assert rest.equals(table.filter(pl.col("user_id") != "u3", pl.col("item_id") != "i2").cast(rest.schema))
    written.aligned(written.read(tmp_path / "rest.csv"))
    assert repr(source) == f"SourceTable({len(data)} rows, 3 columns)"


@pytest.mark.parametrize("kind", ["mf", "enmf"])
def test_a_folder_of_format_1_is_read_forgets_and_is_written_with_its_old_batches_first(
    kind: str, tmp_path: Path
) -> None:
    for name, file, asked in (
        (kind, "data.csv", "reader-1"),
        (f"{kind}-erased", "remaining.csv", "reader-5"),
    ):
        old = manifest(FORMAT1 / name)
        assert old["version"] == 1
        version = ae.load_version(FORMAT1 / name)
        assert version.kind == kind
        assert version.digest == old["sha256"]
        data = version.read(FORMAT1 / file)
        assert version.model.loss(version.aligned(data)) < 4
        following, _ = version.forget(data, Requests.of([{"user": asked}]), key=KEY)
        following.save(tmp_path / name)
        new = manifest(tmp_path / name)
        assert new["version"] == 2
        earlier = [(each["hmac_sha256"], each["count"]) for each in old["requests"]]
        assert [(each["hmac_sha256"], each["count"]) for each in new["history"][:-1]] == earlier
        assert len(new["history"]) == len(earlier) + 1
        assert new["history"][-1]["parent_sha256"] == old["sha256"]
        again = ae.load_version(tmp_path / name)
        assert again.history == following.history
        assert again.user_vocabulary.n_forgotten == version.user_vocabulary.n_forgotten + 1


def test_a_model_from_before_ratings_had_to_be_spoken_of_reads_them_as_it_did(tmp_path: Path) -> None:
    version = ae.load_version(FORMAT1 / "mf")
    rated = pl.read_csv(FORMAT1 / "data.csv", infer_schema=False).with_columns(rating=pl.lit(1))
    rated.write_csv(tmp_path / "rated.csv")
    version.aligned(version.read(tmp_path / "rated.csv"))
    with pytest.raises(ae.ColumnError, match="--any-rating"):
        ae.read_interactions(tmp_path / "rated.csv")


def test_a_folder_of_a_later_format_is_refused_by_its_number(tmp_path: Path) -> None:
    shutil.copytree(FORMAT1 / "mf", tmp_path / "model")
    later = manifest(tmp_path / "model") | {"version": 7}
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(later))
    with pytest.raises(ae.ModelFileError, match="format version 7; this alteraser reads 1 and 2"):
        ae.load_version(tmp_path / "model")
