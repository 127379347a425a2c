"""Transitions → Batch: terminal rows never bootstrap, truncated ones do; state values and action values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from sparsetd.features import Fourier, Tabular, TileCoding, featurize
from sparsetd.features.featurize import feature_names, fit_features
from sparsetd.logs import Transitions


def log(seed: int = 0, n: int = 20) -> Transitions:
    rng = np.random.default_rng(seed)
    terminated, truncated = np.zeros(n, bool), np.zeros(n, bool)
    terminated[[6, 19]], truncated[12] = True, True
    successor = rng.random((n, 2))
    successor[6] = np.nan
    return Transitions.from_arrays(
        rng.random((n, 2)),
        rng.normal(size=n),
        successor,
        action=rng.integers(3, size=n),
        terminated=terminated,
        truncated=truncated,
        behavior_prob=rng.uniform(0.2, 1, n),
        target_prob=rng.uniform(0, 1, n),
    )


def softmax_policy(s: np.ndarray) -> np.ndarray:
    z = np.exp(np.column_stack([s[:, 0], s[:, 1], s[:, 0] * s[:, 1]]))
    return z / z.sum(axis=1, keepdims=True)


def test_state_values() -> None:
    t = log()
    batch = featurize(t, None, 0.9)
    np.testing.assert_array_equal(batch.phi, t.observation)
    alive = ~t.terminated
    np.testing.assert_array_equal(batch.phi_next[alive], t.next_observation[alive])
    np.testing.assert_array_equal(batch.phi_next[~alive], 0.0)
    np.testing.assert_array_equal(batch.discount, np.where(t.terminated, 0.0, 0.9))
    assert batch.discount[12] == 0.9  # truncated: bootstraps
    np.testing.assert_array_equal(batch.ratio, t.target_prob / t.behavior_prob)
    np.testing.assert_array_equal(batch.start, t.start)
    np.testing.assert_array_equal(batch.interest, 1.0)
    np.testing.assert_array_equal(batch.reward, t.reward)


def test_one_number_per_state_is_one_feature() -> None:
    t = log()
    batch = featurize(t, FunctionTransformer(lambda s: s[:, 0]), 0.9)
    np.testing.assert_array_equal(batch.phi, t.observation[:, :1])


def test_action_values_expect_over_the_next_action() -> None:
    t = log()
    features = Fourier(1).fit(t.observation)
    batch = featurize(t, features, 0.9, softmax_policy)
    for i in range(len(t)):
        s, successor = t.observation[i : i + 1], t.next_observation[i : i + 1]
        expected = np.zeros((3, 4))
        expected[t.action[i]] = features.transform(s)[0]
        np.testing.assert_allclose(batch.phi[i], expected.ravel(), rtol=1e-15)
        bar = np.zeros((3, 4))
        if not t.terminated[i]:
            for a in range(3):
                bar[a] = softmax_policy(successor)[0, a] * features.transform(successor)[0]
        np.testing.assert_allclose(batch.phi_next[i], bar.ravel(), rtol=1e-12)
        np.testing.assert_allclose(batch.ratio[i], softmax_policy(s)[0, t.action[i]] / t.behavior_prob[i], rtol=1e-12)


@pytest.mark.parametrize("policy", [None, softmax_policy])
def test_sparse_and_dense_rows_agree(policy) -> None:  # type: ignore[no-untyped-def]
    t = log()
    tiles = fit_features(t, TileCoding(4, 3))
    sparse, dense = featurize(t, tiles, 0.9, policy), featurize(t, tiles, 0.9, policy, sparse=False)
    assert isinstance(sparse.phi, sp.csr_array)
    assert isinstance(sparse.phi_next, sp.csr_array)
    assert sparse.phi_next.has_canonical_format
    np.testing.assert_array_equal(sparse.phi.toarray(), dense.phi)
    np.testing.assert_array_equal(sparse.phi_next.toarray(), dense.phi_next)
    np.testing.assert_array_equal(
        featurize(t, None, 0.9, policy, sparse=True).phi.toarray(), featurize(t, None, 0.9, policy).phi
    )


def test_per_row_discount() -> None:
    t = log()
    gamma = np.linspace(0, 1, len(t))
    np.testing.assert_array_equal(featurize(t, None, gamma).discount, np.where(t.terminated, 0.0, gamma))


@pytest.mark.parametrize(
    "features",
    [
        StandardScaler(),
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
        FunctionTransformer(np.sin),
        PolynomialFeatures(2).set_output(transform="pandas"),
        StandardScaler().set_output(transform="polars"),
    ],
    ids=["scaler", "pipeline", "function", "pandas", "polars"],
)
def test_any_transformer_works(features) -> None:  # type: ignore[no-untyped-def]
    t = log()
    fitted = fit_features(t, features)
    batch = featurize(t, fitted, 0.9)
    np.testing.assert_array_equal(batch.phi, np.asarray(fitted.transform(t.observation)))
    assert batch.phi_next.dtype == np.float64


def test_float32_stays_float32() -> None:
    t = Transitions.from_arrays(np.ones((3, 2), np.float32), np.ones(3), np.ones((3, 2), np.float32))
    batch = featurize(t, None, 0.9)
    assert batch.phi.dtype == batch.phi_next.dtype == np.float32


def test_fit_features_sees_successors_but_no_terminal_ones() -> None:
    t = Transitions.from_arrays([0, 1, 2], [0, 0, 0], [1, 4, 99], terminated=[0, 0, 1])
    assert fit_features(t, Tabular()).n_states_ == (5,)
    assert fit_features(t, None) is None


def test_feature_names() -> None:
    t = log()
    assert list(feature_names(None, t)) == ["x0", "x1"]
    assert list(feature_names(fit_features(t, Fourier(1)), t, 2))[-1] == "cos(pi*(x0+x1))[a=1]"


@pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan])
def test_gamma_outside_the_unit_interval(gamma: float) -> None:
    with pytest.raises(ValueError, match="`gamma` must be between 0 and 1"):
        featurize(log(), None, gamma)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one per row"):
        featurize(log(), None, np.ones(3))
    with pytest.raises(ValueError, match=r"row 2 holds 2\.0"):
        featurize(log(), None, np.array([0.5, 1, 2] + [0.5] * 17))
    with pytest.raises(ValueError, match="`action` must be between 0 and 1"):
        featurize(log(), None, 0.9, lambda s: np.full((len(s), 2), 0.5))
    bare = Transitions.from_arrays([0.0], [0.0], [0.0])
    with pytest.raises(ValueError, match="needs a column `action`"):
        featurize(bare, None, 0.9, lambda s: np.ones((len(s), 1)))


def test_features_of_successors_are_those_of_the_next_row_where_that_is_the_successor() -> None:
    s, ended = np.arange(12.0).reshape(6, 2), np.array([False, False, True, False, False, False])
    after = np.vstack([s[1:], [[50.0, 60.0]]])
    after[2], after[3] = np.nan, [30.0, 40.0]  # an end, and a jump
    jumps = Transitions.from_arrays(s, np.zeros(6), after, terminated=ended, episode=[0, 0, 0, 1, 1, 1])
    squares = FunctionTransformer(np.square).fit(s)
    rows = featurize(jumps, squares, 0.9, clear=False)
    np.testing.assert_array_equal(rows.phi_next, np.where(ended[:, None], s, after) ** 2)
