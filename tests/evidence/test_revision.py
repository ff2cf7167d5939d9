"""The commit that is measured is that of the code that runs, and changes are not hidden."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from evidence import revision as module
from evidence.revision import git, revision


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a package, one commit and a result, which stands in for ours."""
    package = tmp_path / "src" / "alteraser" / "__init__.py"
    result = tmp_path / "benchmarks" / "results" / "passes.json"
    for path in (package, result):
        path.parent.mkdir(parents=True)
        path.write_text("")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "find_spec", lambda name: ModuleSpec(name, None, origin=str(package)))
    git("init", "--quiet")
    git("add", ".")
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    git(*who, "commit", "--quiet", "--message", "first")
    revision.cache_clear()
    yield tmp_path
    revision.cache_clear()


@pytest.mark.usefixtures("repository")
def test_a_clean_tree_is_its_commit() -> None:
    commit = str(revision())
    assert len(commit) >= 12
    assert git("rev-parse", "HEAD").startswith(commit)


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("src/alteraser/__init__.py", True),
        ("src/alteraser/new.py", True),
        ("benchmarks/results/passes.json", False),
        ("README.md", False),
    ],
)
def test_changed_code_is_marked_and_new_results_are_not(repository: Path, path: str, dirty: bool) -> None:
    (repository / path).write_text("changed")
    assert str(revision()).endswith("-dirty") is dirty


def test_the_commit_stays_that_of_the_code_that_was_imported(repository: Path) -> None:
    before = revision()
    (repository / "src" / "alteraser" / "__init__.py").write_text("changed")
    assert revision() == before


def test_what_cannot_be_known_is_not_guessed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: str) -> str:
        raise subprocess.CalledProcessError(128, "git")

    elsewhere = ModuleSpec("alteraser", None, origin="/somewhere/alteraser/__init__.py")
    monkeypatch.setattr(module, "git", failing)
    assert revision() is None
    monkeypatch.undo()
    monkeypatch.setattr(module, "ROOT", repository)
    monkeypatch.setattr(module, "find_spec", lambda _: elsewhere)
    revision.cache_clear()
    assert revision() is None
