"""`alteraser compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from alteraser.cli.options import (
    DataOptions,
    Force,
    Json,
    MissingOption,
    RequestFile,
    example,
    reads_data,
)
from alteraser.cli.output import note, print_table, show

if TYPE_CHECKING:
    from alteraser.data.interactions import Interactions
    from alteraser.data.reading import Reading
    from alteraser.measure.compare import Report
    from alteraser.models.checkpoint import StoredModel

EXAMPLE = example(
    "alteraser compare --data ratings.parquet --requests requests.csv \\",
    "  --model original=model --model unlearned=model2 --model retrained=model3 \\",
    "  --reference retrained --test test.parquet --html report.html",
)


@reads_data
def compare(
    data: Annotated[
        str,
        typer.Option(
            metavar="DATA", help="The full data, before anything was forgotten.", show_default=False
        ),
    ],
    requests: RequestFile,
    model: Annotated[
        list[str],
        typer.Option(metavar="NAME=PATH", help="A model and a name for it; repeat.", show_default=False),
    ],
    options: DataOptions,
    reference: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model the others should agree with.", show_default=False),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Held-out interactions to judge accuracy by.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page with plots, which needs no other file.",
            show_default=False,
        ),
    ] = None,
    missing: MissingOption = "error",
    force: Force = False,
    json: Json = False,
) -> None:
    """Put models side by side: what they remember of the forgotten, how they agree, how accurate they are.

    The data is read as it was when the models were trained, unless options say otherwise.
    """
    from alteraser.data.request_files import read_requests
    from alteraser.data.writing import check_free
    from alteraser.measure.compare import compare as compared

    if html is not None:
        check_free(html, force=force)
    stored = _load(model)
    # A model that forgot may remember how its remaining data is read; the oldest knows the full data.
    reading = min(stored.values(), key=lambda each: len(each.erased)).reading
    full = options.open(data, reading)
    for name, each in stored.items():
        _check_belongs(name, each, full)
    match = read_requests(requests).match(full, missing=missing)
    report = compared(
        {name: each.on(full) for name, each in stored.items()},
        remain=full.without(match.mask).with_tombstones(full),
        test=None if test is None else _test(full, test, options, reading),
        forget=full.only(match.mask) if match.mask.any() else None,
        reference=reference,
    )
    if html is not None:
        _write_page(report, html, force=force)
    show(report.to_dict(), as_json=json, human=lambda to: _human(to, report))


def _load(named: list[str]) -> dict[str, StoredModel]:
    from alteraser.errors import SettingError
    from alteraser.models.checkpoint import load_model

    stored: dict[str, StoredModel] = {}
    for each in named:
        name, equals, path = each.partition("=")
        if not (name and equals and path):
            raise SettingError(f"--model {each!r} came; NAME=PATH is wanted, as in --model original=model.")
        if name in stored:
            raise SettingError(f"Two models are called {name!r}; a name of its own is wanted for each.")
        stored[name] = load_model(path)
    return stored


def _check_belongs(name: str, stored: StoredModel, full: Interactions) -> None:
    """A model may know fewer users and items than the full data (it forgot some), but no others."""
    from alteraser.errors import MismatchError

    n_foreign = sum(
        int((whole.rows(own.ids.drop_nulls()) < 0).sum())
        for own, whole in (
            (stored.user_vocabulary, full.user_vocabulary),
            (stored.item_vocabulary, full.item_vocabulary),
        )
    )
    if n_foreign:
        raise MismatchError(
            f"The model {name} knows {n_foreign} users and items that are not in the data. Give with --data the "
            f"full data that the models were trained on, before anything was forgotten."
        )


def _test(full: Interactions, test: str, options: DataOptions, reading: Reading) -> Interactions:
    from alteraser.errors import MismatchError

    # A test part is small: what was a core of the whole would be cut to pieces.
    read = options.open(test, reading.with_options({"min_interactions": None}))
    known, n_unknown = read.known_to(full.user_vocabulary, full.item_vocabulary)
    if len(known) == 0:
        raise MismatchError(
            f"None of the {n_unknown} test interactions has a user and an item of the data. Give the test part of "
            f"the same data."
        )
    if n_unknown:
        note(
            f"{n_unknown} test interactions name users or items that are not in the data; they are left out."
        )
    return known


def _write_page(report: Report, path: Path, *, force: bool) -> None:
    from alteraser.data.writing import atomic_file
    from alteraser.report.comparison import sections
    from alteraser.report.html import page

    lead = f"Models: {', '.join(report.values)}. Users judged: {sum(report.n_users.values())}."
    with atomic_file(path, force=force) as waiting:
        waiting.write_text(page("Models side by side", lead, sections(report)), encoding="utf-8")


def _human(to: Console, report: Report) -> None:
    from alteraser.report.tables import details, summary

    print_table(to, summary(report))
    for group in report.n_users:
        print_table(to, details(report, group))
