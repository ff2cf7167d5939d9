"""Suites of promises for models, solvers, unlearners and executors of your own, one for each protocol.

In a test file for pytest, subclass the suite of the protocol and say how yours is made:

    class TestMyModel(ae.testing.FactoredContract):
        def make(self, data: ae.Interactions) -> MyModel:
            return MyModel.sized_for(data, dim=4, rng=np.random.default_rng(0))

Or without pytest: `TestMyModel().check()` raises an `AssertionError` that names every promise that is not kept. Data is
made inside, small and always the same. Make models with small random rows, none of them at a minimum.
"""

from alteraser.testing.base import Contract
from alteraser.testing.executor import ExecutorContract
from alteraser.testing.factored import FactoredContract
from alteraser.testing.quadratic import QuadraticContract
from alteraser.testing.recommender import RecommenderContract, SimilarContract
from alteraser.testing.solver import SolverContract
from alteraser.testing.trained import BatchTrainableContract, StorableContract
from alteraser.testing.unlearner import UnlearnerContract

__all__ = [
    "BatchTrainableContract",
    "Contract",
    "ExecutorContract",
    "FactoredContract",
    "QuadraticContract",
    "RecommenderContract",
    "SimilarContract",
    "SolverContract",
    "StorableContract",
    "UnlearnerContract",
]
