"""`alteraser compare`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from alteraser.cli.options import (
    DataOptions,
    Force,
    Json,
    MissingOption,
    example,
    reads_data,
)
from alteraser.cli.output import counted, note, print_table, show, write_page

if TYPE_CHECKING:
    from alteraser.data.interactions import Interactions
    from alteraser.measure.compare import Report
    from alteraser.versions.comparison import Comparison
    from alteraser.versions.version import Version

EXAMPLE = example(
    "alteraser compare --data ratings.parquet --requests requests.csv \\",
    "  --model original=model --model unlearned=model2 --model retrained=model3 \\",
    "  --reference retrained --test test.parquet --html report.html",
    "alteraser compare --data ratings.parquet --test test.parquet \\",
    "  --model small=model-16 --model large=model-64",
)


@reads_data
def compare(
    data: Annotated[
        str,
        typer.Option(
            metavar="DATA", help="The full data, before anything was forgotten.", show_default=False
        ),
    ],
    model: Annotated[
        list[str],
        typer.Option(metavar="NAME=PATH", help="A model and a name for it; repeat.", show_default=False),
    ],
    options: DataOptions,
    requests: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What was forgotten: CSV, Parquet or JSON-lines. Without it, accuracy and agreement alone are shown.",
            show_default=False,
        ),
    ] = None,
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

    Without requests they are models of the same data, of which nothing was forgotten. The data is read as it was when
    the models were trained, unless options say otherwise.
    """
    from alteraser.data.request_files import read_requests
    from alteraser.data.writing import make_ready
    from alteraser.versions.comparison import compare_versions, oldest, read_full

    if html is not None:
        make_ready(html, force=force)
    versions = _load(model)
    asked = None if requests is None else read_requests(requests)
    usual = oldest(versions).read_options
    full = read_full(
        versions,
        data,
        asked,
        data_dir=options.data_dir,
        read_options=options.read_options(data, usual),
    )
    held_out = None if test is None else options.open_test(test, usual)
    compared = compare_versions(versions, full, asked, test=held_out, reference=reference, missing=missing)
    elsewhere = "on other data"
    if asked is not None:
        elsewhere = "neither on this data nor on what remains of it after these requests"
    for name in compared.strangers:
        note(
            f"The model {name} was trained {elsewhere}, perhaps because it forgot more; "
            f"its figures do not wholly compare with the others'."
        )
    if compared.n_unknown:
        note(
            f"{counted(compared.n_unknown, 'test interaction')} with a user or an item not in the data: left out."
        )
    report = compared.report
    if html is not None:
        write_page(_page(compared, versions, full), html, force=force)
    show(report.to_dict(), as_json=json, human=lambda to: _human(to, report))


def _load(named: list[str]) -> dict[str, Version]:
    from alteraser.errors import SettingError
    from alteraser.versions.version import load_version

    versions: dict[str, Version] = {}
    for each in named:
        name, equals, path = each.partition("=")
        if not (name and equals and path):
            raise SettingError(f"--model {each!r} came; NAME=PATH is wanted, as in --model original=model.")
        if name in versions:
            raise SettingError(f"Two models are called {name!r}; a name of its own is wanted for each.")
        versions[name] = load_version(path)
    return versions


def _page(compared: Comparison, versions: dict[str, Version], full: Interactions) -> str:
    from alteraser.report.comparison import comparison_page

    return comparison_page(
        compared.report,
        compared.models,
        full=full,
        remain=compared.remain,
        forget=compared.forget,
        of_models={name: version.provenance() for name, version in versions.items()},
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _human(to: Console, report: Report) -> None:
    from alteraser.report.tables import details, summary

    print_table(to, summary(report))
    for group in report.n_users:
        print_table(to, details(report, group))
