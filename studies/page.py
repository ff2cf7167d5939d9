"""docs/results.md and the pages beside it from the result files; figures are never typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from alteraser.errors import DataError
from evidence.page import NO, SAYS_NOTHING, UNKNOWN, YES, Page, measured_at
from evidence.store import Result, Store
from studies import defaults_page, endings, headline
from studies.figures import FIGURES, case_figures
from studies.goals import goals_table
from studies.tables import NONE_THERE, Group, grouped, statistics_table, study_table, tables, tuning_table

PAGES = {
    "noise": "every method and measure, noise scenario",
    "privacy": "the same for the privacy scenario, which the paper ran but did not print",
    "goals": "what was to be reached, and whether it was",
    "studies": "size of the request, solvers, acceleration, when forgetting equals retraining",
    "settings": "the data sets, and the search for the settings",
}
"""The pages beside the first, by the ends of their names, and what is on each."""

TABLES = """Two regimes. **paper**: ENMF trained by AdamW with early stopping, as in the paper. **converged**: MF
trained by accelerated ALS and joint Newton steps to the optimum, so that the paper's assumption that the original
minimises its loss really holds. Cells are mean ± standard deviation over the runs; in brackets what the paper printed.
Definitions: [measures](measures.md).

- AltEraser adds to the paper's algorithm that with AH-Newton the passes over all are steps of Newton's method over
  all rows together ([how it works](how-it-works.md)), each counted as a pass; with the other solvers they are
  extrapolated. "plain passes" are as in the paper. "training gap 0": they go on to the optimum, however far from its
  own the original was.
- In the converged regime, where nothing but the initial weights is random, Retrain* is another initialisation. The
  time of AltEraser is compared with that of retrainings which end as soon as they reach its loss: by accelerated ALS
  (Anderson), by accelerated ALS that ends with joint Newton steps, and by accelerated ALS whose rows are solved by
  conjugate gradients, not exactly. Retrain itself, with which lists are compared, goes to the optimum.
- In the paper's regime those retrainings keep the original's h, as AltEraser does: ALS from h at ones does not reach
  the loss of an ENMF whose h was trained. "Speed-up" is over Retrain by AdamW, as in the paper; which retraining is the
  fastest to the loss of AltEraser, and by how much, is on the page of [goals](results-goals.md).
- "Speed-up over ALS" in the paper's regime is over ALS with h at ones, which ends at another loss (shown beside it).
"""
EARLIER = """What was measured at a commit that was not recorded was measured with an earlier engine, which ended passes
over all, or did not begin them, where the model was as near its optimum as the original had been to its own: on ml-1m
and kuairec-binary in the paper's regime its AltErasers are one forgetting pass by different solvers.
"""


def write_page(folder: Path, path: Path) -> int:
    """Writes the page, those beside it and their plots, which go to the results; returns how many results there are."""
    results, headline_results = dict(Store(folder).all()), dict(Store(folder / headline.FOLDER).all())
    cases = [result["runs"] for result in results.values() if "runs" in result]
    studies = {name: result for name, result in results.items() if "study" in result}
    searches = [result for result in results.values() if "trials" in result]
    if len(cases) + len(studies) + len(searches) < len(results):
        raise DataError(
            f"{folder} holds JSON files that are no results of `python -m studies`. Move them away."
        )
    pages = {end: Page(path.with_name(f"{path.stem}-{end}.md")) for end in PAGES}
    _add_goals(pages["goals"], [runs for runs in cases if _case_of(runs)[1] == "noise"])
    for scenario in ("noise", "privacy"):
        of_scenario = [runs for runs in cases if _case_of(runs)[1] == scenario]
        _add_cases(pages[scenario], folder, scenario, sorted(of_scenario, key=_case_of))
    _add_studies(pages["studies"], folder, studies)
    _add_settings(pages["settings"], cases, searches)
    first = Page(path)
    headline.add_to(
        first, folder / headline.FOLDER, [run for each in headline_results.values() for run in each["runs"]]
    )
    links = [f"- [{pages[end].path.stem}]({pages[end].path.name}): {text}" for end, text in PAGES.items()]
    links.append("- [defaults](defaults.md): how good the settings are that `alteraser train` chooses")
    links.append(
        "- [endings](endings.md): what training to the optimum costs, and what it buys a model that forgets"
    )
    first.add("## More", "\n".join(links))
    for page in (first, *pages.values()):
        page.write()
    of_defaults = defaults_page.add_page(path.with_name("defaults.md"), folder / defaults_page.FOLDER)
    of_endings = endings.add_page(path.with_name("endings.md"), folder / endings.FOLDER)
    return len(results) + len(headline_results) + of_defaults + of_endings


def _begin(page: Page, title: str, text: str, measured: Iterable[Result], *, by_engine: bool = True) -> None:
    """The heading of a page, what is on it, the commits of all its figures, and which of them are of which engine."""
    measured = list(measured)
    page.add(f"# {title}", text, measured_at(measured) if measured else "Nothing of it was measured yet.")
    if by_engine and any(each.get("commit") is None for each in measured):
        page.add(EARLIER)


def _case_of(runs: Sequence[Result]) -> Group:
    (case,) = grouped(record for run in runs for record in run["results"])
    return case


def _add_cases(page: Page, folder: Path, scenario: str, cases: Sequence[Sequence[Result]]) -> None:
    """The page of a scenario: a section for each data set and regime."""
    _begin(page, f"Results: {scenario} scenario", SCENARIOS[scenario], chain(*cases))
    page.add(TABLES)
    for runs in cases:
        _add_case(page, folder, runs)


SCENARIOS = {
    "noise": "False interactions of 64 users are injected, and then forgotten.",
    "privacy": "64 users have half of their own interactions forgotten.",
}


def _add_case(page: Page, folder: Path, runs: Sequence[Result]) -> None:
    """The section of a data set, scenario and regime: plots, then a table for each kind of measure."""
    records = [record for run in runs for record in run["results"]]
    ((case, methods),) = grouped(records).items()
    dataset, _, regime = case
    page.add(f"## {dataset}, {regime} regime", f"{headline.number_of(runs)}. {measured_at(runs)}")
    for name, svg in case_figures(methods):
        page.plot(folder / f"{'-'.join(case)}-{name}.svg", svg, name)
    for table in tables(records):
        page.add(f"### {table.title.split(' — ')[-1]}", table.markdown())


def _add_goals(page: Page, cases: Sequence[Sequence[Result]]) -> None:
    """The page of goals: a table for each regime and data set of which there is enough."""
    text = (
        "Noise scenario. Verdicts are on means over the runs; medians stand beside them, and where they say otherwise "
        "the row says so. What a method reaches where no pass began after the forgetting pass says nothing of its "
        "solver and is not counted as reached; what it misses there is missed. Where passes began in some runs, a goal "
        "has to be reached over those alone, too. A speed-up over a retraining is that of the runs in which the "
        "retraining got to the loss. The fastest retraining of a run is the quickest of all that were run and ended "
        "at the loss of AltEraser or below; those that are made for it end as soon as they are there and, as AltEraser "
        "does, keep the original's h."
    )
    _begin(page, "Results: what was to be reached", text, chain(*cases))
    for regime in ("paper", "converged"):
        for runs in sorted(cases, key=_case_of):
            dataset, _, of = _case_of(runs)
            table = goals_table([record for run in runs for record in run["results"]], dataset, regime)
            if of == regime and table is not None:
                page.add(f"## {table.title}: {_score(row[-1] for row in table.rows)}", measured_at(runs))
                page.add(table.markdown())


def _score(verdicts: Iterable[str]) -> str:
    """How many goals are reached of those that could be missed; of the others how many there are."""
    counts = Counter(verdicts)
    text = f"{counts[YES]} of {counts[YES] + counts[NO]} reached"
    if counts[SAYS_NOTHING]:
        text += f"; {counts[SAYS_NOTHING]} say{'s' if counts[SAYS_NOTHING] == 1 else ''} nothing"
    if counts[NONE_THERE]:
        text += f"; of {counts[NONE_THERE]} no retraining got there"
    return text + (f"; {counts[UNKNOWN]} not measured yet" if counts[UNKNOWN] else "")


STUDIES = {
    "sizes": "How cost and quality move with the size of the request",
    "solvers": "Every solver on the same request",
    "enmf": "ENMF with h solved too",
    "acceleration": "Plain passes, Anderson, joint Newton (in training after Anderson's passes)",
    "conditions": "When forgetting equals retraining",
}


def _add_studies(page: Page, folder: Path, studies: Mapping[str, Result]) -> None:
    """The page of studies: the table of each, and its figure if it has one."""
    text = "Questions beside the paper's tables, each run once."
    _begin(page, "Results: studies", text, studies.values())
    for name, result in studies.items():
        study, records = result["study"], result["records"]
        of = f"{records[0]['dataset']}, {records[0]['regime']} regime"
        if (sliced := result["users"]) != result["data"]["users"]:
            of += f", {sliced} of its {result['data']['users']} users"
        page.add(f"## {STUDIES[study]}: {of}", measured_at([result]))
        if study in FIGURES:
            page.plot(folder / f"{name}.svg", FIGURES[study](f"{STUDIES[study]}: {of}", records), name)
        page.add(study_table(study, records).markdown())


def _add_settings(page: Page, cases: Sequence[Sequence[Result]], searches: Sequence[Result]) -> None:
    """The page of the data sets and of the searches for settings."""
    text = (
        "The settings of `studies/settings.json` were chosen by NDCG@10 on a tenth of the training data; of AdamW's "
        "own, the quickest within a hundredth of the best. In brackets the sizes that the paper printed."
    )
    trials = [trial for search in searches for trial in search["trials"]]
    _begin(page, "Results: data and settings", text, trials, by_engine=False)
    data = {run["results"][0]["dataset"]: run["data"] for runs in cases for run in runs}
    page.add("## The data", statistics_table(data).markdown())
    for search in searches:
        table = tuning_table(search)
        page.add(f"## The search: {table.title}", measured_at(search["trials"]), table.markdown())
