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
    from alteraser.data.interactions import Interactions
    from alteraser.data.requests import Requests
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
    from alteraser.data.writing import check_free
    from alteraser.measure.compare import compare
    from alteraser.models.mf import MF
    from alteraser.models.objective import Objective
    from alteraser.train.als import ALS
    from alteraser.train.fit import fit
    from alteraser.unlearn.alteraser import AltEraser
    from alteraser.unlearn.retrain import Retrain

    check_free(out, force=force, marked_by=REPORT)
    rng = random_generator(seed)
    story = _story(rng)
    untrained = MF.sized_for(story.full, dim=DIM, objective=Objective(w0=0.1, l2=0.03), rng=rng)
    trainer = ALS(max_passes=300, tolerance=1e-6)
    # The first pass compiles the kernels; the clocks below must not count that.
    fit(untrained, story.full, trainer=ALS(max_passes=1))
    with progress("Training the original") as watch:
        began = time.perf_counter()
        original = fit(untrained, story.full, trainer=trainer, progress=watch)
        seconds = {"original": time.perf_counter() - began}
    with progress("Forgetting with AltEraser") as watch:
        unlearned = AltEraser().forget(original.model, story.full, story.requests, progress=watch)
    with progress("Retraining, to compare with") as watch:
        retrained = Retrain(rng, trainer).forget(original.model, story.full, story.requests, progress=watch)
    seconds |= {"unlearned": unlearned.cost.seconds, "retrained": retrained.cost.seconds}
    models = {"original": original.model, "unlearned": unlearned.model, "retrained": retrained.model}
    report = compare(
        models,
        remain=unlearned.remain,
        test=story.test,
        forget=story.full.only(unlearned.match.mask),
        reference="retrained",
    )
    user, lists = _example_lists(models, story, unlearned.remain)
    losses = {
        "unlearned": [unlearned.cost.loss_before, *unlearned.cost.losses],
        "retrained": list(retrained.cost.losses),
    }
    page = _page(report, story, user, lists, seconds, losses)
    _write(out, page, story, models, unlearned.remain, force=force)
    result = report.to_dict() | {
        "out": str(out),
        "seconds": seconds,
        "example": {
            "topic": story.topic_of_user[user],
            "lists": {x.name: [y.text for y in x.lines] for x in lists},
        },
    }

    def human(to: Console) -> None:
        _human(to, report, story, user, lists, seconds, out)

    show(result, as_json=json, human=human)


def _story(rng: Any) -> Story:
    """The embedded data, a fifth of it held out, with interactions of a foreign taste added for some users."""
    from dataclasses import replace

    import numpy as np
    import polars as pl

    from alteraser.data.datasets import embedded
    from alteraser.data.interactions import Side
    from alteraser.data.requests import Requests
    from alteraser.data.split import holdout
    from alteraser.data.synthetic import TOPICS, topic_of

    train, test = holdout(embedded().data, fraction=0.2, rng=rng)
    topics = np.array([TOPICS.index(topic_of(name)) for name in train.item_vocabulary.ids])
    by_user = train.by(Side.USERS)
    users, items, topic_of_user = [], [], {}
    for user in rng.choice(np.flatnonzero(by_user.counts >= 20), N_USERS, replace=False):
        own = by_user.columns[by_user.starts[user] : by_user.starts[user + 1]]
        shares = np.bincount(topics[own], minlength=len(TOPICS)) / len(own)
        topic = int(rng.choice(np.flatnonzero(shares <= np.sort(shares)[len(TOPICS) // 2])))
        foreign = np.setdiff1d(np.flatnonzero(topics == topic), own)
        foreign = rng.choice(foreign, min(len(own) // 2, len(foreign) // 2), replace=False)
        users += [int(user)] * len(foreign)
        items += foreign.tolist()
        topic_of_user[int(user)] = TOPICS[topic]
    added = pl.DataFrame({"user": users, "item": items}).cast(pl.Int32)
    when = train.events["time"].sample(len(added), seed=int(rng.integers(2**31)))
    full = replace(train, events=pl.concat([train.events, added.with_columns(when.alias("time"))]))
    requests = Requests.pairs(
        full.user_vocabulary.ids.gather(added["user"]), full.item_vocabulary.ids.gather(added["item"])
    )
    return Story(full, test, requests, topic_of_user)


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
    seconds: dict[str, float],
    losses: dict[str, list[float]],
) -> str:
    from alteraser.report import plots
    from alteraser.report.comparison import sections
    from alteraser.report.html import Section, page

    lowest = min(min(values) for values in losses.values())
    gaps = {}
    for name, values in losses.items():
        above = [(number, value - lowest) for number, value in enumerate(values) if value > lowest]
        gaps[name] = ([number for number, _ in above], [gap for _, gap in above])
    curve = plots.curves(
        "Loss above the lowest reached", gaps, x="passes over the data", y="loss gap", log=True
    )
    forgotten = len(story.requests)
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


def _write(
    out: Path, page: str, story: Story, models: dict[str, MF], remain: Interactions, *, force: bool
) -> None:
    from alteraser.data.files import write_interactions, written_reading
    from alteraser.data.writing import atomic_folder, write_frame
    from alteraser.models.checkpoint import Batch, StoredModel, save_model

    batch = Batch(story.requests.digest(secrets.token_bytes(32)), len(story.requests))
    with atomic_folder(out, marked_by=REPORT, force=force) as folder:
        (folder / REPORT).write_text(page, encoding="utf-8")
        write_interactions(story.full, folder / "full.parquet")
        write_interactions(story.test, folder / "test.parquet")
        write_frame(story.requests.frame.select("user", "item"), folder / "requests.csv")
        write_interactions(remain, folder / "remaining.parquet")
        for name, model in models.items():
            data = story.full if name == "original" else remain
            erased = () if data is story.full else (batch,)
            stored = StoredModel.of(model, data, reading=written_reading(data), erased=erased)
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
