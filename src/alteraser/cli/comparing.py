"""`alteraser compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from alteraser.data.read_options import ReadOptions
    from alteraser.data.requests import Requests
    from alteraser.measure.compare import Report
    from alteraser.versions.version import Version

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
    from alteraser.data.writing import make_ready
    from alteraser.measure.compare import compare as compared

    if html is not None:
        make_ready(html, force=force)
    stored = _load(model)
    asked = read_requests(requests)
    full = _full(stored, data, asked, options)
    for name, each in stored.items():
        _check_ids(name, each, full)
    match = asked.match(full, missing=missing)
    remain = full.without(match.mask)
    _check_digests(stored, full, remain)
    report = compared(
        {name: each.on(full) for name, each in stored.items()},
        remain=remain.with_tombstones(full),
        test=None if test is None else _test(full, test, _oldest(stored).read_options, options),
        forget=full.only(match.mask) if match.mask.any() else None,
        reference=reference,
    )
    if html is not None:
        _write_page(report, html, force=force)
    show(report.to_dict(), as_json=json, human=lambda to: _human(to, report))


def _load(named: list[str]) -> dict[str, Version]:
    from alteraser.errors import SettingError
    from alteraser.versions.version import load_version

    stored: dict[str, Version] = {}
    for each in named:
        name, equals, path = each.partition("=")
        if not (name and equals and path):
            raise SettingError(f"--model {each!r} came; NAME=PATH is wanted, as in --model original=model.")
        if name in stored:
            raise SettingError(f"Two models are called {name!r}; a name of its own is wanted for each.")
        stored[name] = load_version(path)
    return stored


def _oldest(stored: dict[str, Version]) -> Version:
    """A model that forgot may remember how its remaining data is read; the oldest knows the full data."""
    return min(stored.values(), key=lambda each: len(each.history))


def _full(stored: dict[str, Version], data: str, asked: Requests, options: DataOptions) -> Interactions:
    """The full data, read as the oldest model's was.

    In a chain of forgettings from a core the data has shrunk since the core was cut, and would now be cut to less:
    there the ids that the oldest model knows are the core.
    """
    oldest = _oldest(stored)
    read_options = options.read_options(data, oldest.read_options)
    full = options.read(data, read_options)
    if (
        oldest.read_options.min_interactions is None
        or not oldest.history
        or _some_belong(stored, full, asked)
    ):
        return full
    store = options.read(data, read_options.with_options({"min_interactions": None}))
    known, _ = store.known_to(oldest.user_vocabulary, oldest.item_vocabulary)
    return known if _some_belong(stored, known, asked) else full


def _some_belong(stored: dict[str, Version], full: Interactions, asked: Requests) -> bool:
    remain = full.without(asked.match(full, missing="ignore").mask)
    return not {each.data_digest for each in stored.values()}.isdisjoint({full.digest(), remain.digest()})


def _check_digests(stored: dict[str, Version], full: Interactions, remain: Interactions) -> None:
    """Raises if no model was trained on the data or on what remains; of one further down a chain there is a note."""
    from alteraser.errors import MismatchError

    digests = (full.digest(), remain.digest())
    strangers = [name for name, each in stored.items() if each.data_digest not in digests]
    if len(strangers) == len(stored):
        raise MismatchError(
            "None of the models was trained on this data, nor on what remains of it after these requests (their "
            "digests differ). Give with --data the full data, read with the same options, and the requests that were "
            "forgotten from it."
        )
    for name in strangers:
        note(
            f"The model {name} was trained neither on this data nor on what remains of it after these requests, "
            f"perhaps because it forgot more; its figures do not wholly compare with the others'."
        )


def _check_ids(name: str, stored: Version, full: Interactions) -> None:
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


def _test(full: Interactions, test: str, read_options: ReadOptions, options: DataOptions) -> Interactions:
    from alteraser.errors import MismatchError

    # Only who has what counts. A test part is small: what was a core of the whole would be cut to pieces.
    unused: dict[str, Any] = {"weight": None, "time": None, "merge": "max", "min_interactions": None}
    read = options.read(test, options.read_options(test, read_options).with_options(unused))
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
