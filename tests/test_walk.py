"""A fit can be followed: it calls functions of a few files only."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.walk import files_of
from sparsetd import ROTD, TDC

MOST = 15
METHODS = [TDC(), ROTD(step_size=0.01, rho_theta=0.001), ROTD(rho_theta=0.001)]


@pytest.mark.parametrize("model", METHODS, ids=str)
def test_a_fit_of_sparse_rows_walks_through_few_files(model):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.normal(size=(60, 10)) * (rng.random((60, 10)) < 0.3))
    found = files_of(model, X, rng.normal(size=60))
    assert len(found) <= MOST, sorted(found)
