"""Commands that now live with the repository, not with the package."""

from __future__ import annotations

import typer

from alteraser.errors import SettingError

MOVED = ("reproduce", "study")
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_moved(app: typer.Typer) -> None:
    """Have the old names say where they went, whatever arguments follow."""
    for name in MOVED:
        app.command(name, hidden=True, add_help_option=False, context_settings=ANY_ARGUMENTS)(_moved)


def _moved(context: typer.Context) -> None:
    name = context.info_name
    raise SettingError(
        f"`alteraser {name}` lives with the repository now: run `python -m studies {name}` there."
    )
