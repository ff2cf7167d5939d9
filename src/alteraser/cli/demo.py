"""`alteraser demo`: train, forget and compare on the embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from alteraser.cli.options import Force, Json, Seed, example, random_generator
from alteraser.cli.output import print_table, progress, show

if TYPE_CHECKING:
    from alteraser.report.demo import Demo

EXAMPLE = example("alteraser demo --out demo")
REPORT = "report.html"


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")] = Path("alteraser-demo"),
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train on the embedded data with false interactions in it, forget them, and compare with retraining.

    Some users' accounts were used by someone else with another taste. The model learned that; they ask to have it
    forgotten. The folder holds the report (report.html), and the data, requests and models to try the other
    commands on.
    """
    from alteraser.data.writing import make_ready
    from alteraser.report.demo import run_demo

    make_ready(out, force=force, marked_by=REPORT)
    told = run_demo(random_generator(seed, "demo"), watch=progress)
    _write(told, out, force=force)
    lists = {each.name: [line.text for line in each.lines] for each in told.lists}
    shown = {"out": str(out), "seconds": told.seconds, "example": {"topic": told.topic, "lists": lists}}
    show(told.report.to_dict() | shown, as_json=json, human=lambda to: _human(to, told, out))


def _write(told: Demo, out: Path, *, force: bool) -> None:
    from alteraser.data.files import write_interactions
    from alteraser.data.writing import atomic_folder, write_frame
    from alteraser.report.demo import TRAINER
    from alteraser.versions.version import Version

    story = told.story
    original = Version.of(told.original, story.full, trainer=TRAINER)
    with atomic_folder(out, marked_by=REPORT, force=force) as folder:
        (folder / REPORT).write_text(told.page(), encoding="utf-8")
        write_interactions(story.full, folder / "full.parquet")
        write_interactions(story.test, folder / "test.parquet")
        write_frame(story.requests.frame.select("user", "item"), folder / "requests.csv")
        write_interactions(told.remain, folder / "remaining.parquet")
        original.save(folder / "original")
        for name, erasure in told.erasures.items():
            original.after(erasure, story.requests, unlearner=told.unlearners[name]).save(folder / name)


def _human(to: Console, told: Demo, out: Path) -> None:
    from alteraser.report.tables import summary

    story = told.story
    to.print(
        f"{len(story.topic_of_user)} users asked to forget {len(story.requests)} interactions that were not theirs.\n"
    )
    print_table(to, summary(told.report, seconds=told.seconds))
    to.print(f"\nOne of them had someone else's {told.topic} on the account. The list, before and after:")
    panels = []
    for each in told.lists:
        lines = [Text(line.text, style="bold red" if line.marked else "") for line in each.lines]
        panels.append(Panel(Text("\n").join(lines), title=each.name, width=40))
    to.print(Columns(panels))
    to.print(f"Report with plots: {out / REPORT}\n")
    to.print("The same by hand, with the files written there:")
    to.print(
        f"  alteraser forget {out / 'original'} {out / 'full.parquet'} --requests {out / 'requests.csv'} "
        f"--scope all --out model2"
    )
