"""The command `alteraser`: it parses, calls and answers. Heavy imports wait until a command runs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from alteraser.cli import (
    compacting,
    comparing,
    data,
    demo,
    evaluating,
    forgetting,
    recommending,
    training,
    tuning,
    verifying,
    warming,
)
from alteraser.cli.asking import AskingCommand
from alteraser.cli.moved import add_moved
from alteraser.cli.options import example
from alteraser.cli.running import PLAIN, run

app = typer.Typer(
    help="Train a recommender, make it forget chosen interactions, and see what that changed.",
    epilog=example("alteraser demo", "alteraser train --help"),
    **PLAIN,
)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.add_typer(data.app, name="data")
app.command("train", epilog=training.EXAMPLE)(training.train)
app.command("evaluate", epilog=evaluating.EXAMPLE)(evaluating.evaluate)
app.command("tune", epilog=tuning.EXAMPLE)(tuning.tune)
app.command("forget", cls=AskingCommand, epilog=forgetting.EXAMPLE)(forgetting.forget)
app.command("verify", cls=AskingCommand, epilog=verifying.EXAMPLE)(verifying.verify)
app.command("compact", epilog=compacting.EXAMPLE)(compacting.compact)
app.command("recommend", epilog=recommending.RECOMMEND_EXAMPLE)(recommending.recommend)
app.command("similar", epilog=recommending.SIMILAR_EXAMPLE)(recommending.similar)
app.command("compare", epilog=comparing.EXAMPLE)(comparing.compare)
app.command("warm-up", epilog=warming.EXAMPLE)(warming.warm_up)
add_moved(app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(version("alteraser"))
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say more, on standard error; also behind a command.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Say nothing but results, warnings and errors.")
    ] = False,
) -> None:
    del show_version, verbose, quiet  # `run` has taken the last two out already: they are here for the help


def main(arguments: list[str] | None = None) -> None:
    """Run the command `alteraser`."""
    run(app, arguments, prog_name="alteraser")
