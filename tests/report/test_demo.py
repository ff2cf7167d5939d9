"""The demo can be had from Python, without the command and without anything written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import alteraser as ae
from alteraser.report.demo import run_demo
from alteraser.report.demo_page import demo_page


def test_the_story_is_told_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = run_demo(np.random.default_rng(3), dataset="synthetic")
    assert list(told.report.values) == ["original", "unlearned", "retrained"] == ["original", *told.seconds]
    foreign = {each.name: sum(line.marked for line in each.lines) for each in told.lists}
    assert foreign["unlearned"] < foreign["original"]
    assert f"someone else&#39;s {told.topic}" in demo_page(told, {}, "today")
    assert list(tmp_path.iterdir()) == []
    original = ae.Version.of(told.original, told.story.full)
    for name, erasure in told.erasures.items():
        following = original.after(erasure, told.story.requests, unlearner=told.unlearners[name])
        assert following.history[0].count == len(told.story.requests)
        assert following.data_digest == told.remain.digest()
