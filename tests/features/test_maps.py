"""Each feature map against its formula, written out naively."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsetd.features import Basis, Fourier, Polynomial, RBFGrid, Tabular, TileCoding, action_blocks

LOW, HIGH = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
BOX = {"low": LOW, "high": HIGH}


def states(n: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(LOW, HIGH, (n, 2))


MAPS = [
    RBFGrid((2, 3), **BOX),
    Fourier(3, **BOX),
    Polynomial(3, **BOX),
    TileCoding(4, 5, **BOX),
    TileCoding(4, 50, hash_size=64, **BOX),
    Basis(n_knots=3),
]


@parametrize_with_checks(
    [
        RBFGrid((2,)),
        RBFGrid((1, 2), width=0.5, constant=False),
        Fourier(1),
        Fourier(2, coupling=2, scaled=True),
        Polynomial(2),
        TileCoding(4, 2, hash_size=128),
        TileCoding(2, 1),
        Basis(n_knots=2, max_functions=20),
    ]
)
def test_scikit_learn_contract(estimator, check) -> None:  # type: ignore[no-untyped-def]
    check(estimator)


def test_rbf_grid_is_the_paper_s_size_and_the_gaussian_of_its_centres() -> None:
    X = states()
    assert RBFGrid(**BOX).fit(X).transform(X).shape == (30, 1365)
    rbf = RBFGrid((2, 4), width=0.7, **BOX).fit(X)
    phi, column = rbf.transform(X), 0
    for g in (2, 4):
        axes = [np.linspace(LOW[j], HIGH[j], g) for j in range(2)]
        spacing = (HIGH - LOW) / (g - 1)
        for c in itertools.product(*axes):
            expected = [math.exp(-0.5 * sum(((s - c) / (0.7 * spacing)) ** 2)) for s in X]
            np.testing.assert_allclose(phi[:, column], expected, rtol=1e-12)
            np.testing.assert_allclose(rbf.centers_[column], c, atol=1e-15)
            column += 1
    np.testing.assert_array_equal(phi[:, column], 1.0)
    assert phi.shape[1] == column + 1


def test_fourier_is_the_cosine_of_every_frequency() -> None:
    X = states()
    fourier = Fourier(2, **BOX).fit(X)
    phi, u = fourier.transform(X), (X - LOW) / (HIGH - LOW)
    frequencies = list(itertools.product(range(3), range(3)))
    assert phi.shape[1] == 9
    for i, c in enumerate(frequencies):
        np.testing.assert_allclose(phi[:, i], [math.cos(math.pi * (c[0] * a + c[1] * b)) for a, b in u], atol=1e-12)
        assert fourier.step_scale_[i] == (1.0 if c == (0, 0) else 1 / math.hypot(*c))
    assert Fourier(2).fit(np.zeros((2, 8))).transform(np.zeros((1, 8))).shape == (1, 6561)
    assert len(Fourier(2, coupling=1).fit(X).frequencies_) == 5


def test_fourier_outside_the_box_is_clipped() -> None:
    fourier = Fourier(3, **BOX).fit(states())
    np.testing.assert_array_equal(fourier.transform([[9.0, -9.0]]), fourier.transform([[HIGH[0], LOW[1]]]))


def test_scaled_fourier_is_a_step_size_per_coefficient() -> None:
    """One TD step on scaled features moves the value function as steps α/‖c‖ on plain ones do."""
    X = states(2)
    plain, scaled = Fourier(3, **BOX).fit(X), Fourier(3, scaled=True, **BOX).fit(X)
    phi, phi_scaled = plain.transform(X), scaled.transform(X)
    delta, alpha = 0.3, 0.1
    theta = alpha * plain.step_scale_ * delta * phi[0]
    theta_scaled = alpha * delta * phi_scaled[0]
    np.testing.assert_allclose(phi @ theta, phi_scaled @ theta_scaled, rtol=1e-12)


def test_tile_coding_lights_one_tile_per_tiling() -> None:
    X = states(200)
    tiles = TileCoding(4, (3, 5), **BOX).fit(X)
    phi = tiles.transform(X)
    assert sp.issparse(phi)
    assert phi.shape == (200, 4 * 4 * 6)
    assert phi.has_canonical_format
    np.testing.assert_array_equal(phi.data, 1.0)
    u = (X - LOW) / (HIGH - LOW)
    for row in range(200):
        for t in range(4):
            i = math.floor(u[row, 0] * 3 + (t % 4) / 4)
            j = math.floor(u[row, 1] * 5 + (3 * t % 4) / 4)
            assert phi[row, t * 24 + i * 6 + j] == 1.0


def test_hashed_tiles_keep_their_tiling_and_are_the_function_of_the_tile() -> None:
    X = states(300)
    exact = TileCoding(4, 6, **BOX).fit(X).transform(X)
    hashed = TileCoding(4, 6, hash_size=4096, **BOX).fit(X).transform(X)
    assert hashed.has_canonical_format
    a, b = exact.indices.reshape(-1, 4), hashed.indices.reshape(-1, 4)
    for t in range(4):
        assert ((b[:, t] >= 1024 * t) & (b[:, t] < 1024 * (t + 1))).all()
        pairs = set(zip(a[:, t].tolist(), b[:, t].tolist(), strict=True))
        assert len(pairs) == len(set(a[:, t].tolist()))  # equal tiles, equal columns
        assert len({j for _, j in pairs}) >= len(pairs) - 8  # few collisions: 49 tiles in 1024 columns


def test_hash_is_spread_evenly() -> None:
    X = np.random.default_rng(3).random((4000, 3))
    phi = TileCoding(1, 40, low=0.0, high=1.0, hash_size=64).fit(X).transform(X)
    counts = np.bincount(phi.indices, minlength=64)
    assert ((counts - 62.5) ** 2 / 62.5).sum() < 63 + 6 * math.sqrt(2 * 63)


def test_neighbours_share_most_tiles() -> None:
    tiles = TileCoding(8, 8, low=0.0, high=1.0).fit(np.zeros((1, 2)))
    here, near, far = tiles.transform([[0.5, 0.5], [0.51, 0.5], [0.9, 0.1]]).toarray()
    assert here @ here == 8
    assert here @ near >= 6
    assert here @ far == 0


def test_polynomial_is_every_monomial_of_the_scaled_state() -> None:
    X = states()
    phi = Polynomial(3, **BOX).fit(X).transform(X)
    v = 2 * (X - LOW) / (HIGH - LOW) - 1
    powers = [(i, j) for i in range(4) for j in range(4) if i + j <= 3]
    expected = {tuple(np.round(v[:, 0] ** i * v[:, 1] ** j, 9)) for i, j in powers}
    assert {tuple(np.round(column, 9)) for column in phi.T} == expected


def test_tabular_is_the_identity() -> None:
    np.testing.assert_array_equal(Tabular().fit([[4], [0]]).transform([[2], [4]]), np.eye(5)[[2, 4]])
    sparse = Tabular(5, sparse_output=True).fit([[0]]).transform([[2], [4]])
    assert sp.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), np.eye(5)[[2, 4]])


def test_tabular_numbers_joint_states() -> None:
    joint = Tabular((2, 3)).fit([[0, 0]])
    np.testing.assert_array_equal(joint.transform([[1, 2], [0, 1]]), np.eye(6)[[5, 1]])
    assert joint.get_feature_names_out(["s", "t"])[5] == "s_1,t_2"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tabular().fit([[0.5]]), "row 0 holds"),
        (lambda: Tabular().fit([[0], [-1]]), "row 1 holds -1"),
        (lambda: Tabular(2).fit([[0]]).transform([[0], [2]]), r"below n_states = \[2\], but row 1 holds 2"),
        (lambda: Tabular((2, 2)).fit([[0]]), "one entry for each of 1 columns"),
        (lambda: Tabular(0).fit([[0]]), "`n_states` must be a positive integer"),
        (lambda: Tabular([10_000, 10_000]).fit([[0, 0]]), "1e[+]08 features"),
        (lambda: RBFGrid().fit(np.zeros((2, 9))), "fewer or coarser grids"),
        (lambda: RBFGrid(width=0).fit([[0.0]]), "`width` must be positive"),
        (lambda: RBFGrid((0,)).fit([[0.0]]), "`grids` must be a positive integer"),
        (lambda: RBFGrid(low=[0, 1], high=1).fit([[0.0]]), "`low` must be a number or 1 numbers"),
        (lambda: RBFGrid(low=1.0, high=1.0).fit([[0.0]]), "`high` must exceed `low`.*column 0"),
        (lambda: Fourier(low=-np.inf, high=1.0).fit([[0.0]]), "`low` must be finite"),
        (lambda: Fourier(0).fit([[0.0]]), "`order` must be a positive integer"),
        (lambda: Fourier(9).fit(np.zeros((1, 9))), "lower `order`"),
        (lambda: Polynomial(1.5).fit([[0.0]]), "`degree` must be a positive integer"),
        (lambda: TileCoding(8, 8, hash_size=5).fit([[0.0]]), "`hash_size` must be at least n_tilings"),
        (lambda: TileCoding(8, (2, 3)).fit([[0.0]]), "`n_tiles` must be a number or 1 numbers"),
        (lambda: TileCoding(8, 99).fit(np.zeros((1, 5))), "hash them"),
    ],
)
def test_bad_settings_get_one_sentence(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()


def test_a_column_of_one_value_has_no_width_but_features() -> None:
    np.testing.assert_array_equal(Fourier(1, low=0.0).fit([[0.0]]).transform([[0.0], [1.0]]), [[1, 1], [1, -1]])


@pytest.mark.parametrize("features", MAPS, ids=lambda f: type(f).__name__)
def test_names_clone_and_pickle(features) -> None:  # type: ignore[no-untyped-def]
    X = states()
    for ask in (features.transform, features.get_feature_names_out):
        with pytest.raises(NotFittedError):
            ask(X)
    fitted = clone(features).fit(X)
    phi = fitted.transform(X)
    names = fitted.get_feature_names_out(["position", "velocity"])
    assert len(set(names)) == phi.shape[1]
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    dense = phi.toarray() if sp.issparse(phi) else phi
    again = copy.transform(X)
    np.testing.assert_array_equal(again.toarray() if sp.issparse(again) else again, dense)
    np.testing.assert_array_equal(_dense(fitted.transform(X[7:9])), dense[7:9])  # rows do not depend on one another


def _dense(rows) -> np.ndarray:  # type: ignore[no-untyped-def]
    return rows.toarray() if sp.issparse(rows) else rows


def test_names_carry_the_observation_s_names() -> None:
    X = states()
    assert RBFGrid((2,)).fit(X).get_feature_names_out(["x", "v"])[1] == "rbf2(x:0,v:1)"
    assert list(Fourier(2).fit(X).get_feature_names_out(["x", "v"])[[0, 7]]) == ["1", "cos(pi*(2*x+v))"]
    assert list(Polynomial(2).fit(X).get_feature_names_out(["x", "v"])) == ["1", "x", "v", "x^2", "x v", "v^2"]


@pytest.mark.parametrize("sparse", [False, True])
def test_action_blocks_are_kronecker_products(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    phi, w = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.6), rng.dirichlet(np.ones(3), 6)
    w[0] = [0, 1, 0]
    out = action_blocks(sp.csr_matrix(phi) if sparse else phi, w)
    assert sp.issparse(out) == sparse
    np.testing.assert_allclose(_dense(out), [np.kron(a, b) for a, b in zip(w, phi, strict=True)], rtol=1e-15)


@pytest.mark.parametrize("features", [Fourier(3), RBFGrid(), Polynomial(9), TileCoding()])
def test_many_columns_are_refused_in_words(features):
    with pytest.raises(ValueError, match="This would make"):
        features.fit(np.zeros((2, 900)))
