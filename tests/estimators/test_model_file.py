"""Model files: every estimator comes back and predicts the same bits; nothing else goes in or out."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sparsetd import (
    GTD2MP,
    LSTD,
    ROTD,
    TD,
    TDC,
    LinearTD,
    Transitions,
    ValueFunction,
    estimators,
    load,
    operators,
    penalties,
    save,
    solvers,
)
from sparsetd.estimators import PFGTD, RDATD, model_file
from sparsetd.features import Fourier, RBFGrid, TileCoding
from sparsetd.solvers.found_units import FoundUnits
from sparsetd.storage import container
from sparsetd.storage.container import CorruptFileError

NAMES = ["SOFA", "age", "Größe", "x3"]
ESTIMATORS = [
    cls
    for name in estimators.__all__
    if isinstance(cls := getattr(estimators, name), type)
    and issubclass(cls, estimators.BaseTD)
    and cls is not estimators.BaseTD
]


def data(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=NAMES)
    return X, rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, y = data()
    return TDC(gamma=0.9, step_size=0.05, fit_intercept=True).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_every_estimator_round_trips(cls, tmp_path):
    X, y = data()
    model = cls(gamma=0.8).fit(X, y)
    model_file.save(model, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    assert type(back) is cls
    assert str(back.get_params()) == str(model.get_params())
    assert back.predict(X).tobytes() == model.predict(X).tobytes()
    public = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert public <= set(vars(back))
    assert back.feature_names_in_.tolist() == NAMES
    assert back.history_ == model.history_


def test_parameters_of_every_kind_survive(tmp_path):
    X, y = data()
    model = LSTD(gamma=0.5, unpenalized=("SOFA", 2), alpha=0.25, fit_intercept=True).fit(X, y)
    model_file.save(model, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    assert back.unpenalized == ("SOFA", 2)
    assert back.intercept_ == model.intercept_
    init = TD(coef_init=np.ones(4), step_size=1e-3).fit(X, y)
    model_file.save(init, tmp_path / "m")
    assert model_file.load(tmp_path / "m").coef_init.tolist() == [1.0] * 4
    assert model_file.load(tmp_path / "m").radius == np.inf


MAPS = [None, RBFGrid((3,)), TileCoding(2, 4), StandardScaler(), MinMaxScaler(), Fourier(2)]


@pytest.mark.parametrize("features", MAPS, ids=str)
def test_a_value_function_keeps_its_feature_map(features, tmp_path):
    rng = np.random.default_rng(1)
    s = rng.normal(size=(60, 2))
    log = Transitions.from_arrays(s, rng.normal(size=60), s[::-1], truncated=np.arange(60) % 10 == 9)
    model = ValueFunction(features, LSTD(gamma=0.5, alpha=0.1, fit_intercept=True)).fit(log)
    model_file.save(model, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    assert back.value(s).tobytes() == model.value(s).tobytes()
    assert back.feature_names_.tolist() == model.feature_names_.tolist()


def test_notes_come_back(fitted, tmp_path):
    notes = {"source": "icu.parquet", "scale": np.arange(3.0), "gamma": 0.99}
    model_file.save(fitted, tmp_path / "m", notes=notes)
    back = model_file.read_notes(tmp_path / "m")
    assert back.pop("scale").tolist() == [0.0, 1.0, 2.0]
    assert back == {"source": "icu.parquet", "gamma": 0.99}


def test_the_same_model_gives_the_same_bytes(fitted, tmp_path):
    for name in "ab":
        model_file.save(fitted, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_damage_is_found(fitted, tmp_path):
    path = tmp_path / "m"
    model_file.save(fitted, path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for n in range(0, len(data), 13):
        path.write_bytes(data[:n])
        with pytest.raises(CorruptFileError):
            model_file.load(path)
    for bit in rng.integers(8 * len(data), size=500):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(damaged))
        with pytest.raises(CorruptFileError):
            model_file.load(path)


STREAMS = [
    TD(step_size=0.01, lam=0.5),
    TDC(),
    ROTD(rho_theta=0.01, step_size=0.05, fit_intercept=True),
    ROTD(rho_theta=0.01),
    GTD2MP(step_size=0.05),
    RDATD(rho_theta=0.01),
    PFGTD(),
]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("model", STREAMS, ids=lambda model: type(model).__name__)
def test_a_stream_goes_on_learning_from_a_file(model, kind, tmp_path):
    X, y = data()
    X, first, rest = kind(X * [1.0, 0.01, 1.0, 1.0]), slice(0, 25), slice(25, None)  # automatic steps find units
    whole = clone(model).partial_fit(X[first], y[first]).partial_fit(X[rest], y[rest])
    begun = clone(model).partial_fit(X[first], y[first])
    model_file.save(begun, tmp_path / "m")
    back = model_file.load(tmp_path / "m").partial_fit(X[rest], y[rest])
    np.testing.assert_allclose(back.coef_, whole.coef_, rtol=1e-10, atol=1e-14)
    assert back.n_iter_ == whole.n_iter_
    assert back.history_["n_iter"] == whole.history_["n_iter"]
    begun.partial_fit(X[rest], y[rest])  # saving has not changed what was saved
    np.testing.assert_array_equal(begun.coef_, whole.coef_)
    model_file.save(begun, tmp_path / "small", learning=False)
    with pytest.raises(ValueError, match="holds no solver state"):
        model_file.load(tmp_path / "small").partial_fit(X, y)


def test_a_file_of_version_0_3_0_has_another_name_for_the_units_of_a_stream(tmp_path):
    X, y = data()
    model = TDC().partial_fit(X * [1.0, 0.01, 1.0, 1.0], y)
    assert model._state.units.scale is not None
    FoundUnits.__name__ = "Units"
    try:
        model_file.save(model, tmp_path / "m")
    finally:
        FoundUnits.__name__ = "FoundUnits"
    back = model_file.load(tmp_path / "m").partial_fit(X, y)
    np.testing.assert_array_equal(back.coef_, model.partial_fit(X, y).coef_)


@pytest.mark.parametrize("change", ["x", "record", "totals", "kind", "more", "trace"])
def test_a_state_that_does_not_fit_never_reaches_compiled_code(change, tmp_path):
    X, y = data()
    model = TD(step_size=0.01, lam=0.5).fit(X, y)
    state = model._state
    if change == "kind":
        model._state = replace(state, t="7")
    elif change == "totals":
        model._state = replace(state, totals=replace(state.totals, x=state.totals.x[:, :1].copy()))
    elif change == "more":
        model._state = replace(state, more={"sum_x": np.zeros(3)})
    else:
        model._state = replace(state, **{change: getattr(state, change)[..., :1].copy()})
    model_file.save(model, tmp_path / "m")
    with pytest.raises(CorruptFileError, match="state of its solver does not fit"):
        model_file.load(tmp_path / "m")


def test_a_loaded_batch_model_refuses_to_learn_on_but_can_be_fitted_anew(tmp_path):
    X, y = data()
    fitted = LSTD(alpha=0.1).fit(X, y)
    model_file.save(fitted, tmp_path / "m")
    back = model_file.load(tmp_path / "m")
    with pytest.raises(ValueError, match="holds no solver state"):
        back.partial_fit(X, y)
    for again in (copy.deepcopy(back), pickle.loads(pickle.dumps(back)), clone(back)):  # noqa: S301
        assert again.fit(X, y).coef_.tobytes() == fitted.coef_.tobytes()


def test_what_is_not_ours_is_refused(fitted, tmp_path):
    X, y = data()
    with pytest.raises(TypeError, match="LinearRegression is not an estimator of sparsetd"):
        model_file.save(LinearRegression().fit(X, y), tmp_path / "m")
    with pytest.raises(NotFittedError):
        model_file.save(TD(), tmp_path / "m")

    class Impostor(TD):
        pass

    with pytest.raises(TypeError, match="Impostor is not an estimator"):
        model_file.save(Impostor(step_size=1e-3).fit(X, y), tmp_path / "m")
    with pytest.raises(TypeError, match="TDC: parameter step_size is a function"):
        model_file.save(clone(fitted).set_params(step_size=lambda t: 0.1 / (1 + t)).fit(X, y), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def tampered(fitted, tmp_path, change):
    """A file with a valid digest whose contents were changed."""
    path = tmp_path / "m"
    model_file.save(fitted, path)
    meta, arrays = container.read(path, "model")
    change(meta["model"], arrays)
    container.write(path, "model", meta, arrays)
    return path


def change_coef(model, arrays, value):
    arrays[model["fitted"]["coef_"]["name"]] = value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, _: m.update({"class": "Popen"}), "'Popen', which this version"),
        (lambda m, _: m.update({"class": "DivergenceWarning"}), "DivergenceWarning"),
        (lambda m, _: m["fitted"].update({"n_features_in_": 7}), "weights do not match"),
        (lambda m, _: m["fitted"].update({"predict": 1}), "not a fitted attribute"),
        (
            lambda m, _: m["params"].update({"unknown": 1}),
            "TDC has no parameter 'unknown' in this version: fit it anew",
        ),
        (lambda m, a: change_coef(m, a, np.full(4, np.nan)), "not finite"),
        (lambda m, a: change_coef(m, a, np.zeros(3)), "weights do not match"),
        (lambda m, a: change_coef(m, a, np.zeros(4, dtype=int)), "holds no weights"),
        (lambda m, _: m["fitted"].update({"status_": 1}), "not finite"),
        (lambda m, _: m["fitted"].update({"n_features_in_": None}), "weights do not match"),
        (lambda m, _: m["fitted"].update({"feature_names_in_": "abcd"}), "feature names"),
        (lambda m, _: m["fitted"].pop("coef_"), "holds no weights"),
    ],
)
def test_a_forged_model_is_refused(fitted, tmp_path, change, message):
    with pytest.raises(CorruptFileError, match=message):
        model_file.load(tampered(fitted, tmp_path, change))


def test_a_checkpoint_is_not_a_model(tmp_path):
    container.write(tmp_path / "c", "checkpoint", {}, {})
    with pytest.raises(CorruptFileError, match="holds a 'checkpoint'"):
        model_file.load(tmp_path / "c")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_diverged_model_may_hold_infinities(tmp_path):
    X, y = data()
    model = TD(step_size=1e9, n_passes=5).fit(X, y)
    assert model.status_ == "diverged"
    model.coef_[0] = np.inf
    model_file.save(model, tmp_path / "m")
    assert model_file.load(tmp_path / "m").coef_.tobytes() == model.coef_.tobytes()


def test_many_names_do_not_burst_the_header(tmp_path):
    d = 30_000
    X = pd.DataFrame(np.eye(3, d), columns=[f"a_rather_long_feature_name_number_{i}" for i in range(d)])
    model = ROTD().fit(X, np.ones(3))
    model_file.save(model, tmp_path / "m")
    assert model_file.load(tmp_path / "m").feature_names_in_[-1].endswith(str(d - 1))


def test_parameters_of_older_versions_have_their_present_names(tmp_path):
    X, y = data()
    model = LSTD(alpha=0.25).fit(X, y)
    model_file.save(ValueFunction(None, LSTD(alpha=0.25)).fit(_log()), tmp_path / "v")
    for path in (tampered(model, tmp_path, lambda m, _: _older(m)), tmp_path / "v"):
        meta, arrays = container.read(path, "model")
        if path.name == "v":
            _older(meta["model"]["params"]["estimator"])
            _older(meta["model"]["fitted"]["estimator_"])
        container.write(path, "model", meta, arrays)
        back = model_file.load(path)
        assert getattr(back, "estimator_", back).alpha == 0.25


def _older(node):
    node["params"]["rho_theta"] = node["params"].pop("alpha")


def _log(n_actions=0):
    rng = np.random.default_rng(1)
    s = 3.0 + 2.0 * rng.normal(size=(60, 2))
    action = rng.integers(n_actions, size=60) if n_actions else None
    ends = np.arange(60) % 10 == 9
    return Transitions.from_arrays(s, rng.normal(size=60), s[::-1], action=action, truncated=ends, names=("a", "b"))


def test_a_file_for_serving_holds_the_weights_alone(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 2**18), density=3e-5, rng=rng, format="csr")
    model = ROTD(rho_theta=0.001, step_size=0.1).fit(X, rng.normal(size=300))
    model_file.save(model, tmp_path / "all")
    model_file.save(model, tmp_path / "serving", learning=False)
    back = model_file.load(tmp_path / "serving")
    assert back.predict(X).tobytes() == model.predict(X).tobytes()
    assert not {"aux_", "dual_", "coef_last_", "history_"} & set(vars(back))
    assert (tmp_path / "serving").stat().st_size < 60_000 < (tmp_path / "all").stat().st_size
    assert hasattr(model, "aux_")  # what was saved is as it was


def test_json_predicts_the_same(tmp_path):
    """Read by something that knows nothing of this library but the formula in its documentation."""
    log = _log(n_actions=3)
    s = np.asarray(log.observation)
    for features in (None, StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False)):
        plain = ValueFunction(features, LSTD(gamma=0.5, alpha=0.1, fit_intercept=True)).fit(log)
        model_file.export_json(plain, tmp_path / "m.json")
        told = json.loads((tmp_path / "m.json").read_text())
        values = [
            told["intercept"] + sum(w * row[j] for w, j in zip(told["weights"], told["columns"], strict=True))
            for row in s
        ]
        np.testing.assert_allclose(values, plain.value(s), rtol=1e-12)
        assert (told["features"], told["method"], told["gamma"]) == (["a", "b"], "LSTD", 0.5)
    q = ValueFunction(StandardScaler(), LSTD(gamma=0.5, alpha=0.1)).fit(log, lambda s: np.full((len(s), 3), 1 / 3))
    model_file.export_json(q, tmp_path / "q.json")
    told = json.loads((tmp_path / "q.json").read_text())
    np.testing.assert_allclose(s @ np.transpose(told["weights"]) + told["intercept"], q.q(s), rtol=1e-12)
    with pytest.raises(ValueError, match="JSON holds the weights of columns, and Fourier makes features of them"):
        model_file.export_json(ValueFunction(Fourier(2), LSTD(alpha=0.1)).fit(log), tmp_path / "f.json")
    assert not (tmp_path / "f.json").exists()


def test_json_of_a_hashed_model_has_its_columns_alone(tmp_path):
    X = sp.csr_array(([1.0, 2.0], ([0, 1], [7, 2**20 - 1])), shape=(2, 2**20))
    model_file.export_json(TD(step_size=0.1).fit(X, np.ones(2)), tmp_path / "m.json")
    told = json.loads((tmp_path / "m.json").read_text())
    assert (told["columns"], told["features"], told["n_columns"]) == ([7, 2**20 - 1], None, 2**20)


def test_a_model_that_goes_on_remembers_how_large_its_rewards_were(tmp_path):
    """Today's rewards are small; that yesterday's values are larger is no reason to call them wrong."""
    X = np.eye(2)
    yesterday = TD(gamma=0.0, step_size=0.5).fit(np.tile(X, (50, 1)), np.full(100, 1000.0), np.tile(X, (50, 1)))
    model_file.save(yesterday, tmp_path / "m")
    today = model_file.load(tmp_path / "m").partial_fit(X[:1], [0.001], X[:1])
    assert today.status_ == "finished"


def test_onnx_predicts_the_same(fitted, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    X, _ = data(5)
    for name in "ab":
        model_file.export_onnx(fitted, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    graph = onnx.load(tmp_path / "a")
    assert json.loads(graph.metadata_props[0].value) == NAMES
    (values,) = ReferenceEvaluator(graph).run(None, {"features": X.to_numpy()})
    np.testing.assert_allclose(values[:, 0], fitted.predict(X), rtol=1e-14)


def test_onnx_needs_a_fitted_model(tmp_path):
    pytest.importorskip("onnx")
    with pytest.raises(NotFittedError):
        model_file.export_onnx(TD(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_onnx_of_a_hashed_model_takes_the_kept_columns_alone(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(0)
    X = sp.random_array((300, 2**18), density=3e-5, rng=rng, format="csr")
    model = TD(step_size=0.1).fit(X, rng.normal(size=300))
    model_file.export_onnx(model, tmp_path / "kept", kept_only=True)
    model_file.export_onnx(model, tmp_path / "all")
    assert (tmp_path / "kept").stat().st_size < (tmp_path / "all").stat().st_size / 10
    graph = onnx.load(tmp_path / "kept")
    columns = json.loads({entry.key: entry.value for entry in graph.metadata_props}["columns"])
    assert columns == np.flatnonzero(model.support_).tolist()
    (values,) = ReferenceEvaluator(graph).run(None, {"features": X[:, columns].toarray()})
    np.testing.assert_allclose(values[:, 0], model.predict(X), atol=1e-14)


@pytest.mark.parametrize(
    "parts",
    [
        {"penalty": penalties.L1(0.01)},
        {"operator": operators.tdc(lam=0.5)},
        {"solver": solvers.PrimalDual(step_size=solvers.PowerDecay(0.1))},
        {"solver": solvers.DistanceOverGradients(), "penalty": penalties.Ridge(0.1)},
    ],
    ids=str,
)
def test_a_combination_of_parts_is_read_again_and_goes_on_learning(parts, tmp_path):
    rng = np.random.default_rng(0)
    rows, reward = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = LinearTD(**parts).fit(rows, reward)
    save(model, tmp_path / "model")
    found = load(tmp_path / "model")
    np.testing.assert_array_equal(found.coef_, model.coef_)
    np.testing.assert_array_equal(found.partial_fit(rows, reward).coef_, model.partial_fit(rows, reward).coef_)


def test_a_model_that_could_not_be_read_again_is_not_written(tmp_path):
    @dataclass(frozen=True)
    class Mine(penalties.L1):
        """A penalty of one's own."""

    model = LinearTD(penalty=Mine(0.1)).fit(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="holds Mine, which could not be read again"):
        save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
