"""Model files: an estimator on disk, readable in ten years and safe to open.

    save(model, "sepsis.sparsetd")            model = load("sepsis.sparsetd")
    export_json(model, "sepsis.json")         export_onnx(model, "sepsis.onnx")

The file holds the class's name, its parameters, its fitted attributes with the names of the features, and a SHA-256
over everything (see `container`). It contains no pickle: loading looks the name up among the estimators of this package
and fills in numbers. Anything else (a callable parameter, another package's estimator) is refused when saving, by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from sparsetd._tools.progress import say
from sparsetd.estimators.plausible import Watch
from sparsetd.estimators.validation import check_parameters
from sparsetd.estimators.value_function import ValueFunction
from sparsetd.solvers.found_units import FoundUnits
from sparsetd.solvers.state import Places, StreamState, Totals
from sparsetd.storage import container
from sparsetd.storage.atomic import replace_file
from sparsetd.storage.container import CorruptFileError, Decoder, Encoder, is_record
from sparsetd.system import Table, TraceCarry

__all__ = ["export_json", "export_onnx", "load", "read_notes", "save"]

KIND = "model"
HOMES = ("estimators", "selection", "features", "penalties", "solvers")  # where the classes that a file may hold are
STATES = (StreamState, Totals, TraceCarry, FoundUnits, Places)  # what the state of a stream is made of
LEARNING = ("aux_", "coef_last_", "dual_", "history_")  # attributes that no prediction needs
RENAMED = {"LSTD": {"rho_theta": "alpha"}, "SparseTDCV": {"cv": "n_folds"}}  # parameters since version 0.2
OLD_NAMES = {"SparseTDCV": "SparseTDSelect"}  # classes since version 0.2


class NoState:
    """Stands where a fitted model keeps its solver's state, if the file has none: the model refuses to learn on."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueError(
            "This model comes from a file, which holds no solver state: go on from a file that `sparsetd fit --out` or "
            "`save` wrote of a method that learns row by row (TD, TDC, ROTD …), not from an export, or fit it anew."
        )


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    notes: Mapping[str, Any] | None = None,
    learning: bool = True,
) -> None:
    """Write a fitted estimator of this package, or a policy that `improve` found, to `path`, atomically.

    `notes` are kept beside the model and handed back by `read_notes`: where the data came from, how features were made.
    With `learning` the state of a streaming method is kept too, so that `load(path).partial_fit` and `fit_stream` go on
    learning. Without it the file is for serving: of the weights it holds `coef_` alone, and is many times smaller.
    Batch methods would have to keep the rows, so they cannot go on.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sparsetd import load, save
    >>> from sparsetd.estimators import LSTD
    >>> X = np.eye(3)
    >>> model = LSTD(gamma=0.9).fit(X, [0.0, 0.0, 1.0], X[[1, 2, 2]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "model.sparsetd")
    >>> save(model, path, notes={"log": "sepsis, 2024"})
    >>> load(path).predict(X).round(2).tolist()
    [8.1, 9.0, 10.0]
    >>> folder.cleanup()
    """
    if isinstance(model, BaseEstimator):  # a policy is a record, and has nothing to fit
        check_is_fitted(model)
    if type(model) is not known_classes().get(type(model).__name__):
        raise TypeError(f"{type(model).__name__} is not an estimator of sparsetd: a model file holds no other class.")
    inner, encoder = getattr(model, "estimator_", model), Encoder()
    state, watch = getattr(inner, "_state", None), getattr(inner, "_watch", Watch())
    meta = {
        "state": encoder.encode(state.settled() if learning and isinstance(state, StreamState) else None, "state"),
        "largest": [watch.low, watch.high, watch.discount],
        "model": encoder.encode(model if learning else _served(model), type(model).__name__),
        "notes": encoder.encode(dict(notes or {}), "notes"),
        "sparsetd": version("sparsetd"),
    }
    unknown = encoder.records - {*known_classes().values(), *STATES}
    if unknown:
        names = ", ".join(sorted(cls.__name__ for cls in unknown))
        raise TypeError(f"The model holds {names}, which could not be read again: save classes of sparsetd only.")
    container.write(path, KIND, meta, encoder.arrays)


def _served(model: Any) -> Any:
    """A copy of the model with what predicting needs."""
    model = copy(model)
    for name in LEARNING:
        vars(model).pop(name, None)
    if hasattr(model, "estimator_"):
        model.estimator_ = _served(model.estimator_)
    return model


def load(path: str | os.PathLike[str]) -> Any:
    """Load the estimator or policy that `save` wrote, ready to predict and, where its state was kept, to learn on.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sparsetd import load, save
    >>> from sparsetd.estimators import LSTD
    >>> X = np.eye(3)
    >>> model = LSTD(gamma=0.9).fit(X, [0.0, 0.0, 1.0], X[[1, 2, 2]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "model.sparsetd")
    >>> save(model, path)
    >>> type(load(path)).__name__
    'LSTD'
    >>> bool(np.all(load(path).coef_ == model.coef_))
    True
    >>> folder.cleanup()
    """
    return _read(path, "model")


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the notes that `save` stored beside a model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sparsetd.estimators.model_file import read_notes, save
    >>> from sparsetd.estimators import LSTD
    >>> X = np.eye(3)
    >>> model = LSTD(gamma=0.9).fit(X, [0.0, 0.0, 1.0], X[[1, 2, 2]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "model.sparsetd")
    >>> save(model, path, notes={"log": "sepsis, 2024"})
    >>> read_notes(path)
    {'log': 'sepsis, 2024'}
    >>> folder.cleanup()
    """
    return _read(path, "notes")


def columns_of_fit(notes: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The names by role of the columns that the model with these notes was fitted to, but for the roles given now."""
    fitted = {"buckets": notes["buckets"]} if notes.get("buckets") else {}  # as version 0.3.0 wrote it
    fitted |= {role: named for role, named in notes.get("columns", {}).items() if role not in (*given, "sql")}
    if fitted:
        told = (f"{role}={','.join(named) if isinstance(named, list) else named}" for role, named in fitted.items())
        say(f"columns are named as for the fit: {', '.join(told)} (--column names others)")
    return fitted


def export_json(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a linear model as JSON that programs in any language can read.

    The value of a row is V = intercept + Σ weights[i] · x[columns[i]].

    `x` is a row of what the model was fitted to; the means and scales of a `StandardScaler` are part of the weights.
    `features` are the names of these columns, where there are names. Columns without weight are left out. A model of
    action values has a list of weights and an intercept for each action.

    Examples
    --------
    >>> import json
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sparsetd.estimators.model_file import export_json
    >>> from sparsetd.estimators import LSTD
    >>> X = np.eye(3)
    >>> model = LSTD(gamma=0.9).fit(X, [0.0, 0.0, 1.0], X[[1, 2, 2]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "model.json")
    >>> export_json(model, path)
    >>> told = json.loads(path.read_text())
    >>> told["columns"], np.round(told["weights"], 2).tolist()
    ([0, 1, 2], [8.1, 9.0, 10.0])
    >>> folder.cleanup()
    """
    check_is_fitted(model)
    inner, scaler = getattr(model, "estimator_", model), getattr(model, "features_", None)
    if not hasattr(inner, "coef_") or not isinstance(scaler, (StandardScaler, type(None))):
        what = type(model if scaler is None else scaler).__name__
        raise ValueError(f"JSON holds the weights of columns, and {what} makes features of them: save a model file.")
    n_actions = getattr(model, "n_actions_", None)
    weights = np.asarray(inner.coef_, dtype=np.float64).reshape(n_actions or 1, -1)  # one row for each action
    intercept = np.full(len(weights), float(inner.intercept_))
    if scaler is not None:  # into the units of the rows that the model was fitted to
        weights = weights / scaler.scale_ if scaler.with_std else weights
        intercept = intercept - weights @ scaler.mean_ if scaler.with_mean else intercept
    columns, names = np.flatnonzero(weights.any(axis=0)), getattr(model, "feature_names_in_", None)
    weights, per_action = weights[:, columns], n_actions is not None
    told = {
        "format": "sparsetd linear value function",
        "version": 1,
        "method": type(inner).__name__,
        "gamma": inner.gamma,
        "n_columns": int(getattr(model, "n_observed_", inner.n_features_in_)),
        "columns": columns.tolist(),
        "features": None if names is None else [str(names[j]) for j in columns],
        "weights": weights.tolist() if per_action else weights[0].tolist(),
        "intercept": intercept.tolist() if per_action else float(intercept[0]),
    }
    replace_file(path, json.dumps(told, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def export_onnx(model: Any, path: str | os.PathLike[str], *, kept_only: bool = False) -> None:
    """Write a linear model as an ONNX graph, to serve it where there is no Python.

    V(s) = θᵀφ(s) + intercept is a graph of one `Gemm`: features (n, d) in, values (n, 1) out, float64.

    Feature maps stay outside: what goes in is φ(s). The names of the features are kept in the file's metadata. With
    `kept_only` the input holds the features of `support_` alone, in order, and the metadata their numbers: a model of
    millions of hashed features takes only the room of those that it kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import onnx
    >>> from sparsetd.estimators.model_file import export_onnx
    >>> from sparsetd.estimators import LSTD
    >>> X = np.eye(3)
    >>> model = LSTD(gamma=0.9).fit(X, [0.0, 0.0, 1.0], X[[1, 2, 2]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "model.onnx")
    >>> export_onnx(model, path)
    >>> [node.op_type for node in onnx.load(path).graph.node]
    ['Gemm']
    >>> folder.cleanup()
    """
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError:
        raise ImportError("ONNX export needs onnx: pip install onnx.") from None
    check_is_fitted(model, "coef_")
    kept = np.flatnonzero(model.support_) if kept_only else np.arange(len(model.coef_))
    theta = np.asarray(model.coef_, dtype=np.float64)[kept, None]
    constant = np.array([model.intercept_], dtype=np.float64)
    kind = onnx.TensorProto.DOUBLE
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["features", "theta", "intercept"], ["value"])],
        "value",
        [helper.make_tensor_value_info("features", kind, ["n", len(theta)])],
        [helper.make_tensor_value_info("value", kind, ["n", 1])],
        [numpy_helper.from_array(theta, "theta"), numpy_helper.from_array(constant, "intercept")],
    )
    # Old enough for every runtime in use; nothing here is newer than Gemm 13.
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="sparsetd")
    names = getattr(model, "feature_names_in_", None)
    features, columns = [] if names is None else [names[j] for j in kept], kept.tolist() if kept_only else []
    helper.set_model_props(file, {"features": json.dumps(features), "columns": json.dumps(columns)})
    onnx.checker.check_model(file)
    replace_file(path, file.SerializeToString(deterministic=True))


def known_classes() -> dict[str, type]:
    """Every class a model file may hold, by name: estimators and their parts, feature maps, two scalers, a policy."""
    modules = [import_module(f"sparsetd.{name}") for name in HOMES]  # by name: some of them stand above this one
    public = [getattr(module, name) for module in modules for name in module.__all__]
    known = [item for item in public if isinstance(item, type) and (issubclass(item, BaseEstimator) or is_record(item))]
    policy = import_module("sparsetd.evaluation").ScorePolicy
    return {item.__name__: item for item in (*known, StandardScaler, MinMaxScaler, Table, policy)}


def _read(path: str | os.PathLike[str], part: str) -> Any:
    meta, arrays = container.read(path, KIND)
    try:
        states = {cls.__name__: cls for cls in STATES} | {"Units": FoundUnits}  # its name in version 0.3.0
        decoder = Decoder(arrays, known_classes() | states)
        value = decoder.decode(_renamed(meta.get(part)))
        if part == "model":
            _check(value, decoder.decode(meta.get("state")), decoder.decode(meta.get("largest")))
    except CorruptFileError as error:
        raise CorruptFileError(f"{os.fspath(path)}: {error}") from None
    return value


def _renamed(node: Any) -> Any:
    """The node of a model with the parameters of older versions under their present names."""
    if isinstance(node, dict) and isinstance(node.get("params"), dict):
        new = RENAMED.get(str(node.get("class")), {})
        params = {new.get(name, name): _renamed(value) for name, value in node["params"].items()}
        cls = OLD_NAMES.get(str(node.get("class")), node.get("class"))
        return {**node, "class": cls, "params": params, "fitted": _renamed(node.get("fitted"))}
    return {name: _renamed(value) for name, value in node.items()} if isinstance(node, dict) else node


def _check(model: Any, state: Any, largest: Any) -> None:
    """Refuse a fitted model of any class without one finite weight, and one name, per feature."""
    if is_record(type(model)):  # a policy
        if not model.fits():
            raise CorruptFileError("the tables of its policy do not fit together.")
        return
    outer, model = model, getattr(model, "estimator_", None) if isinstance(model, ValueFunction) else model
    coef, status = getattr(model, "coef_", None), getattr(model, "status_", "")
    if not isinstance(model, BaseEstimator) or not isinstance(coef, np.ndarray) or coef.dtype.kind != "f":
        raise CorruptFileError("holds no weights.")
    d = getattr(model, "n_features_in_", None)
    if type(d) is not int or coef.ndim == 0 or coef.shape[-1] != d:
        raise CorruptFileError("its weights do not match its number of features.")
    observed = d if outer is model else getattr(outer, "n_observed_", None)
    for owner, width in ((outer, observed), (model, d)):
        names = getattr(owner, "feature_names_in_", None)
        named = names is None or (isinstance(names, np.ndarray) and names.shape == (width,))
        if type(width) is not int or not named:
            raise CorruptFileError("its feature names do not match its columns.")
    if not isinstance(status, str) or (status not in ("diverged", "suspicious") and not np.isfinite(coef).all()):
        raise CorruptFileError("its weights are not finite.")
    known = isinstance(largest, list) and len(largest) == 3 and all(isinstance(v, (int, float)) for v in largest)
    # An older file does not tell the range of rewards; without it no value can be called suspicious.
    model._state, model._watch = NoState(), Watch(*largest) if known else Watch(-np.inf, np.inf)
    if state is not None:
        _continue(model, state)


def _continue(model: Any, state: Any) -> None:
    """Put a state that fits the model's settings back in its place."""
    try:
        check_parameters(model.get_params(deep=False))
        table, _, solver = model.triple()
        # Fresh states of one and of two features show which sizes grow with the features; see `fits`.
        one, two = (solver.init(table, n, state.x.dtype) for n in (1, 2))
        for n, fresh in enumerate((one, two), start=1):
            if fresh.units is not None and state.units.scale is not None:  # it has found units
                fresh.units = FoundUnits(fresh.units.moments, 0, np.ones(n), np.ones(n))
        width = len(model.coef_) + int(model.fit_intercept)
        fitting = state.x.dtype.kind == "f" and fits(state, one, two, width)
        fitting &= state.units is None or -1 <= state.units.constant < width
    except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError):
        fitting = False
    if not fitting:
        raise CorruptFileError("the state of its solver does not fit its settings.")
    model._state, model._last = state, state.primal[-1].astype(np.float64)


def fits(state: Any, one: Any, two: Any, n_features: int) -> bool:
    """Whether a state from a file has the kinds and shapes of n features, told by fresh states of one and two of them.

    Compiled code does not check bounds: nothing that fails here may reach it.
    """
    if type(state) is not type(one):
        return False
    if isinstance(one, np.ndarray):
        shape = tuple(a if a == b else n_features for a, b in zip(one.shape, two.shape, strict=True))
        return bool(state.shape == shape and state.dtype == one.dtype and state.flags.forc)
    if is_dataclass(one):
        state, one, two = ({f.name: getattr(v, f.name) for f in fields(one)} for v in (state, one, two))
    if isinstance(one, dict):
        return state.keys() == one.keys() and all(fits(state[k], one[k], two[k], n_features) for k in one)
    return True
