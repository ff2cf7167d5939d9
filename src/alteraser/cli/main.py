"""The command `alteraser`: it parses, calls and answers. Heavy imports wait until a command runs."""

from __future__ import annotations

import signal
import sys
from importlib.metadata import version
from typing import Annotated, Any

import click
import typer

from alteraser.cli import comparing, data, demo, forgetting, recommending, training
from alteraser.cli.output import note
from alteraser.errors import AlteraserError

app = typer.Typer(
    help="Train a recommender, make it forget chosen interactions, and see what that changed.",
    epilog="Example: alteraser demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("train", epilog=training.EXAMPLE)(training.train)
app.command("forget", epilog=forgetting.EXAMPLE)(forgetting.forget)
app.command("recommend", epilog=recommending.RECOMMEND_EXAMPLE)(recommending.recommend)
app.command("similar", epilog=recommending.SIMILAR_EXAMPLE)(recommending.similar)
app.command("compare", epilog=comparing.EXAMPLE)(comparing.compare)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(version("alteraser"))
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del show_version


def main(arguments: list[str] | None = None) -> None:
    """Run the command; bad input exits with 2, an interruption with 130, both with nothing half-written."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(args=arguments, standalone_mode=False)
    except AlteraserError as error:
        note(f"Error: {error}")
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        note("Interrupted; nothing was written.")
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
