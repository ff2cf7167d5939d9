"""The demo: a model of data with false interactions in it forgets them, beside a model that never saw them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from alteraser.data.demo_data import ForeignTaste, foreign_taste
from alteraser.data.interactions import Interactions, Side
from alteraser.data.synthetic import topic_of
from alteraser.live.erasure import Erasure
from alteraser.measure.compare import Report, compare
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.report import plots
from alteraser.report.comparison import sections
from alteraser.report.html import Line, Listing, Section, page
from alteraser.sweep.sweep import Progress
from alteraser.train.als import ALS
from alteraser.train.fit import fit
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from alteraser.unlearn.retrain import Retrain

DIM, LIST_LENGTH = 32, 10
TRAINER = ALS(max_passes=300, tolerance=1e-6)
ERASER = AltEraser("all")  # many users at once: comes closer to retraining than the affected rows alone
Watch = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True, eq=False, repr=False)
class Demo:
    """The story, the models it tells of and how they compare.

    `erasures` and `unlearners` are by name, "unlearned" and "retrained". `topic` is the foreign one of the user whose
    `lists` show it best.
    """

    story: ForeignTaste
    original: MF
    erasures: dict[str, Erasure[MF]]
    unlearners: dict[str, Unlearner]
    seconds: dict[str, float]
    report: Report
    topic: str
    lists: list[Listing]

    @property
    def remain(self) -> Interactions:
        return self.erasures["unlearned"].remain

    def page(self) -> str:
        """The report as one page of HTML."""
        curve = plots.curves(
            "Loss above the lowest reached",
            self._gaps(),
            x="steps of all rows, or passes",
            y="loss gap",
            log=True,
        )
        lead = (
            f"{len(self.story.topic_of_user)} users asked to have {len(self.story.requests)} interactions forgotten "
            f"that were not theirs. AltEraser took {self.seconds['unlearned']:.2f} s, retraining "
            f"{self.seconds['retrained']:.2f} s."
        )
        example = Section(
            f"One user's list: someone else's {self.topic}",
            text="The user's account was used for a taste that is not theirs (marked). The original recommends more of "
            "it; the unlearned model has forgotten why, and agrees with the model that never saw it.",
            lists=self.lists,
        )
        first, *rest = sections(self.report, seconds=self.seconds)
        side_by_side = Section(first.heading, plots=[*first.plots, curve], tables=first.tables)
        return page("What the model forgot", lead, [example, side_by_side, *rest])

    def _gaps(self) -> dict[str, tuple[list[int], list[float]]]:
        """By how much the loss after each pass lies above the lowest of all, where it does."""
        losses = {
            "unlearned": self.erasures["unlearned"].losses,
            "retrained": self.erasures["retrained"].losses[1:],
        }
        lowest = min(min(values) for values in losses.values())
        gaps = {}
        for name, values in losses.items():
            above = [(number, value - lowest) for number, value in enumerate(values) if value > lowest]
            gaps[name] = ([number for number, _ in above], [gap for _, gap in above])
        return gaps


def _unwatched(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def run_demo(rng: np.random.Generator, *, watch: Watch = _unwatched) -> Demo:
    """Train on the embedded data with false interactions in it, forget them, retrain, and compare.

    `watch` gets the name of what is being done and gives what is told of its progress.
    """
    story = foreign_taste(rng)
    untrained = MF.sized_for(story.full, dim=DIM, objective=Objective(w0=0.1, l2=0.03), rng=rng)
    # A first go compiles the kernels; the clocks below must not count that.
    hasty = fit(untrained, story.full, trainer=replace(TRAINER, max_passes=8)).model
    ERASER.forget(hasty, story.full, story.requests)
    with watch("Training the original") as progress:
        began = time.perf_counter()
        original = fit(untrained, story.full, trainer=TRAINER, progress=progress).model
        seconds = time.perf_counter() - began
    unlearners: dict[str, Unlearner] = {"unlearned": ERASER, "retrained": Retrain(rng, TRAINER)}
    labels = {"unlearned": "Forgetting with AltEraser", "retrained": "Retraining, to compare with"}
    erasures = {}
    for name, unlearner in unlearners.items():
        with watch(labels[name]) as progress:
            erasures[name] = unlearner.forget(original, story.full, story.requests, progress=progress)
    remain, models = erasures["unlearned"].remain, {"original": original}
    models |= {name: erasure.model for name, erasure in erasures.items()}
    forget = erasures["unlearned"].change
    user, lists = _example_lists(models, story, remain)
    return Demo(
        story=story,
        original=original,
        erasures=erasures,
        unlearners=unlearners,
        seconds={"original": seconds} | {name: each.cost.seconds for name, each in erasures.items()},
        report=compare(models, remain=remain, test=story.test, forget=forget, reference="retrained"),
        topic=story.topic_of_user[user],
        lists=lists,
    )


def _example_lists(
    models: dict[str, MF], story: ForeignTaste, remain: Interactions
) -> tuple[int, list[Listing]]:
    """The user whose list of the original shows most of the foreign taste, and that user's lists."""
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
