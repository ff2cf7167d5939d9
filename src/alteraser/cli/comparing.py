"""`alteraser compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from alteraser.cli.options import DataOptions, Force, Json, MissingOption, RequestFile, reads_data
from alteraser.cli.output import note, print_table, show

if TYPE_CHECKING:
    from alteraser.data.interactions import Interactions
    from alteraser.measure.compare import Report
    from alteraser.models.checkpoint import StoredModel

EXAMPLE = (
    "Example: alteraser compare --data ratings.parquet --requests requests.csv --model original=model "
    "--model unlearned=model2 --model retrained=model3 --reference retrained --test test.parquet"
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
        typer.Option(metavar="FILE", help="Interactions to judge accuracy by.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with plots.", show_default=False)
    ] = None,
    missing: MissingOption = "error",
    force: Force = False,
    json: Json = False,
) -> None:
    """Put models side by side: what they remember of the forgotten, how they agree, how accurate they are."""
    from alteraser.data.files import check_free
    from alteraser.data.request_files import read_requests
    from alteraser.measure.compare import compare as compared

    if html is not None:
        check_free(html, force=force)
    stored = _load(model)
    reading = next(iter(stored.values())).reading
    full = options.open(data, reading)
    match = read_requests(requests).match(full, missing=missing)
    report = compared(
        {name: each.on(full) for name, each in stored.items()},
        remain=full.without(match.mask),
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
            raise SettingError(f"Two models are called {name!r}; each needs a name of its own.")
        stored[name] = load_model(path)
    return stored


def _test(full: Interactions, test: str, options: DataOptions, reading: Any) -> Interactions:
    known, n_unknown = options.open(test, reading).known_to(full.user_vocabulary, full.item_vocabulary)
    if n_unknown:
        note(
            f"{n_unknown} test interactions name users or items that are not in the data; they are left out."
        )
    return known


def _write_page(report: Report, path: Path, *, force: bool) -> None:
    from alteraser.data.files import atomic_file
    from alteraser.report.comparison import sections
    from alteraser.report.html import page

    lead = f"{len(report.values)} models, judged for {sum(report.n_users.values())} users."
    with atomic_file(path, force=force) as waiting:
        waiting.write_text(page("Models side by side", lead, sections(report)), encoding="utf-8")


def _human(to: Console, report: Report) -> None:
    from alteraser.report.tables import details, summary

    print_table(to, summary(report))
    for group in report.n_users:
        print_table(to, details(report, group))
