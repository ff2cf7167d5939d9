"""The solvers by the name the command knows them by."""

from __future__ import annotations

from alteraser.optim.first_order import adahessian, adamw
from alteraser.optim.minimize import Solver
from alteraser.optim.newton import ah_newton, gauss_newton, hf_newton
from alteraser.optim.scipy import bfgs, cg, l_bfgs, newton_cg, trust_krylov, trust_ncg

SOLVERS: dict[str, Solver] = {
    "ah-newton": ah_newton,
    "hf-newton": hf_newton,
    "gauss-newton": gauss_newton,
    "newton-cg": newton_cg,
    "trust-ncg": trust_ncg,
    "trust-krylov": trust_krylov,
    "bfgs": bfgs,
    "l-bfgs": l_bfgs,
    "cg": cg,
    "adahessian": adahessian,
    "adamw": adamw,
}
