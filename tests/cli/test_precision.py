"""`train --precision`: the numbers of a model, which all that is made of it keeps."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

Ok = Callable[..., Any]


def kinds(model: Path) -> set[torch.dtype]:
    return {tensor.dtype for tensor in safetensors.torch.load_file(model / "parameters.safetensors").values()}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ((), torch.float32),
        (("--precision", "single"), torch.float32),
        (("--precision", "double"), torch.float64),
        (("--precision", "double", "--model", "mf"), torch.float64),
        (("--precision", "double", "--trainer", "adamw"), torch.float64),
    ],
    ids=str,
)
def test_a_model_and_its_successors_have_the_numbers_asked_for(
    ok: Ok, workspace: Path, tmp_path: Path, options: tuple[str, ...], kind: torch.dtype
) -> None:
    data, model, requests = workspace / "plain.csv", tmp_path / "model", tmp_path / "requests.csv"
    requests.write_text("user\nperson-005@mail.example\n")
    ok("train", data, "--dim", 3, "--max-passes", 3, *options, "--out", model)
    assert kinds(model) == {kind}
    for name, method in {
        "all": (),
        "affected": ("--scope", "affected"),
        "retrained": ("--method", "retrain"),
        "warm": ("--method", "warm-start"),
    }.items():
        ok("forget", model, data, "--requests", requests, *method, "--out", tmp_path / name)
        assert kinds(tmp_path / name) == {kind}, name
    ok("compact", tmp_path / "all", "--out", tmp_path / "compacted")
    assert kinds(tmp_path / "compacted") == {kind}


def test_other_precisions_are_refused(run: Any, workspace: Path, tmp_path: Path) -> None:
    refused = run("train", workspace / "plain.csv", "--precision", "half", "--out", tmp_path / "model")
    assert refused.code == 2
    assert "'single', 'double'" in refused.err


def test_the_help_says_what_there_is_to_choose(run: Any) -> None:
    assert re.search(r"--precision .*single\|double", run("train", "--help").out)
