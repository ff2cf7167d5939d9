"""The solvers by the name the command knows them by."""

from __future__ import annotations

from alteraser.optim.first_order import adamw
from alteraser.optim.minimize import Solver
from alteraser.optim.newton import ah_newton, hf_newton

SOLVERS: dict[str, Solver] = {"ah-newton": ah_newton, "hf-newton": hf_newton, "adamw": adamw}
