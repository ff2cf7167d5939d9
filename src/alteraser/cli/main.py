"""The command `alteraser`: it parses, calls and answers. Heavy imports wait until a command runs."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from alteraser.cli import (
    compacting,
    comparing,
    data,
    demo,
    forgetting,
    recommending,
    reproducing,
    studying,
    training,
    tuning,
)
from alteraser.cli.interruption import Interrupted, interruptible
from alteraser.cli.options import example
from alteraser.cli.output import note
from alteraser.errors import AlteraserError

# Plain help and errors: lines that can be copied, the same in every terminal and width.
app = typer.Typer(
    help="Train a recommender, make it forget chosen interactions, and see what that changed.",
    epilog=example("alteraser demo", "alteraser train --help"),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.add_typer(data.app, name="data")
app.command("train", epilog=training.EXAMPLE)(training.train)
app.command("forget", epilog=forgetting.EXAMPLE)(forgetting.forget)
app.command("compact", epilog=compacting.EXAMPLE)(compacting.compact)
app.command("recommend", epilog=recommending.RECOMMEND_EXAMPLE)(recommending.recommend)
app.command("similar", epilog=recommending.SIMILAR_EXAMPLE)(recommending.similar)
app.command("compare", epilog=comparing.EXAMPLE)(comparing.compare)
app.command("reproduce", epilog=reproducing.EXAMPLE)(reproducing.reproduce)
app.command("study", epilog=studying.EXAMPLE)(studying.study)
app.command("tune", epilog=tuning.EXAMPLE)(tuning.tune)


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


def _out_of_memory(error: MemoryError | RuntimeError) -> bool:
    # For torch it is a RuntimeError like any other; only its text tells.
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate" in str(error)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; bad input exits with 2, an interruption with 130, both with nothing half-written."""
    try:
        with interruptible():
            app(args=arguments, prog_name="alteraser")
    except AlteraserError as error:
        note(f"Error: {error}")
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        note("Error: There is not enough memory. Use a smaller --dim or less data, or a larger machine.")
        sys.exit(2)
    except Interrupted:
        note("Interrupted; nothing was left half-written.")
        sys.exit(130)
