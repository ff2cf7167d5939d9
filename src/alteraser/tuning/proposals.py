"""What to try next: a study of optuna, which is imported here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from alteraser.errors import MissingExtra
from alteraser.tuning.space import LOGARITHMIC, SearchSpace
from alteraser.tuning.trials import Trial


class Proposals:
    """An optuna study: proposes the initial points, then those of which a Gaussian process of the trials expects most.

    The surface is smooth, so that it needs far fewer trials than a grid. For the process l2 is a share of the noise
    edge at its w0, where w0 is looked for, too: good settings then lie along an axis.
    """

    def __init__(
        self,
        space: SearchSpace,
        initial: Sequence[Mapping[str, float]],
        trials: Sequence[Trial],
        *,
        noise_edge: Callable[[float], float],
        seed: int,
    ) -> None:
        optuna = _optuna()
        self._space, self._noise_edge = space, noise_edge
        self._ranges = space.searched
        if {"w0", "l2"} <= self._ranges.keys():
            self._ranges |= {"l2": space.share_of_noise_edge(noise_edge)}
        self._distributions = {
            name: optuna.distributions.IntDistribution(int(each.low), int(each.high), log=True)
            if name == "dim"
            else optuna.distributions.FloatDistribution(each.low, each.high, log=name in LOGARITHMIC)
            for name, each in self._ranges.items()
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
                self._study.enqueue_trial(self._coordinates(point))

    def ask(self) -> tuple[Any, dict[str, Any]]:
        """A handle for `tell`, and the settings to try."""
        asked = self._study.ask(self._distributions)
        settings = dict(asked.params)
        if {"w0", "l2"} <= settings.keys():
            settings["l2"] *= self._noise_edge(settings["w0"])
        return asked, self._space.rounded(settings)

    def tell(self, asked: Any, trial: Trial) -> None:
        if trial.ndcg is None:
            self._study.tell(asked, state=_optuna().trial.TrialState.FAIL)
        else:
            self._study.tell(asked, trial.ndcg)

    def _add(self, trial: Trial) -> None:
        if trial.ndcg is not None:
            params = self._coordinates(trial.settings)
            create = _optuna().trial.create_trial
            self._study.add_trial(create(params=params, distributions=self._distributions, value=trial.ndcg))

    def _coordinates(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What the process knows settings by."""
        found = {name: settings[name] for name in self._ranges}
        if {"w0", "l2"} <= found.keys():
            found["l2"] /= self._noise_edge(found["w0"])
        return {name: each.clipped(found[name]) for name, each in self._ranges.items()}


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
