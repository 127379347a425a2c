"""Combinations without a name: what no named estimator pins down."""

from __future__ import annotations

import numpy as np
import pytest
from reference import automatic as oracle
from scipy.sparse import csr_array

from sparsetd import TDC, LinearTD, penalties, solvers
from sparsetd.operators import td


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_dual_averaging_weighs_every_part_of_the_penalty_in_its_trial_points(share, form) -> None:
    """A trial point carries the penalty of all rows so far and of its own: Σ a_i + a, for l1 and for l2."""
    phi, phi_next, reward, discount, ratio, start = columns = oracle.log()
    rho = 0.4
    solver = solvers.DualAveraging(average="all", sparse=False)
    model = LinearTD(operator="td", penalty=penalties.ElasticNet(rho, l1_ratio=share), solver=solver)
    model.fit(form(phi), reward, form(phi_next), discount=discount, ratio=ratio, start=start)
    rows, norm_M = oracle.systems("td", columns), np.sqrt(np.sum(td().M ** 2))
    parts = rho * share, rho * (1 - share)
    last, _, trials, _, weights = oracle.dual_averaging(rows, np.zeros(5), norm_M, 0.3, 2, *parts)
    np.testing.assert_allclose(model.coef_, np.average(trials, axis=0, weights=weights), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.coef_last_, last, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("average", ["none", "all"])
def test_what_nobody_may_ever_read_of_a_stream_is_made_when_it_is_read(average, form) -> None:
    phi, phi_next, reward, *_ = oracle.log()
    model = TDC(step_size=0.1, average=average).fit(form(phi), reward, form(phi_next))
    assert not {"coef_last_", "aux_"} & set(vars(model))
    theta = model._state.primal[-1]
    np.testing.assert_array_equal(model.coef_last_, theta)
    assert np.array_equal(model.coef_, theta) == (average == "none")
    assert not np.shares_memory(model.coef_, model.coef_last_)
    before, _ = model.coef_last_.copy(), model.partial_fit(form(phi), reward, form(phi_next))
    assert not np.array_equal(model.coef_last_, before)


def test_a_constant_of_a_table_is_varied_by_its_tables() -> None:
    with pytest.raises(ValueError, match=r"lam=0.5 .* a table with its own constants \(to vary one, make a table"):
        LinearTD(operator=td(), lam=0.5).triple()
