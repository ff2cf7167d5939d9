"""The demo can be had from Python, without the command and without anything written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import alteraser as ae
from alteraser.report.demo import run_demo
from alteraser.report.demo_page import demo_page


def test_the_demo_runs_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo = run_demo(np.random.default_rng(3), dataset="synthetic")
    assert list(demo.report.values) == ["original", "unlearned", "retrained"] == ["original", *demo.seconds]
    foreign = {each.name: sum(line.marked for line in each.lines) for each in demo.lists}
    assert foreign["unlearned"] < foreign["original"]
    assert f"someone else&#39;s {demo.topic}" in demo_page(demo, {}, "today")
    assert list(tmp_path.iterdir()) == []
    original = ae.Version.of(demo.original, demo.data.full)
    for name, erasure in demo.erasures.items():
        following = original.after(erasure, demo.data.requests, unlearner=demo.unlearners[name])
        assert following.history[0].count == len(demo.data.requests)
        assert following.data_digest == demo.remain.digest()
