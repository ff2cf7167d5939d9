"""Recommending reads a version without torch, and gives and refuses what the whole version would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars.testing
import pytest
import safetensors.numpy
import torch

import alteraser as ae
from alteraser.models import registry
from alteraser.models.folder import ITEMS, MANIFEST, PARAMETERS, USERS, manifest_digest, sha256
from alteraser.versions.recommending import load_recommender
from tests.models.test_registry import Doubled


@pytest.fixture(params=["mf", "enmf"])
def folder(request: Any, tmp_path: Path, random_data: Any, small_model: Any) -> Path:
    data = random_data(empty=True)
    model = small_model(data, enmf=request.param == "enmf", dtype=torch.float32)
    ae.Version.of(model, data).save(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Puts a file in the folder whose digests all fit: only what it holds can be wrong."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest.pop("sha256")
    manifest["files"][name] = sha256(content)
    (folder / MANIFEST).write_text(json.dumps(manifest | {"sha256": manifest_digest(manifest)}))


def test_lists_are_those_of_the_whole_version(folder: Path) -> None:
    light, whole = load_recommender(folder), ae.load_version(folder)
    assert light.read_options == whole.read_options
    users = [f"u{number}" for number in range(12)]
    for found, wanted in (
        (light.recommender.recommend(users, 4), whole.recommender.recommend(users, 4)),
        (light.recommender.similar_items("i2", 4), whole.recommender.similar_items("i2", 4)),
        (light.recommender.similar_users("u2", 4), whole.recommender.similar_users("u2", 4)),
    ):
        polars.testing.assert_frame_equal(found, wanted, check_exact=False, rel_tol=1e-5, abs_tol=1e-6)


def test_a_kind_that_is_not_built_in_recommends_as_its_class_says(
    tmp_path: Path, random_data: Any, small_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    ae.register(Doubled)
    data, plain = random_data(), small_model(random_data())
    doubled = Doubled(plain.users, plain.items, plain.objective)
    for name, model in (("plain", plain), ("doubled", doubled)):
        ae.Version.of(model, data).save(tmp_path / name)
    scores = [
        load_recommender(tmp_path / name).recommender.recommend("u1", 3)["score"].to_numpy()
        for name in ("plain", "doubled")
    ]
    np.testing.assert_allclose(scores[1], 2 * scores[0])


@pytest.mark.parametrize("name", [PARAMETERS, USERS, ITEMS, MANIFEST])
def test_a_flipped_bit_is_refused(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ae.ModelFileError):
        load_recommender(folder)


@pytest.mark.parametrize("wrong", ["nan", "missing", "more", "dim", "type", "rows"])
def test_tensors_that_do_not_fit_are_refused(folder: Path, wrong: str) -> None:
    tensors = safetensors.numpy.load((folder / PARAMETERS).read_bytes())
    users = tensors["users"]
    if wrong == "missing":
        del tensors["users"]
    else:
        changed = {
            "nan": ("users", np.full_like(users, np.nan)),
            "more": ("others", users),
            "dim": ("users", users[:, :-1].copy()),
            "type": ("users", users.astype(np.float64)),
            "rows": ("users", users[:-1].copy()),
        }
        name, array = changed[wrong]
        tensors[name] = array
    rewrite(folder, PARAMETERS, safetensors.numpy.save(tensors))
    for load in (load_recommender, ae.load_version):
        with pytest.raises(ae.ModelFileError):
            load(folder)


def test_the_command_recommends_without_torch(folder: Path) -> None:
    code = (
        "import json, sys\n"
        "from alteraser.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    for command in (["recommend", str(folder), "--user", "u1"], ["similar", str(folder), "--item", "i1"]):
        ran = subprocess.run(
            [sys.executable, "-c", code, *command, "--json"], capture_output=True, text=True, check=True
        )
        assert json.loads(ran.stdout)
        imported = json.loads(ran.stderr.splitlines()[-1])
        assert {"torch", "numba", "scipy", "matplotlib", "pyarrow", "jinja2"}.isdisjoint(imported)
