"""Every command explains itself, quickly."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer.main

from alteraser.cli.data import ArchiveName
from alteraser.cli.forgetting import SolverName
from alteraser.cli.main import app
from alteraser.data.archives import ARCHIVES
from alteraser.optim.solvers import SOLVERS


def commands(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands that do something, by what is typed for them."""
    below = getattr(command, "commands", None)
    if command.hidden:
        return
    if below is None:
        yield name, command
    else:
        for part, each in below.items():
            yield from commands(each, (*name, part))


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_commands_are_those_that_were_promised() -> None:
    wanted = "demo data-fetch data-describe data-convert data-split train forget recommend similar compare "
    wanted += "compact verify evaluate tune warm-up"
    assert {"-".join(name) for name in COMMANDS} == set(wanted.split())


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_every_command_has_help_an_example_and_json(run: Any, name: tuple[str, ...]) -> None:
    command = COMMANDS[name]
    assert len(command.help.split()) >= 5
    ran = run(*name, "--help")
    assert ran.code == 0
    example = re.search(rf"Example:\n +alteraser {' '.join(name)} .*", ran.out + " ")
    assert example is not None
    assert re.search(r"--json +Print one JSON document", ran.out)
    for parameter in command.params:
        assert parameter.help, f"{parameter.name} is not explained"


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_help_fits_eighty_columns(run: Any, name: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, run(*name, "--help").out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_the_example_can_be_typed(run: Any, name: tuple[str, ...]) -> None:
    """The options in an example are known: the command gets as far as its missing files."""
    example = run(*name, "--help").out.partition("Example:\n")[2].replace("\\\n", " ")
    for line in example.strip().splitlines():
        used = set(re.findall(r"(?<!\S)(--?[a-z][\w-]*)", line))
        assert used <= {option for each in COMMANDS[name].params for option in each.opts}


def test_help_is_shown_without_arguments(run: Any) -> None:
    assert "Usage: alteraser" in (ran := run()).out + ran.err


def test_version(run: Any) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", run("--version").out)


def test_the_solvers_offered_are_the_solvers_there_are() -> None:
    assert get_args(SolverName) == tuple(SOLVERS)


def test_the_data_sets_offered_are_those_that_can_be_fetched() -> None:
    assert get_args(ArchiveName) == tuple(ARCHIVES)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import json, sys\n"
        "from alteraser.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: alteraser" in ran.stdout
    heavy = {"torch", "numba", "polars", "numpy", "scipy", "matplotlib", "pyarrow", "jinja2"}
    assert heavy.isdisjoint(json.loads(ran.stderr))
