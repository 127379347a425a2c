"""`ValueFunction`: exact answers on a small Markov decision process, whatever the form of the features."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sparsetd import evaluate
from sparsetd.estimators import ETD, GQ, LSTD, ROGQ, TD, TDC, ValueFunction
from sparsetd.estimators.fit_stream import fit_stream
from sparsetd.features import Fourier, Tabular, featurize
from sparsetd.logs import Transitions

GAMMA = 0.9
N, A = 4, 2


def mdp() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """P (A, N, N) with state N − 1 leaving to the end with probability ½, R (A, N), π and μ (N, A)."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(N), (A, N))
    P[:, N - 1] *= 0.5
    return P, rng.normal(size=(A, N)), rng.dirichlet(np.ones(A), N), rng.dirichlet(3 * np.ones(A), N)


def expected_log() -> Transitions:
    """A log whose empirical frequencies *are* the model's: each (s, a, s') in proportion, in multiples of 1/1000."""
    P, R, _, mu = mdp()
    rows = []
    for s in range(N):
        for a in range(A):
            counts = np.rint(1000 * mu[s, a] * np.append(P[a, s], 1 - P[a, s].sum())).astype(int)
            for successor, k in enumerate(counts):
                rows += [(s, a, R[a, s], successor, successor == N)] * k
    s, a, r, successor, ended = (np.array(column) for column in zip(*rows, strict=True))
    return Transitions.from_arrays(
        s, r, successor, action=a, terminated=ended, start=np.ones(len(s), bool), behavior_prob=mu[s, a]
    )


def model_of(t: Transitions) -> tuple[np.ndarray, np.ndarray]:
    """The empirical P (A, N, N) and μ (N, A) of a log."""
    s, a, successor = t.observation[:, 0], t.action, t.next_observation[:, 0]
    counts = np.zeros((A, N, N))
    np.add.at(counts, (a, s, np.minimum(successor, N - 1)), ~t.terminated)
    visits = np.zeros((A, N))
    np.add.at(visits, (a, s), 1.0)
    return counts / visits[:, :, None], (visits / visits.sum(axis=0)).T


def target(s: np.ndarray) -> np.ndarray:
    return mdp()[2][s[:, 0]]


def exact_q(P: np.ndarray, R: np.ndarray, pi: np.ndarray) -> np.ndarray:
    q = np.zeros((N, A))
    for _ in range(2000):
        v = (pi * q).sum(axis=1)
        q = (R + GAMMA * P @ v).T
    return q


@pytest.mark.parametrize("sparse", [False, True])
def test_action_values_are_exact(sparse: bool) -> None:
    t = expected_log()
    vf = ValueFunction(Tabular(N, sparse_output=sparse), LSTD(gamma=GAMMA)).fit(t, target)
    q = exact_q(model_of(t)[0], mdp()[1], mdp()[2])
    states = np.arange(N)
    np.testing.assert_allclose(vf.q(states), q, atol=1e-8)
    np.testing.assert_allclose(vf.value(states), (mdp()[2] * q).sum(axis=1), atol=1e-8)
    np.testing.assert_array_equal(vf.act(states), q.argmax(axis=1))
    assert vf.n_actions_ == A
    assert list(vf.feature_names_[:2]) == ["x0_0[a=0]", "x0_1[a=0]"]


def test_state_values_are_exact_off_policy() -> None:
    t = expected_log()
    P, mu = model_of(t)
    t = Transitions.from_arrays(
        t.observation,
        t.reward,
        t.next_observation,
        action=t.action,
        terminated=t.terminated,
        start=t.start,
        behavior_prob=mu[t.observation[:, 0], t.action],
    ).with_target(target)
    vf = ValueFunction(Tabular(N), LSTD(gamma=GAMMA)).fit(t)
    expected = (mdp()[2] * exact_q(P, mdp()[1], mdp()[2])).sum(axis=1)
    np.testing.assert_allclose(vf.value(np.arange(N)), expected, atol=1e-8)
    assert vf.n_actions_ is None


@pytest.mark.filterwarnings("ignore:LSTD has:sklearn.exceptions.ConvergenceWarning")  # the first rows are too few
def test_partial_fit_in_chunks_equals_fit() -> None:
    t = expected_log()
    whole = ValueFunction(Tabular(N), LSTD(gamma=GAMMA)).fit(t, target)
    parts = ValueFunction(Tabular(N), LSTD(gamma=GAMMA))
    for i in range(0, len(t), 700):
        parts.partial_fit(t[i : i + 700], target)
    np.testing.assert_allclose(parts.q(np.arange(N)), whole.q(np.arange(N)), rtol=1e-9)


def test_one_observation_gives_one_answer() -> None:
    rng = np.random.default_rng(1)
    s = rng.random((30, 2))
    t = Transitions.from_arrays(s, rng.normal(size=30), rng.random((30, 2)), action=rng.integers(2, size=30))
    half = lambda s: np.full((len(s), 2), 0.5)  # noqa: E731
    vf = ValueFunction(Fourier(1), LSTD(gamma=GAMMA)).fit(t, half)
    assert isinstance(vf.act(s[0]), int)
    assert vf.q(s[0]).shape == (2,)
    assert np.ndim(vf.value(s[0])) == 0
    np.testing.assert_allclose(vf.q(s[0]), vf.q(s)[0], rtol=1e-13)
    single = ValueFunction(Tabular(N), LSTD(gamma=GAMMA)).fit(expected_log(), target)
    assert isinstance(single.act(2), int)
    assert single.act([2, 3]).shape == (2,)


def test_without_features_the_observation_is_used() -> None:
    t = Transitions.from_arrays(
        [[1.0, 0], [0, 1.0]], [1.0, 2.0], [[0, 1.0], [0, 0]], terminated=[0, 1], names=["a", "b"]
    )
    vf = ValueFunction(None, LSTD(gamma=GAMMA)).fit(t)
    np.testing.assert_allclose(vf.value([[1.0, 0.0], [0.0, 1.0]]), [1 + GAMMA * 2, 2.0])
    assert list(vf.feature_names_) == ["a", "b"]


def test_clone_pickle_and_untouched_parameters() -> None:
    estimator = LSTD(gamma=GAMMA)
    vf = clone(ValueFunction(Tabular(N), estimator)).fit(expected_log())
    assert not hasattr(estimator, "coef_")
    copy = pickle.loads(pickle.dumps(vf))  # noqa: S301
    np.testing.assert_array_equal(copy.value(np.arange(N)), vf.value(np.arange(N)))
    assert vf.get_params()["estimator__gamma"] == GAMMA


def test_the_ratio_does_not_weight_rows_of_action_values() -> None:
    """With too few features the weighting of rows matters: LSTD-Q solves Σ φ(φ − γφ̄)ᵀ θ = Σ φ r, without ratios."""
    t = expected_log()
    shared = Fourier(1, low=0, high=N)
    vf = ValueFunction(shared, LSTD(gamma=GAMMA)).fit(t, target)
    M, b = np.zeros((4, 4)), np.zeros(4)
    for s, a, r, successor, ended in zip(
        t.observation[:, 0], t.action, t.reward, t.next_observation[:, 0], t.terminated, strict=True
    ):
        phi, bar = np.zeros((2, 2)), np.zeros((2, 2))
        phi[a] = [1, np.cos(np.pi * s / N)]
        if not ended:
            bar = np.outer(mdp()[2][successor], [1, np.cos(np.pi * successor / N)])
        M += np.outer(phi, phi - GAMMA * bar)
        b += r * phi.ravel()
    np.testing.assert_allclose(vf.estimator_.coef_, np.linalg.solve(M, b), rtol=1e-6)


@pytest.mark.parametrize("estimator", [GQ(gamma=GAMMA, lam=0.5), ROGQ(gamma=GAMMA, lam=0.5)], ids=["GQ", "ROGQ"])
def test_action_value_traces_get_the_ratio(estimator) -> None:  # type: ignore[no-untyped-def]
    t = expected_log()
    vf = ValueFunction(Tabular(N), estimator).fit(t[:50], target)
    batch = featurize(t[:50], Tabular(N).fit([[0]]), GAMMA, target)
    direct = clone(estimator).fit(
        batch.phi, batch.reward, batch.phi_next, ratio=batch.ratio, discount=batch.discount, start=batch.start
    )
    np.testing.assert_array_equal(vf.estimator_.coef_, direct.coef_)


def test_state_value_traces_refuse_off_policy_action_values() -> None:
    t = expected_log()
    with pytest.raises(ValueError, match="the trace of TDC corrects state values only: use GQ"):
        ValueFunction(Tabular(N), TDC(gamma=GAMMA, lam=0.5)).fit(t, target)
    with pytest.raises(ValueError, match="the trace of ETD"):
        ValueFunction(Tabular(N), ETD(gamma=GAMMA)).fit(t, target)
    ValueFunction(Tabular(N), TDC(gamma=GAMMA, lam=0.5)).fit(t, lambda s: mdp()[3][s[:, 0]])  # the behaviour itself


@pytest.mark.parametrize(
    "learn", [ValueFunction(Tabular(N), GQ()).fit, lambda log: fit_stream([TDC(), GQ()], [log[:50]])]
)
def test_a_method_for_actions_refuses_states_whose_ratios_it_would_ignore(learn) -> None:  # type: ignore[no-untyped-def]
    t = expected_log()
    learn(t)  # nothing says that the target is another policy: all ratios are 1
    with pytest.raises(ValueError, match="GQ learns values of actions"):
        learn(replace(t, target_prob=t.probabilities(target)[np.arange(len(t)), t.action]))


def test_stochastic_estimators_approach_the_exact_values() -> None:
    t = expected_log()
    t = t[np.random.default_rng(0).permutation(len(t))]
    q = exact_q(model_of(t)[0], mdp()[1], mdp()[2])
    vf = ValueFunction(Tabular(N), TD(gamma=GAMMA, step_size=0.01, n_passes=60)).fit(t, target)
    np.testing.assert_allclose(vf.q(np.arange(N)), q, atol=0.1)


def test_mistakes_are_named() -> None:
    vf = ValueFunction(Tabular(N), LSTD(gamma=GAMMA))
    with pytest.raises(NotFittedError):
        vf.value([0])
    vf.fit(expected_log())
    with pytest.raises(ValueError, match="`q` and `act` need action values"):
        vf.act([0])
    with pytest.raises(ValueError, match="must have 1 columns"):
        vf.value([[0, 1]])
    with pytest.raises(ValueError, match="row 1 holds"):
        vf.value([0, np.nan])


def named_log(names: tuple[str, ...] = ("age", "pulse")) -> Transitions:
    rng = np.random.default_rng(1)
    s = rng.normal(size=(60, 2)) * [1.0, 10.0]
    return Transitions.from_arrays(
        s, s[:, 0], action=rng.integers(2, size=60), terminated=np.arange(60) % 6 == 5, names=names
    )


def uniform_of_two(s: np.ndarray) -> np.ndarray:
    return np.full((len(s), 2), 0.5)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_is_matched_by_the_names_of_its_columns(library: str) -> None:
    frames = pytest.importorskip(library)
    t = named_log()
    v = ValueFunction(None, LSTD(gamma=GAMMA)).fit(t)
    expected = v.value(t.observation)
    columns = {"pulse": t.observation[:, 1], "other": np.zeros(60), "obs_age": t.observation[:, 0]}
    # Not to the bit: the layout of the columns decides the order in which BLAS adds.
    np.testing.assert_allclose(v.value(frames.DataFrame(columns)), expected, rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match="fitted to a column 'age'"):
        v.value(frames.DataFrame({"pulse": columns["pulse"], "height": columns["obs_age"]}))


def test_one_row_of_a_frame_is_matched_by_name_and_a_column_is_not() -> None:
    pandas = pytest.importorskip("pandas")
    t = named_log()
    v = ValueFunction(None, LSTD(gamma=GAMMA)).fit(t)
    frame = pandas.DataFrame({"pulse": t.observation[:, 1], "age": t.observation[:, 0]})
    assert v.value(frame.iloc[3]) == pytest.approx(v.value(t.observation[3]), rel=1e-12)
    alone = Transitions.from_arrays(t.observation[:, :1], t.reward, terminated=t.terminated, names=("age",))
    one = ValueFunction(None, LSTD(gamma=GAMMA)).fit(alone)
    column = frame["age"].set_axis([f"patient {i}" for i in range(60)])
    np.testing.assert_allclose(one.value(column), one.value(t.observation[:, :1]), rtol=1e-12)


def test_more_rows_in_another_order_of_columns_continue_the_same_fit() -> None:
    t = named_log()
    swapped = t.with_columns(("pulse", "age"))
    assert swapped.names == ("pulse", "age")
    np.testing.assert_array_equal(swapped.observation, t.observation[:, ::-1])
    one = ValueFunction(None, LSTD(gamma=GAMMA)).partial_fit(t).partial_fit(t)
    other = ValueFunction(None, LSTD(gamma=GAMMA)).partial_fit(t).partial_fit(swapped)
    np.testing.assert_array_equal(one.estimator_.coef_, other.estimator_.coef_)
    with pytest.raises(ValueError, match="fitted to a column 'age'"):
        one.partial_fit(named_log(("weight", "pulse")))


def test_a_policy_made_of_a_model_gets_the_columns_of_the_model() -> None:
    from sparsetd.control import epsilon_greedy, policy_iteration

    t = named_log()
    q = ValueFunction(None, LSTD(gamma=GAMMA, alpha=1e-3)).fit(t, uniform_of_two)
    found = policy_iteration(LSTD(gamma=GAMMA, alpha=1e-3), t, None, GAMMA, n_actions=2, n_iter=2)
    for policy in (epsilon_greedy(q.q, 0.1), found.policy, found.averaged(2)):
        as_fitted = t.with_target(policy).target_prob
        assert len(np.unique(as_fitted)) > 1
        np.testing.assert_array_equal(t.with_columns(("pulse", "age")).with_target(policy).target_prob, as_fitted)
        with pytest.raises(ValueError, match="fitted to a column"):
            named_log(("weight", "height")).with_target(policy)


def test_values_of_a_policy_that_knows_its_columns() -> None:
    from sparsetd.control import greedy

    t = named_log()
    q = ValueFunction(None, LSTD(gamma=GAMMA, alpha=1e-3)).fit(t, uniform_of_two)
    one = ValueFunction(None, LSTD(gamma=GAMMA, alpha=1e-3)).fit(t, greedy(q.q))
    other = ValueFunction(None, LSTD(gamma=GAMMA, alpha=1e-3)).fit(t.with_columns(("pulse", "age")), greedy(q.q))
    assert other.n_actions_ == 2
    np.testing.assert_allclose(one.value(t.observation), other.value(t.observation[:, ::-1]))


def test_a_feature_map_needs_no_names() -> None:
    squares = FunctionTransformer(lambda s: np.column_stack([np.ones(len(s)), s, s**2]))
    t = expected_log()
    vf = ValueFunction(make_pipeline(squares), LSTD(gamma=GAMMA)).fit(t)
    assert vf.feature_names_.tolist() == ["f0", "f1", "f2"]
    answer = evaluate(t, gamma=GAMMA, features=squares, n_resamples=0)
    assert answer.value == pytest.approx(vf.value(t.observation[t.start]).mean(), rel=1e-3)


def test_what_is_no_log_is_refused_with_what_to_pass() -> None:
    with pytest.raises(TypeError, match=r"learns from Transitions, not from a str: pass `read"):
        ValueFunction(None, LSTD()).fit("log.parquet")


def test_centred_features_without_a_constant_are_questioned() -> None:
    log = expected_log()
    states = replace(
        log, observation=log.observation.astype(float), next_observation=log.next_observation.astype(float)
    )
    with pytest.warns(UserWarning, match=r"every feature has mean 0 and LSTD.* has no constant.*fit_intercept=True"):
        ValueFunction(StandardScaler(), LSTD(gamma=GAMMA)).fit(states)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ValueFunction(StandardScaler(), LSTD(gamma=GAMMA, fit_intercept=True)).fit(states)
        ValueFunction(None, LSTD(gamma=GAMMA)).fit(states)
