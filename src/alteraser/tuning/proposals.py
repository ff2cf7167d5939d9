"""What to try next: a study of optuna, which is imported here alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from alteraser.errors import MissingExtra
from alteraser.tuning.space import LOGARITHMIC, SearchSpace
from alteraser.tuning.trials import Trial


class Proposals:
    """An optuna study: proposes the initial points, then those of which a Gaussian process of the trials expects most.

    The surface is smooth, so that it needs far fewer trials than a grid.
    """

    def __init__(
        self,
        space: SearchSpace,
        initial: Sequence[Mapping[str, float]],
        trials: Sequence[Trial],
        *,
        seed: int,
    ) -> None:
        optuna = _optuna()
        self._space = space
        self._distributions = {
            name: optuna.distributions.IntDistribution(int(each.low), int(each.high), log=True)
            if name == "dim"
            else optuna.distributions.FloatDistribution(each.low, each.high, log=name in LOGARITHMIC)
            for name, each in space.searched.items()
        }
        # Half of the initial points are enough for the process: with several jobs the others may still be running.
        sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=len(initial) // 2)
        with quiet():
            self._study = optuna.create_study(direction="maximize", sampler=sampler)
        for trial in trials:
            self._add(trial)
        known = [trial.settings for trial in trials]
        for point in initial:
            if space.rounded(point) not in known:
                self._study.enqueue_trial(dict(point))

    def ask(self) -> tuple[Any, dict[str, Any]]:
        """A handle for `tell`, and the settings to try."""
        asked = self._study.ask(self._distributions)
        return asked, self._space.rounded(asked.params)

    def tell(self, asked: Any, trial: Trial) -> None:
        if trial.ndcg is None:
            self._study.tell(asked, state=_optuna().trial.TrialState.FAIL)
        else:
            self._study.tell(asked, trial.ndcg)

    def _add(self, trial: Trial) -> None:
        if trial.ndcg is not None:
            params: Mapping[str, Any] = {name: trial.settings[name] for name in self._distributions}
            create = _optuna().trial.create_trial
            self._study.add_trial(create(params=params, distributions=self._distributions, value=trial.ndcg))


@contextmanager
def quiet() -> Iterator[None]:
    """Within the block optuna logs nothing but errors: not each trial, nor which package would make it faster."""
    logging = _optuna().logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("The search needs optuna: pip install 'alteraser[tune]'.") from None
    return optuna
