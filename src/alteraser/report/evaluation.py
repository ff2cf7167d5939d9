"""An `Evaluation` as a table and as sections of a page."""

from __future__ import annotations

from alteraser.measure.evaluation import MODEL, Evaluation
from alteraser.report import plots
from alteraser.report.html import Section, page
from alteraser.report.tables import NAMES, Table

MEASURES = ("ndcg", "recall", "hit_rate", "mrr", "coverage")


def table(evaluation: Evaluation) -> Table:
    """Every measure at every k, the model beside the baselines."""
    names = tuple(evaluation.values)
    rows = tuple(
        (f"{NAMES[measure]}@{k}", *(f"{evaluation.values[name][measure][k]:.4f}" for name in names))
        for measure in MEASURES
        for k in evaluation.ks
    )
    return Table(means_over(evaluation), ("", *names), rows)


def means_over(evaluation: Evaluation) -> str:
    """Over whom the figures are means."""
    n, of = evaluation.n_judged, evaluation.n_users
    who = ("1 user" if n == 1 else f"{n:,} users") if n == of else f"{n:,} of {of:,} users, drawn at random"
    return f"Means over {who}"


def verdict(evaluation: Evaluation) -> str:
    """One sentence: how the model stands to the baselines by the first NDCG."""
    k = evaluation.ks[0]
    ndcg = {name: measures["ndcg"][k] for name, measures in evaluation.values.items()}
    own = ndcg.pop(MODEL)
    parts = [f"{own / other:.2f} times {name}" if other > 0 else f"{name} 0" for name, other in ndcg.items()]
    text = f"NDCG@{k} {own:.4f}: " + ", ".join(parts) + "." if parts else f"NDCG@{k} {own:.4f}."
    better = [name for name, other in ndcg.items() if other >= own]
    if better:
        text += f" The model does not beat {' and '.join(better)}: look for better settings with `alteraser tune`."
    return text


def evaluation_page(evaluation: Evaluation, about: str) -> str:
    """The evaluation as one page of HTML, which opens with what it is about."""
    lead = f"{about} {means_over(evaluation)}. {verdict(evaluation)}"
    return page("How good are the lists?", lead, sections(evaluation))


def sections(evaluation: Evaluation) -> list[Section]:
    """The first of each measure drawn, then all figures."""
    k = evaluation.ks[0]
    drawn = [
        plots.bars(
            f"{NAMES[measure]}@{k}", {name: each[measure][k] for name, each in evaluation.values.items()}
        )
        for measure in MEASURES
    ]
    text = (
        "NDCG, recall, hit rate and MRR say how far up in a user's list the held-out items stand; coverage says how "
        "many of all items are shown to anybody. More is better. Most popular shows everyone the same; item kNN shows "
        "what resembles the user's items. A model worth its training beats both in the first four."
    )
    return [
        Section("Beside the baselines", text=text, plots=drawn),
        Section("All figures", tables=[table(evaluation)]),
    ]
