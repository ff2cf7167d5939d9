"""`alteraser verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from alteraser.cli.asking import RequestOptions, asks
from alteraser.cli.options import Json, ModelPath, example
from alteraser.cli.output import counted, show

if TYPE_CHECKING:
    from alteraser.versions.history import Honoured
    from alteraser.versions.version import Version

EXAMPLE = example(
    "alteraser verify model2 --user 42 --key-file erasure.key",
    "alteraser verify model2 --requests requests.csv --key-file erasure.key",
)


@asks
def verify(
    model: ModelPath,
    asked: RequestOptions,
    key_file: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The key that forget was given as --key-file.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Say which requests were honoured on the way to a model, by the key they were forgotten with.

    Ends with exit code 0 if all were honoured and with 1 if some were not; those are named by their lines. A request
    is found if it is written as it was then, typed or in any file and order: a user alone is another request than all
    items of that user. Found is what is in the model's own history: whoever can write the folder and has the key could
    have written that, too.
    """
    from alteraser.versions.history import read_key
    from alteraser.versions.version import load_version

    key = read_key(key_file)
    version = load_version(model)
    honoured = version.honours(asked.read(), key)
    result = _result(version, honoured)
    show(result, as_json=json, human=lambda to: _human(to, result, honoured))
    raise typer.Exit(0 if honoured.all else 1)


def _result(version: Version, honoured: Honoured) -> dict[str, Any]:
    return {
        "requests": honoured.n_distinct,
        "honoured": honoured.n_honoured,
        "lines_not_honoured": honoured.lines_not_honoured,
        "not_honoured": honoured.places_not_honoured,
        "batches": [
            {"number": number + 1, "date": batch.date, "method": batch.method, "requests": batch.count}
            for number, batch in enumerate(version.history)
            if number in honoured.batches
        ],
        "batches_in_history": len(version.history),
        "batches_known_only_whole": honoured.n_unsure,
    }


def _human(to: Console, result: dict[str, Any], honoured: Honoured) -> None:
    asked, found = result["requests"], result["honoured"]
    to.print(
        f"{found} of {counted(asked, 'request')} {'was' if found == 1 else 'were'} honoured by this version"
    )
    for batch in result["batches"]:
        made = (
            f"on {batch['date']} with {batch['method']}" if batch["date"] else "at a date that was not kept"
        )
        to.print(f"  in batch {batch['number']} of {result['batches_in_history']}, forgotten {made}")
    if honoured.all:
        return
    for source, lines in honoured.places_not_honoured.items():
        word = "number" if source.startswith("--") else "line"
        to.print(
            f"Not honoured, or not under this key: {source} {word}{'s' * (len(lines) > 1)} {_ranges(lines)}"
        )
    if n_unsure := result["batches_known_only_whole"]:
        to.print(
            f"{counted(n_unsure, 'batch')} written by a release that kept no digest of each request: such a batch is "
            f"recognised only by a file of exactly its requests, if all of them were honoured"
        )


def _ranges(lines: list[int]) -> str:
    """Numbers in ascending order, those that follow one another drawn together: 2-4, 7."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][-1] + 1:
            runs[-1][1:] = [line]
        else:
            runs.append([line])
    return ", ".join("-".join(map(str, run)) for run in runs)
