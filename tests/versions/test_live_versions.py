"""What a live model forgets has a history, too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import alteraser as ae
from alteraser.sweep.executors import Local

KEY = b"0123456789abcdef"


@pytest.fixture
def data(random_data: Any) -> ae.Interactions:
    interactions: ae.Interactions = random_data(20, 12)
    return interactions


@pytest.fixture
def original(data: ae.Interactions, small_model: Any) -> ae.MF:
    model: ae.MF = ae.fit(small_model(data), data).model
    return model


@pytest.fixture
def version(data: ae.Interactions, original: ae.MF) -> ae.Version:
    return ae.Version.of(original, data)


def test_the_erasure_of_a_live_model_leads_to_the_next_version(
    version: ae.Version, original: ae.MF, data: ae.Interactions, tmp_path: Path
) -> None:
    live = ae.LiveModel(original, data)
    requests = ae.Requests.of([{"user": "u3"}, {"user": "u5", "item": "i5"}])
    erasure = live.forget([{"user": "u3"}, {"user": "u5", "item": "i5"}])
    following = version.after(erasure, requests, unlearner=live, key=KEY)
    following.save(tmp_path / "model2")
    written = ae.load_version(tmp_path / "model2")
    assert written.honours(requests, KEY).all
    [batch] = written.history
    assert (batch.method, batch.parent) == ("LiveModel", version.digest)
    assert batch.settings is not None
    assert batch.settings["tolerance"] == live.settings["tolerance"]
    assert written.data_digest == live.remain.digest()


@dataclass(frozen=True)
class Elsewhere(Local):
    address: str = "somebody:secret@elsewhere"
    in_process: ClassVar[bool] = True


def test_where_blocks_ran_is_no_part_of_the_history(version: ae.Version, data: ae.Interactions) -> None:
    unlearner = ae.AltEraser(ae.Passes(executor=Elsewhere()))
    following, _ = version.forget(data, ae.Requests.of([{"user": "u3"}]), unlearner=unlearner)
    assert "secret" not in str([batch.to_dict() for batch in following.history])


def test_what_is_no_way_to_treat_missing_ones_is_refused_by_a_live_model(
    original: ae.MF, data: ae.Interactions
) -> None:
    live = ae.LiveModel(original, data)
    with pytest.raises(ae.SettingError, match="missing is 'skip'"):
        live.forget([{"user": "u3"}], missing="skip")  # type: ignore[arg-type]
    assert len(live.remain) == len(data)


FORMAT_1 = sorted(path for path in (Path(__file__).parent / "format1").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FORMAT_1, ids=lambda path: path.name)
def test_a_version_of_the_first_format_has_the_digest_of_the_folder_it_is_written_to(
    folder: Path, tmp_path: Path
) -> None:
    written = ae.load_version(folder).save(tmp_path / "model")
    assert written.digest == ae.load_version(tmp_path / "model").digest
