"""`python -m studies` explains itself, and `alteraser` says where its commands went."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from alteraser.cli.main import main as alteraser
from alteraser.cli.moved import MOVED
from alteraser.report import plots
from studies import commands
from studies.commands import app
from studies.page import write_page

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def help_of(name: str) -> str:
    shown = CliRunner().invoke(app, [name, "--help"], prog_name="python -m studies", env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    return shown.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_an_example_that_can_be_typed_and_json(name: str) -> None:
    text, known = help_of(name), {option for each in COMMANDS[name].params for option in each.opts}
    assert max(map(len, text.splitlines())) <= 80
    assert all(parameter.help for parameter in COMMANDS[name].params)
    example = text.partition("Example:\n")[2]
    assert example.strip().startswith(f"python -m studies {name} --") or name == "study"
    assert set(re.findall(r"(--[a-z][\w-]*)", example)) <= known
    assert "--json" in known


def test_every_option_that_the_command_alteraser_had_is_there() -> None:
    options = {name: {p.name for p in command.params} for name, command in COMMANDS.items()}
    common = {"dataset", "out", "regime", "seed", "data_dir", "json"}
    assert options["reproduce"] == common | {"scenario", "runs", "methods", "resume"}
    assert options["study"] == common | {"which", "users"}
    assert options["tune"] == common
    assert options["headline"] == {"out", "runs", "resume", "seed", "data_dir", "json"}
    assert set(options) == {*MOVED, "tune", "defaults", "endings", "headline", "page"}


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["sizes", "--dataset", "ml-1m", "--out", "x", "-v", "--", "y"]]
)
def test_the_old_names_say_in_one_line_where_they_went(
    name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        alteraser([name, *arguments])
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert f"`python -m studies {name}`" in said.err


def test_bad_input_ends_as_in_the_command_alteraser(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        commands.main(["reproduce", "--methods", "Magic", "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "Error: No method is called Magic" in capsys.readouterr().err


def test_the_pages_in_docs_are_made_of_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "_svg", lambda *_: "<svg/>")  # the text is compared, not the pictures
    monkeypatch.chdir(Path(__file__).parents[2])
    files = list(commands.RESULTS.rglob("*.json"))
    for file in files:
        link = tmp_path / file.relative_to(commands.PAGE.parent)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(file.resolve())
    assert write_page(tmp_path / "results", tmp_path / "results.md") == len(files)
    made = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.glob("*.md")}
    beside = [commands.PAGE.with_name(name) for name in ("defaults.md", "endings.md")]
    there = [*commands.PAGE.parent.glob(f"{commands.PAGE.stem}*.md"), *beside]
    assert made == {page.name: page.read_text(encoding="utf-8") for page in there}, "run `make results-page`"
