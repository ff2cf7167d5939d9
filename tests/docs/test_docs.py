"""What the documents show is what the software does."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

import alteraser as ae
from alteraser import errors
from alteraser.cli.main import main
from alteraser.live.scopes import SCOPES
from alteraser.optim.solvers import SOLVERS
from alteraser.unlearn.alteraser import AltEraser

ROOT = Path(__file__).parents[2]


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )


def test_the_readme_example_in_python_runs_and_forgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(blocks("python")[0], encoding="utf-8")
    after = runpy.run_path(str(tmp_path / "example.py"))
    report = after["report"]
    assert report.re_predict["original"] > 0.1
    assert report.re_predict["unlearned"] == report.re_predict["retrained"] == 0.0
    assert report.values["unlearned"]["others"]["rbo"][10] > 0.99
    assert report.n_users == {"others": 39_999}
    # What it wrote belongs together, and serves the command as well.
    version = ae.load_version("unlearned")
    version.aligned(version.read("remaining.parquet"))
    # A Python user keeps the history of erasures, too.
    assert version.honours(after["account"], after["key"]).all
    assert version.history[-1].parent == after["version"].digest


def test_every_error_can_be_caught_by_a_public_name() -> None:
    named = {name for name, each in vars(errors).items() if isinstance(each, type)}
    assert named <= set(dir(ae))
    for name in dir(ae):
        assert getattr(ae, name) is not None


def test_the_readme_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "erasure.key").write_text("sixteen bytes or more")
    commands = "".join(block for block in blocks("sh") if "alteraser" in block).replace("\\\n", " ")
    for line in ["alteraser demo --dataset synthetic --out demo", *commands.strip().splitlines()]:
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(line)[1:])
        assert stop.value.code == 0, line


def test_the_page_of_commands_is_what_the_command_says() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "commands.py"))["page"]()
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == page, "run `make docs`"


def test_every_solver_is_described() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    section = page.partition("## Solvers\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE) == list(SOLVERS)


def test_every_scope_is_described_with_its_settings() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    for name, scope in SCOPES.items():
        assert re.search(rf'^\| `{type(scope).__name__}`.* \| `"{name}"` \|', page, re.MULTILINE)
    assert f"AltEraser()  # scope={AltEraser().rows_to_move}" in page


def test_every_link_between_documents_leads_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
