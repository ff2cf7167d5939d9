"""`alteraser demo`: the whole story on the embedded data."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from alteraser.cli.options import Force, Json, Seed, example, random_generator
from alteraser.cli.output import print_table, progress, show

if TYPE_CHECKING:
    from numpy.random import Generator

    from alteraser.data.interactions import Interactions
    from alteraser.data.requests import Requests
    from alteraser.live.erasure import Erasure
    from alteraser.measure.compare import Report
    from alteraser.models.mf import MF
    from alteraser.report.html import Listing, Section

EXAMPLE = example("alteraser demo --out demo")
REPORT = "report.html"
N_USERS, DIM, LIST_LENGTH = 32, 32, 10


@dataclass(frozen=True)
class Story:
    """What was injected and which user shows it best."""

    full: Interactions
    test: Interactions
    requests: Requests
    topic_of_user: dict[int, str]


@dataclass(frozen=True)
class Cast:
    """The three models of the story, and how the first and the last were trained."""

    original: MF
    unlearned: Erasure[MF]
    retrained: Erasure[MF]
    original_seconds: float
    training: dict[str, Any] | None

    @property
    def models(self) -> dict[str, MF]:
        return {
            "original": self.original,
            "unlearned": self.unlearned.model,
            "retrained": self.retrained.model,
        }

    @property
    def seconds(self) -> dict[str, float]:
        return {
            "original": self.original_seconds,
            "unlearned": self.unlearned.cost.seconds,
            "retrained": self.retrained.cost.seconds,
        }


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
    from alteraser.measure.compare import compare

    make_ready(out, force=force, marked_by=REPORT)
    rng = random_generator(seed, "demo")
    story = _story(rng)
    cast = _play(story, rng)
    report = compare(
        cast.models,
        remain=cast.unlearned.remain,
        test=story.test,
        forget=cast.unlearned.change,
        reference="retrained",
    )
    user, lists = _example_lists(cast.models, story, cast.unlearned.remain)
    _write(out, _page(report, story, user, lists, cast), story, cast, force=force)
    example = {
        "topic": story.topic_of_user[user],
        "lists": {x.name: [y.text for y in x.lines] for x in lists},
    }
    result = report.to_dict() | {"out": str(out), "seconds": cast.seconds, "example": example}
    show(result, as_json=json, human=lambda to: _human(to, report, story, user, lists, cast.seconds, out))


def _story(rng: Generator) -> Story:
    """The embedded data, a fifth of it held out, with interactions of a foreign taste added for some users."""
    from alteraser.data.datasets import embedded
    from alteraser.data.demo_data import inject_foreign_taste
    from alteraser.data.split import holdout

    train, test = holdout(embedded().data, fraction=0.2, rng=rng)
    told = inject_foreign_taste(train, test, n_users=N_USERS, rng=rng)
    return Story(told.full, test, told.requests, told.topic_of_user)


def _play(story: Story, rng: Generator) -> Cast:
    """The original trained, made to forget, and trained anew, each with its time."""
    from alteraser.live.scopes import AllRows
    from alteraser.models.mf import MF
    from alteraser.models.objective import Objective
    from alteraser.train.als import ALS
    from alteraser.train.fit import fit
    from alteraser.train.named import recorded
    from alteraser.unlearn.alteraser import AltEraser
    from alteraser.unlearn.retrain import Retrain

    untrained = MF.sized_for(story.full, dim=DIM, objective=Objective(w0=0.1, l2=0.03), rng=rng)
    trainer = ALS(max_passes=300, tolerance=1e-6)
    # A first go compiles the kernels; the clocks below must not count that.
    AltEraser(AllRows(max_steps=1)).forget(untrained, story.full, story.requests)
    with progress("Training the original") as watch:
        began = time.perf_counter()
        original = fit(untrained, story.full, trainer=trainer, progress=watch).model
        seconds = time.perf_counter() - began
    with progress("Forgetting with AltEraser") as watch:
        unlearned = AltEraser().forget(original, story.full, story.requests, progress=watch)
    with progress("Retraining, to compare with") as watch:
        retrained = Retrain(rng, trainer).forget(original, story.full, story.requests, progress=watch)
    return Cast(original, unlearned, retrained, seconds, recorded(trainer))


def _example_lists(models: dict[str, MF], story: Story, remain: Interactions) -> tuple[int, list[Listing]]:
    """The user whose list of the original shows most of the foreign taste, and that user's lists."""
    import numpy as np

    from alteraser.data.interactions import Side
    from alteraser.data.synthetic import topic_of
    from alteraser.measure.ranking import top_k
    from alteraser.report.html import Line, Listing

    users = np.array(list(story.topic_of_user))
    names = story.full.item_vocabulary.ids.to_list()
    lists = {
        name: top_k(model, users, LIST_LENGTH, exclude=remain.by(Side.USERS))
        for name, model in models.items()
    }
    marked = {
        name: np.array(
            [
                [topic_of(names[i]) == topic for i in row]
                for topic, row in zip(story.topic_of_user.values(), rows, strict=True)
            ]
        )
        for name, rows in lists.items()
    }
    place = int(np.argmax(marked["original"].sum(1)))
    shown = [
        Listing(
            name, [Line(names[i], bool(m)) for i, m in zip(rows[place], marked[name][place], strict=True)]
        )
        for name, rows in lists.items()
    ]
    return int(users[place]), shown


def _page(
    report: Report,
    story: Story,
    user: int,
    lists: list[Listing],
    cast: Cast,
) -> str:
    from alteraser.report import plots
    from alteraser.report.comparison import sections
    from alteraser.report.html import Section, page

    curve = plots.curves(
        "Loss above the lowest reached", _gaps(cast), x="passes over the data", y="loss gap", log=True
    )
    forgotten, seconds = len(story.requests), cast.seconds
    lead = (
        f"{len(story.topic_of_user)} users asked to have {forgotten} interactions forgotten that were not theirs. "
        f"AltEraser took {seconds['unlearned']:.2f} s, retraining {seconds['retrained']:.2f} s."
    )
    example = Section(
        f"One user's list: someone else's {story.topic_of_user[user]}",
        text="The user's account was used for a taste that is not theirs (marked). The original recommends more of it; "
        "the unlearned model has forgotten why, and agrees with the model that never saw it.",
        lists=lists,
    )
    first, *rest = sections(report, seconds=seconds)
    side_by_side = Section(first.heading, plots=[*first.plots, curve], tables=first.tables)
    parts: list[Section] = [example, side_by_side, *rest]
    return page("What the model forgot", lead, parts)


def _gaps(cast: Cast) -> dict[str, tuple[list[int], list[float]]]:
    """By how much the loss after each pass lies above the lowest of all, where it does."""
    losses = {
        "unlearned": list(cast.unlearned.losses),
        "retrained": list(cast.retrained.losses[1:]),
    }
    lowest = min(min(values) for values in losses.values())
    gaps = {}
    for name, values in losses.items():
        above = [(number, value - lowest) for number, value in enumerate(values) if value > lowest]
        gaps[name] = ([number for number, _ in above], [gap for _, gap in above])
    return gaps


def _write(out: Path, page: str, story: Story, cast: Cast, *, force: bool) -> None:
    from alteraser.data.files import write_interactions
    from alteraser.data.writing import atomic_folder, write_frame
    from alteraser.models.checkpoint import Batch, StoredModel, save_model

    remain = cast.unlearned.remain
    batch = Batch(story.requests.digest(secrets.token_bytes(32)), len(story.requests))
    with atomic_folder(out, marked_by=REPORT, force=force) as folder:
        (folder / REPORT).write_text(page, encoding="utf-8")
        write_interactions(story.full, folder / "full.parquet")
        write_interactions(story.test, folder / "test.parquet")
        write_frame(story.requests.frame.select("user", "item"), folder / "requests.csv")
        write_interactions(remain, folder / "remaining.parquet")
        for name, model in cast.models.items():
            data = story.full if name == "original" else remain
            erased = () if data is story.full else (batch,)
            stored = StoredModel.of(model, data, erased=erased, training=cast.training)
            save_model(stored, folder / name)


def _human(
    to: Console,
    report: Report,
    story: Story,
    user: int,
    lists: list[Listing],
    seconds: dict[str, float],
    out: Path,
) -> None:
    from alteraser.report.tables import summary

    to.print(
        f"{len(story.topic_of_user)} users asked to forget {len(story.requests)} interactions that were not theirs.\n"
    )
    print_table(to, summary(report, seconds=seconds))
    to.print(
        f"\nOne of them had someone else's {story.topic_of_user[user]} on the account. The list, before and after:"
    )
    panels = []
    for each in lists:
        lines = [Text(line.text, style="bold red" if line.marked else "") for line in each.lines]
        panels.append(Panel(Text("\n").join(lines), title=each.name, width=40))
    to.print(Columns(panels))
    to.print(f"Report with plots: {out / REPORT}\n")
    to.print("The same by hand, with the files written there:")
    to.print(
        f"  alteraser forget {out / 'original'} {out / 'full.parquet'} --requests {out / 'requests.csv'} --out model2"
    )
