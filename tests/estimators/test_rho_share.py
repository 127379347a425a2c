"""A penalty as a share of the largest useful one."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd import LARSTD, SparseTD
from sparsetd.problems import random_mdp
from sparsetd.selection import rho_max

MDP = random_mdp(np.random.default_rng(0), n_states=40, n_features=12, n_relevant=3)
LOG = MDP.trajectory(800, np.random.default_rng(1))
ROWS = {"X": LOG.phi, "y": LOG.reward, "X_next": LOG.phi_next, "ratio": LOG.ratio}


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_a_share_is_that_share_of_rho_max(standardize, fit_intercept):
    more = {"gamma": MDP.gamma, "standardize": standardize, "fit_intercept": fit_intercept}
    largest = rho_max(**ROWS, **more)
    absolute = SparseTD(rho_theta=0.2 * largest, **more).fit(**ROWS)
    share = SparseTD(rho_share=0.2, **more).fit(**ROWS)
    assert share.coef_ == pytest.approx(absolute.coef_, abs=1e-7)
    assert np.array_equal(share.support_, absolute.support_)


def test_the_ends_are_everything_and_nothing():
    with pytest.warns(UserWarning, match="set every coefficient to zero"):
        assert not SparseTD(rho_share=1.0, gamma=MDP.gamma).fit(**ROWS).coef_.any()
    assert SparseTD(rho_share=0.0, gamma=MDP.gamma).fit(**ROWS).coef_.all()


def test_the_scale_of_rewards_and_features_does_not_matter():
    one = SparseTD(rho_share=0.3, gamma=MDP.gamma).fit(**ROWS)
    scaled = {**ROWS, "y": 1e3 * LOG.reward, "X": 1e-2 * LOG.phi, "X_next": 1e-2 * LOG.phi_next}
    assert np.array_equal(one.support_, SparseTD(rho_share=0.3, gamma=MDP.gamma).fit(**scaled).support_)
    lars = [LARSTD(rho_share=0.3, gamma=MDP.gamma).fit(**rows).support_ for rows in (ROWS, scaled)]
    assert np.array_equal(*lars)


def test_lars_ends_at_the_share_of_its_first_knot():
    model = LARSTD(rho_share=0.25, gamma=MDP.gamma).fit(**ROWS)
    assert model.rho_reached_ == pytest.approx(0.25 * model.knots_[0])
    assert model.coef_ == pytest.approx(LARSTD(rho_theta=0.25 * model.knots_[0], gamma=MDP.gamma).fit(**ROWS).coef_)


@pytest.mark.parametrize("share", [-0.1, 1.5, "half"])
def test_a_share_lies_between_0_and_1(share):
    with pytest.raises(ValueError, match=r"rho_share=.* must be a number in"):
        SparseTD(rho_share=share).fit(**ROWS)
