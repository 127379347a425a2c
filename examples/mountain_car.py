"""Mountain car: the value of pushing at random, from 1,365 radial basis functions of which few are needed.

Grids of radial basis functions of several resolutions cover position and speed; LSTD uses them all, SparseTDCV keeps
those that held-out episodes ask for. Both are judged by their projected Bellman error on a fresh log.

    python examples/mountain_car.py
"""

from __future__ import annotations

import argparse

import numpy as np

from sparsetd import LSTD, ValueFunction
from sparsetd.features import RBFGrid, featurize
from sparsetd.problems import mountain_car
from sparsetd.selection import SparseTDCV

GAMMA = 0.95


def main(episodes: int = 15, finest: int = 8) -> None:
    rng = np.random.default_rng(0)
    log, fresh = (mountain_car.collect(rng, n_episodes=episodes, n_steps=200, start="uniform") for _ in range(2))
    features = RBFGrid(tuple(2**k for k in range(1, int(np.log2(finest)) + 1)))
    for name, estimator in {
        "LSTD": LSTD(gamma=GAMMA, rho_theta=1e-6, fit_intercept=True),
        "SparseTDCV": SparseTDCV(gamma=GAMMA, fit_intercept=True, one_standard_error=False, n_rhos=15, eps=0.1),
    }.items():
        model = ValueFunction(features, estimator).fit(log)
        rows = featurize(fresh, model.features_, GAMMA)
        score = model.estimator_.score(rows.phi, rows.reward, rows.phi_next, discount=rows.discount, start=rows.start)
        kept, bottom = np.count_nonzero(model.estimator_.coef_), model.value(mountain_car.BOTTOM)
        print(f"{name:10s} {kept:4d} of {rows.n_features} features, held-out score {score:.4f}, V(bottom) {bottom:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=15)
    parser.add_argument("--finest", type=int, default=8)
    main(**vars(parser.parse_args()))
