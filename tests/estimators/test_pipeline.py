"""scikit-learn's pipelines and searches around our estimators."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from laws.small_log import log
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsetd import LSTD, ROTD, TD, TDC
from sparsetd.estimators import DivergenceWarning, TDScorer, base
from sparsetd.metrics import mspbe
from sparsetd.problems import star
from sparsetd.system import Batch


@pytest.fixture
def routing():
    """Metadata routing, which scikit-learn has off by default."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def rows():
    return log(n=240, d=4, seed=2)


def requesting(model):
    return model.set_fit_request(X_next=True, ratio=True, discount=True, start=True)


def keywords(rows):
    return {"X_next": rows.X_next, **rows.keywords}


@pytest.mark.usefixtures("routing")
def test_a_pipeline_transforms_both_states(rows) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("td", requesting(LSTD(gamma=0.8)))], transform_input=["X_next"])
    pipeline.fit(rows.X, rows.y, **keywords(rows))
    scaler = StandardScaler().fit(rows.X)
    by_hand = LSTD(gamma=0.8).fit(scaler.transform(rows.X), rows.y, scaler.transform(rows.X_next), **rows.keywords)
    np.testing.assert_allclose(pipeline[-1].coef_, by_hand.coef_, rtol=1e-12)


@pytest.mark.usefixtures("routing")
def test_the_scorer_transforms_both_states_where_a_pipeline_does_not(rows) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("td", requesting(LSTD(gamma=0.8)))], transform_input=["X_next"])
    pipeline.fit(rows.X, rows.y, **keywords(rows))
    scaled = (pipeline[0].transform(X) for X in (rows.X, rows.X_next))
    right = pipeline[-1].score(next(scaled), rows.y, next(scaled), **rows.keywords)
    assert TDScorer(gamma=0.8)(pipeline, rows.X, rows.y, **keywords(rows)) == pytest.approx(right)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("criterion", ["mspbe", "bellman"])
def test_a_grid_search_by_episode_chooses_what_the_scorer_prefers(rows, criterion: str) -> None:
    episode = np.cumsum(rows.start)
    pipeline = Pipeline([("scale", StandardScaler()), ("td", requesting(LSTD(gamma=0.8)))], transform_input=["X_next"])
    scorer = TDScorer(gamma=0.8, criterion=criterion)
    search = GridSearchCV(pipeline, {"td__alpha": [1e-3, 1e3]}, scoring=scorer, cv=GroupKFold(3))
    search.fit(rows.X, rows.y, groups=episode, **keywords(rows))
    assert search.best_params_ == {"td__alpha": 1e-3}
    fold = next(GroupKFold(3).split(rows.X, groups=episode))
    again = sklearn.clone(pipeline).set_params(td__alpha=1e3)
    train, test = (rows[i] for i in fold)
    again.fit(train.X, train.y, **keywords(train))
    expected = scorer(again, test.X, test.y, **keywords(test))
    assert search.cv_results_["split0_test_score"][1] == pytest.approx(expected)


def test_a_search_needs_no_routing_where_rows_follow_one_another(rows) -> None:
    search = GridSearchCV(TDC(gamma=0.5), {"step_size": [1e-6, 0.05]}, cv=3).fit(rows.X, rows.y)
    assert search.best_params_ == {"step_size": 0.05}


def test_a_search_that_scores_other_rows_than_it_fits_says_so(rows) -> None:
    """Without routing, scikit-learn gives the successors and ratios to `fit` and not to `score`."""
    search = GridSearchCV(TDC(gamma=0.5), {"step_size": [1e-6, 0.05]}, cv=3)
    with pytest.warns(UserWarning, match=r"TDC.score did not get X_next, ratio, discount, which fit had"):
        search.fit(rows.X, rows.y, X_next=rows.X_next, ratio=rows.ratio, discount=rows.discount)


def test_a_score_without_the_starts_that_fit_had_says_so(rows) -> None:
    model = LSTD(gamma=0.5).fit(rows.X, rows.y, start=rows.start)
    with pytest.warns(UserWarning, match=r"LSTD.score did not get start"):
        model.score(rows.X, rows.y)
    model.score(rows.X, rows.y, rows.X_next)  # the successors say where an episode ends


def test_a_scorer_takes_the_discount_of_the_estimator(rows) -> None:
    model = LSTD(gamma=0.5).fit(rows.X, rows.y, rows.X_next)
    own = TDScorer()(model, rows.X, rows.y, rows.X_next)
    assert own == TDScorer(gamma=0.5)(model, rows.X, rows.y, rows.X_next)
    assert own == pytest.approx(model.score(rows.X, rows.y, rows.X_next))
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), LSTD(gamma=0.5)).fit(rows.X, rows.y)
    assert TDScorer()(pipeline, rows.X, rows.y, rows.X_next) == TDScorer(0.5)(pipeline, rows.X, rows.y, rows.X_next)


def test_a_scorer_without_successors_names_the_cure(rows) -> None:
    model = LSTD(gamma=0.5).fit(rows.X, rows.y)
    with pytest.raises(TypeError, match=r"enable_metadata_routing=True.* and `set_fit_request\(X_next=True\)`"):
        TDScorer(gamma=0.5)(model, rows.X, rows.y)


def test_the_bellman_criterion_is_the_residual_of_the_rewards(rows) -> None:
    model = LSTD(gamma=0.0).fit(rows.X, rows.y, rows.X)
    score = TDScorer(gamma=0.0, criterion="bellman")(model, rows.X, rows.y, rows.X)
    assert score == pytest.approx(1 - np.sum((rows.y - model.predict(rows.X)) ** 2) / np.sum(rows.y**2))


def test_score_is_one_minus_the_share_of_the_projected_error(rows) -> None:
    model = ROTD(gamma=0.8).fit(rows.X, rows.y, rows.X_next, **rows.keywords)
    batch = Batch(rows.X, rows.X_next, rows.y, rows.discount, rows.ratio, rows.start, np.ones(len(rows.y)))
    wanted = 1 - mspbe(batch, model.coef_) / mspbe(batch, np.zeros(4))
    assert model.score(rows.X, rows.y, rows.X_next, **rows.keywords) == pytest.approx(wanted)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_a_weight_in_score_is_a_number_of_repetitions(rows, container) -> None:
    model = ROTD(gamma=0.8).fit(rows.X, rows.y, rows.X_next, **rows.keywords)
    weight = np.random.default_rng(0).integers(0, 3, len(rows.y))
    weighted = rows.but(X=container(rows.X), X_next=container(rows.X_next))
    repeated = rows[np.repeat(np.arange(len(rows.y)), weight)]
    one = model.score(weighted.X, weighted.y, weighted.X_next, **weighted.keywords, sample_weight=weight)
    other = model.score(repeated.X, repeated.y, repeated.X_next, **repeated.keywords)
    assert one == pytest.approx(other)
    assert one != pytest.approx(model.score(rows.X, rows.y, rows.X_next, **rows.keywords))


def test_an_unknown_criterion_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'mspbe'"):
        TDScorer(criterion="mspb")


def test_a_plain_pipeline_fits_where_rows_follow_one_another(rows) -> None:
    pipeline = make_pipeline(StandardScaler(), TDC(gamma=0.5))
    assert pipeline.fit(rows.X, rows.y).predict(rows.X).shape == (240,)


@pytest.fixture
def star_rows():
    """Rows of Baird's star, on which TD diverges with any large step."""
    problem = star()
    return problem, problem.trajectory(4000, np.random.default_rng(0))


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("criterion", [None, "mspbe", "bellman"])
@pytest.mark.filterwarnings("ignore::sparsetd.estimators.DivergenceWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite:UserWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in subtract:RuntimeWarning")  # scikit-learn's -inf - -inf
@pytest.mark.filterwarnings("ignore:These rows have no reward:sklearn.exceptions.UndefinedMetricWarning")
def test_a_search_chooses_no_setting_that_diverged(star_rows, criterion: str | None) -> None:
    problem, rows = star_rows
    asked = {"X_next": True, "ratio": True, "discount": True}
    model = TD(gamma=problem.gamma, coef_init=problem.theta0).set_fit_request(**asked).set_score_request(**asked)
    scorer = None if criterion is None else TDScorer(gamma=problem.gamma, criterion=criterion)
    search = GridSearchCV(model, {"step_size": [1.0, 0.1, 0.01, 1e-4]}, cv=3, scoring=scorer)
    search.fit(rows.phi, rows.reward, X_next=rows.phi_next, ratio=rows.ratio, discount=rows.discount)
    assert search.best_params_ == {"step_size": 1e-4}
    assert search.best_estimator_.status_ == "finished"
    assert np.isneginf(search.cv_results_["mean_test_score"][:3]).all()
    assert np.isfinite(search.cv_results_["mean_test_score"][3])


@pytest.mark.parametrize(("step_size", "status"), [(1.0, "diverged"), (0.01, "suspicious")])
def test_the_score_of_a_fit_that_cannot_be_used_is_minus_infinity_with_one_warning(star_rows, step_size, status):
    problem, rows = star_rows
    columns = {"ratio": rows.ratio, "discount": rows.discount}
    model = TD(gamma=problem.gamma, coef_init=problem.theta0, step_size=step_size)
    with pytest.warns(DivergenceWarning):
        model.fit(rows.phi, rows.reward, rows.phi_next, **columns)
    assert model.status_ == status
    for score in (model.score, lambda *rows, **columns: TDScorer(gamma=0.9)(model, *rows, **columns)):
        with pytest.warns(DivergenceWarning, match=f"TD ended as '{status}': its score is -inf") as told:
            assert score(rows.phi, rows.reward, rows.phi_next, **columns) == -np.inf
        assert len(told) == 1


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("criterion", [None, "mspbe", "bellman"])
def test_a_search_without_rewards_says_once_that_scores_tell_nothing(criterion) -> None:
    """On the star every reward is 0, so V = 0 is exact, and the first of the grid would win without a word."""
    problem = star()
    batch = problem.trajectory(400, np.random.default_rng(0))
    asked, columns = (
        {"X_next": True, "ratio": True, "discount": True},
        {"ratio": batch.ratio, "discount": batch.discount},
    )
    model = TDC(gamma=problem.gamma, coef_init=problem.theta0).set_fit_request(**asked).set_score_request(**asked)
    scorer = None if criterion is None else TDScorer(gamma=problem.gamma, criterion=criterion)
    search = GridSearchCV(model, {"step_size": [1e-4, 1e-3, 1e-2]}, scoring=scorer, cv=2)
    base._tell_of_no_reward.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search.fit(batch.phi, batch.reward, X_next=batch.phi_next, **columns)
    told = [w for w in said if issubclass(w.category, UndefinedMetricWarning)]
    assert len(told) == 1
    assert "no reward" in str(told[0].message)
    assert set(search.cv_results_["mean_test_score"]) == {0.0}
