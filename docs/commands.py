"""Writes docs/commands.md from the command itself, so that the two never differ: `make docs`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from alteraser.cli.main import app

PAGE = Path(__file__).with_name("commands.md")
INTRODUCTION = (
    "Made from the command's own help by `make docs`. Results go to standard output, progress to standard error. "
    "Every command takes `--json` and then prints one JSON document. `-v` says more and `-q` nothing but results, "
    "warnings and errors, before a command or behind it. Where standard error is no terminal, long work says a "
    "line now and then in the place of a bar. Bad input ends with exit code 2, an interruption with 130; in both "
    "cases nothing half-written is left behind. A request that was met before is no error; one that matches "
    "nothing else is, unless `--missing ignore` is given. `verify` ends with 1 if a request was not honoured.\n\n"
    "`alteraser --install-completion` lets the shell complete commands and options. `python -m alteraser` is the same "
    "command.\n"
)


def page() -> str:
    """Every command with its arguments, options and an example."""
    sections = (
        _section(path, command) for path, command in commands("alteraser", typer.main.get_command(app))
    )
    return "\n".join(["# Commands\n", INTRODUCTION, *sections])


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(f"{path} {name}", child)
    if not hasattr(command, "commands") and not command.hidden:
        yield path, command


def _section(path: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    names = {p.name: p.metavar or p.name.upper() for p in arguments}
    usage = " ".join([path, *(names[p.name] if p.required else f"[{names[p.name]}]" for p in arguments)])
    example = inspect.cleandoc(command.epilog.partition("Example:\n")[2])
    lines = [
        f"## {path}\n",
        f"`{usage} [OPTIONS]`\n",
        f"{inspect.cleandoc(command.help)}\n",
        f"```sh\n{example}\n```\n",
    ]
    lines += ["| | | default |", "| --- | --- | --- |"]
    lines += [f"| `{names[p.name]}` | {p.help} | {'required' if p.required else ''} |" for p in arguments]
    lines += [f"| `{', '.join([*p.opts, *p.secondary_opts])}` | {p.help} | {_default(p)} |" for p in options]
    return "\n".join(lines) + "\n"


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.required:
        return "required"
    return "" if option.default is None or option.default is False else f"`{option.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
