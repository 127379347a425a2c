"""A fit puts θ together alone; w, y and the last point come when they are read. The bits are those of the whole."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import ROTD, TDC
from sparsetd.solvers.state import FEW

MODELS = [TDC(step_size=0.05), TDC(), ROTD(step_size=0.05, rho_theta=0.001), ROTD(), ROTD(rho_theta=0.001)]
WIDE = FEW + 1  # with so many features those of sparse rows are kept in the order in which they come


@pytest.mark.parametrize("width", [20, WIDE])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_theta_alone_is_that_of_the_whole(model, width):
    rng = np.random.default_rng(0)
    n, nnz = 90, 6
    places = np.arange(0, n * nnz + 1, nnz)
    X = sp.csr_array((rng.normal(size=n * nnz), rng.integers(0, width, n * nnz), places), shape=(n, width))
    fitted = model.fit(X, rng.normal(size=n))
    table, penalty, solver, factor = fitted._run(width)
    whole = solver.result(fitted._state, table, penalty, factor)
    assert fitted.coef_.any()
    assert np.array_equal(fitted.coef_, whole.coef)
    assert np.array_equal(fitted.coef_last_, whole.coef_last)
    assert np.array_equal(fitted.aux_, whole.aux)
