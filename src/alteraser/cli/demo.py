"""`alteraser demo`: train, forget and compare on embedded data."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from alteraser.cli.options import Force, Json, Seed, example, random_generator
from alteraser.cli.output import print_table, progress, show

if TYPE_CHECKING:
    from alteraser.report.demo import AccountErasure, Demo

EXAMPLE = example("alteraser demo --out demo")
REPORT = "report.html"
_WIDTH = 48  # of the bar that stands for retraining


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")] = Path("alteraser-demo"),
    dataset: Annotated[
        Literal["hobbies", "synthetic"],
        typer.Option(
            help="The embedded data: hobbies has 40,000 users; synthetic, with 1,500, takes seconds."
        ),
    ] = "hobbies",
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train on embedded data, forget, and compare with retraining: in seconds and in lists.

    First one account is forgotten in a live model. Then some users, whose accounts were used by someone else with
    another taste, have that forgotten. The folder holds the report (report.html), and the data, requests and models to
    try the other commands on.
    """
    from alteraser.data.writing import make_ready
    from alteraser.report.demo import run_demo

    make_ready(out, force=force, marked_by=REPORT)
    result = run_demo(random_generator(seed, "demo"), dataset=dataset, stage=progress)
    _write(result, out, force=force)
    lists = {each.name: [line.text for line in each.lines] for each in result.lists}
    shown = {
        "out": str(out),
        "account": result.account.to_dict(),
        "training_seconds": result.training_seconds,
        "seconds": result.seconds,
        "example": {"topic": result.topic, "lists": lists},
    }
    show(result.report.to_dict() | shown, as_json=json, human=lambda to: _human(to, result, out))


def _write(result: Demo, out: Path, *, force: bool) -> None:
    from alteraser.data.files import write_interactions
    from alteraser.data.writing import atomic_folder, write_frame
    from alteraser.report.demo import TRAINER
    from alteraser.report.demo_page import demo_page
    from alteraser.versions.version import Version

    data, date = result.data, datetime.now(UTC)
    original = Version.of(result.original, data.full, trainer=TRAINER)
    versions = {"original": original} | {
        name: original.after(erasure, data.requests, unlearner=result.unlearners[name], date=date)
        for name, erasure in result.erasures.items()
    }
    of_models = {name: version.provenance() for name, version in versions.items()}
    with atomic_folder(out, marked_by=REPORT, force=force) as folder:
        (folder / REPORT).write_text(
            demo_page(result, of_models, f"{date:%Y-%m-%d %H:%M} UTC"), encoding="utf-8"
        )
        write_interactions(data.full, folder / "full.parquet")
        write_interactions(data.test, folder / "test.parquet")
        write_frame(data.requests.frame.select("user", "item"), folder / "requests.csv")
        write_interactions(result.remain, folder / "remaining.parquet")
        for name, version in versions.items():
            version.save(folder / name)


def _human(to: Console, result: Demo, out: Path) -> None:
    from alteraser.report.tables import summary

    _print_account(to, result.account)
    n_users, seconds = len(result.data.topic_of_user), result.seconds
    to.print(
        f"\n{n_users} users asked to forget {len(result.data.requests)} interactions that were not theirs: a live "
        f"model took {seconds['unlearned']:.3f} s for all of them, retraining {seconds['retrained']:.3f} s."
    )
    print_table(to, summary(result.report, seconds=seconds))
    to.print(f"\nOne of them had someone else's {result.topic} on the account. The list, before and after:")
    panels = []
    for each in result.lists:
        lines = [Text(line.text, style="bold red" if line.marked else "") for line in each.lines]
        panels.append(Panel(Text("\n").join(lines), title=each.name, width=44))
    to.print(Columns(panels))
    to.print(f"Report with plots: {out / REPORT}\n")
    to.print("The same by hand, with the files written there:")
    to.print(
        f"  alteraser forget {out / 'original'} {out / 'full.parquet'} --requests {out / 'requests.csv'} --out model2"
    )


def _print_account(to: Console, account: AccountErasure) -> None:
    from alteraser.report.tables import times

    bar = max(1, round(_WIDTH * account.seconds / account.retraining_seconds))
    lines = [
        Text(f"forgotten in a live model {account.seconds:>9.3f} s  ") + Text("█" * bar, style="green"),
        Text(f"retrained without it      {account.retraining_seconds:>9.3f} s  ")
        + Text("█" * _WIDTH, style="red"),
        Text(""),
        Text(
            f"one account: {account.seconds:.3f} s, retraining: {account.retraining_seconds:.3f} s: "
            f"{times(account.times_faster)}",
            style="bold",
        ),
    ]
    title = f"One account of {account.n_interactions} interactions"
    to.print(Panel(Text("\n").join(lines), title=title, width=96, padding=(1, 2)))
    to.print(
        f"The median of {account.n_accounts} accounts. Both with compiled kernels; the live model was opened once, in "
        f"{account.opening_seconds:.3f} s. It visited {account.rows_visited:,} of {account.n_rows:,} rows.\n"
        f"Lists of {account.n_others:,} other users agree with the retrained model's by RBO@10 "
        f"{account.rbo['unlearned']:.4f} (1 is the same).\n"
        f"Mean score of what the account had: {account.re_predict['original']:.4f} before, "
        f"{account.re_predict['unlearned']:.4f} after, {account.re_predict['retrained']:.4f} retrained."
    )
