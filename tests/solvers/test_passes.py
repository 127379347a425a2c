"""The table of `pass_for` is true."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd import operators, penalties, solvers
from sparsetd.solvers.stream import pass_for

NOTHING, L1, RIDGE = penalties.NoPenalty(), penalties.L1(0.1, 0.1), penalties.Ridge(0.1, 0.1)
GROUPS = penalties.GroupL1(np.zeros(3, dtype=int), rho_theta=0.1)
AUTOMATIC = solvers.DistanceOverGradients()

# A solver, its penalty, and the pass over dense and over CSR rows.
TABLE = {
    "groups": (solvers.Stochastic(), GROUPS, "numpy", "numpy"),
    "coins": (solvers.CoinBetting(), NOTHING, "numpy", "numpy"),
    "dual averaging": (solvers.DualAveraging(), L1, "dense", "awake"),
    "dual averaging, box": (solvers.DualAveraging(fit_norm=1), L1, "numpy", "numpy"),
    "dual averaging, radius": (solvers.DualAveraging(radius=1.0), L1, "numpy", "numpy"),
    "p-norm": (solvers.MirrorDescent(p=3.0), NOTHING, "dense", "dense"),
    "l1 ball": (solvers.PrimalDual(fit_norm="inf"), NOTHING, "dense", "dense"),
    "box form": (solvers.LeastSquaresSaddle(), L1, "dense", "dense"),
    "bent trial point": (solvers.MirrorProx(), L1, "dense", "dense"),
    "trial point in a box": (solvers.SaddleMirrorProx(fit_norm=1), NOTHING, "dense", "dense"),
    "by hand": (solvers.Stochastic(), NOTHING, "dense", "entries"),
    "by hand, ridge": (solvers.Stochastic(), RIDGE, "dense", "entries"),
    "automatic": (AUTOMATIC, NOTHING, "dense", "entries"),
    "automatic, ridge": (AUTOMATIC, RIDGE, "dense", "entries"),
    "by hand, l1": (solvers.PrimalDual(), L1, "dense", "entries"),
    "by hand, box": (solvers.PrimalDual(fit_norm=1), NOTHING, "dense", "entries"),
    "by hand, l1 and ridge": (solvers.PrimalDual(), penalties.ElasticNet(0.1, 0.1), "dense", "dense"),
    "by hand, l1 and radius": (solvers.Stochastic(radius=1.0), L1, "dense", "dense"),
    "automatic, l1": (AUTOMATIC, L1, "dense", "dense"),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_pass_of_a_method_and_its_rows(name):
    solver, penalty, *expected = TABLE[name]
    table = operators.tdc()
    state = solver.init(table, 3)
    system = solver._system(table, penalty, None, np.float64)
    assert [pass_for(solver, state, system, sparse) for sparse in (False, True)] == expected


def test_dual_averaging_from_elsewhere_and_ridges_that_differ_are_laid_out_densely():
    solver, table = solvers.DualAveraging(), operators.tdc()
    state = solver.init(table, 3, coef_init=np.ones(3))
    assert pass_for(solver, state, solver._system(table, L1, None, np.float64), True) == "dense"
    system = AUTOMATIC._system(table, RIDGE, np.array([1.0, 0.0, 1.0]), np.float64)
    assert pass_for(AUTOMATIC, AUTOMATIC.init(table, 3), system, True) == "dense"
