"""sparsetd inside scikit-learn: a pipeline, and a grid search over its parameters with whole episodes held out.

The feature map and the estimator form one `Pipeline`; scikit-learn's metadata routing carries the successor states to
both. `TDScorer` scores the whole pipeline on held-out rows by its projected Bellman error.

    python examples/sklearn_pipeline.py
"""

from __future__ import annotations

import argparse

import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from sparsetd import LSTD
from sparsetd.estimators.scorer import TDScorer
from sparsetd.features import RBFGrid
from sparsetd.problems import mountain_car

GAMMA = 0.9


def main(episodes: int = 30) -> None:
    log = mountain_car.collect(np.random.default_rng(0), n_episodes=episodes, n_steps=100, start="uniform")
    discount = np.where(log.terminated, 0.0, GAMMA)

    with sklearn.config_context(enable_metadata_routing=True):
        estimator = LSTD(gamma=GAMMA).set_fit_request(X_next=True, discount=True, start=True)
        pipeline = Pipeline(
            [("scale", StandardScaler()), ("phi", RBFGrid((4, 4))), ("td", estimator)], transform_input=["X_next"]
        )
        grid = {"phi__grids": [(3, 3), (6, 6)], "td__rho_theta": [1e-4, 1e-2]}
        search = GridSearchCV(pipeline, grid, scoring=TDScorer(GAMMA), cv=GroupKFold(3))
        columns = {"X_next": log.next_observation, "discount": discount, "start": log.start}
        search.fit(log.observation, log.reward, groups=log.episode, **columns)

    print(f"best of {len(search.cv_results_['params'])}: {search.best_params_}, score {search.best_score_:.3f}")
    bottom = np.array([[-0.5, 0.0]])
    print(f"value of the valley's bottom under random pushes: {search.best_estimator_.predict(bottom)[0]:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=30)
    main(**vars(parser.parse_args()))
