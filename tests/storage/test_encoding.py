"""Nested values survive the trip through JSON and arrays, bit for bit; a forged node builds nothing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from sparsetd.storage.container import CorruptFileError, Decoder, Encoder


@dataclass
class Carry:
    discount: float
    seen: int


@dataclass(frozen=True)
class State:
    x: np.ndarray
    carry: Carry


class Pair(NamedTuple):
    left: float
    right: Carry


class Model(BaseEstimator):
    def __init__(self, gamma=0.9, coef_init=None):
        self.gamma = gamma
        self.coef_init = coef_init


CLASSES = {cls.__name__: cls for cls in (Carry, State, Pair, Model)}


def trip(value, classes=CLASSES):
    encoder = Encoder()
    node = json.loads(json.dumps(encoder.encode(value), allow_nan=False))
    return Decoder(encoder.arrays, classes).decode(node)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"))
KEYS = st.text(max_size=3).filter(lambda key: key != "~")
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=20) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)


@given(TREES)
def test_any_nested_value_round_trips(value):
    back = trip(value)
    assert repr(back) == repr(value)  # repr tells −0.0 from 0.0, True from 1, and NaN is NaN


@pytest.mark.parametrize("n", [0, 1, 16, 17, 1000])
def test_long_lists_become_arrays_and_return_as_lists(n):
    fit, do_not_fit = ([0.1 * n, -0.0], [n, 2**63 - 1], [-(2**63)]), ([2**63], [-(2**63) - 1], [True])
    for item in (*fit, *do_not_fit):
        encoder, value = Encoder(), (item * n)[:n]
        encoder.encode(value)
        assert repr(trip(value)) == repr(value)
        assert len(encoder.arrays) == (n > 16 and item in fit)


@pytest.mark.parametrize(
    "value",
    [np.float32(0.1), np.int64(-3), np.bool_(True), np.float64("nan"), np.uint8(255), np.complex64(1j)],
    ids=repr,
)
def test_numpy_scalars_keep_their_type(value):
    back = trip(value)
    assert type(back) is type(value)
    assert back.tobytes() == value.tobytes()


@pytest.mark.parametrize(
    "names",
    [
        np.array(["SOFA", "Träger", "日本", ""], dtype=object),
        np.array([["a", "bb"], ["ccc", "d"]]),
        np.array([], dtype=object),
        np.array("x"),
    ],
    ids=["object", "unicode", "empty", "scalar"],
)
def test_text_arrays_round_trip(names):
    back = trip(names)
    assert back.dtype == names.dtype
    assert back.shape == names.shape
    assert back.tolist() == names.tolist()


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_sparse_rows_round_trip(kind):
    value = kind(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
    back = trip(value)
    assert type(back) is sp.csr_array
    np.testing.assert_array_equal(back.toarray(), value.toarray())


def test_records_round_trip():
    pair, state = Pair(0.25, Carry(0.5, 2)), State(np.arange(3.0), Carry(0.5, 2))
    assert repr(trip(pair)) == repr(pair)
    back = trip(state)
    assert type(back) is State
    assert back.carry == state.carry
    np.testing.assert_array_equal(back.x, state.x)


def test_reading_a_dataclass_does_not_run_its_code():
    made = []

    @dataclass
    class Loud:
        x: int

        def __post_init__(self):
            made.append(self.x)

    assert trip(Loud(3), {"Loud": Loud}).x == 3
    assert made == [3]


def test_estimators_round_trip_without_private_attributes():
    model = Model(0.5, np.ones(2))
    model.coef_, model._cache = np.array([1.0, -0.0]), object()
    back = trip(model)
    assert back.gamma == 0.5
    assert back.coef_.tobytes() == model.coef_.tobytes()
    assert not hasattr(back, "_cache")
    assert list(Encoder().encode(model)["fitted"]) == ["coef_"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, len]}, r"value\.a\[1\] is a builtin"),
        (Model(gamma=abs), "parameter gamma is a builtin"),
        ({"a": {1, 2}}, "a set"),
        (sp.coo_array(np.eye(2)), "tocsr"),
        (sp.csc_array(np.eye(2)), "tocsr"),
        ({"a": {1: 2}}, r"value\.a is a dict"),
        ({"~": "array"}, "value is a dict"),
        ([np.random.default_rng()], r"value\[0\] is a Generator"),
        (np.array(["a", 1], dtype=object), r"value\[1\] is a int"),
        (b"bytes", "a bytes"),
        (Carry, "a type"),
    ],
)
def test_what_cannot_be_stored_is_named(value, message):
    with pytest.raises(TypeError, match=message):
        Encoder().encode(value)


@pytest.mark.parametrize(
    "node",
    [
        {"~": "eval", "v": "1"},
        {"~": "class", "v": "1"},
        {"~": "decode"},
        {"~": ["array"]},
        {"~": "array", "name": "9"},
        {"~": "array"},
        {"~": "float", "v": "1e999"},
        {"~": "record", "class": "Popen", "v": {}},
        {"~": "record", "class": "Model", "v": {}},
        {"~": "record", "class": "Carry", "v": {"discount": 0.0}},
        {"~": "record", "class": "Carry", "v": {"discount": 0.0, "seen": 1, "more": 2}},
        {"~": "estimator", "class": "Carry", "params": {}, "fitted": {}},
        {"~": "estimator", "class": "Model", "params": {"no_such": 1}, "fitted": {}},
        {"~": "estimator", "class": "Model", "params": {}, "fitted": {"get_params": 1}},
        {"~": "estimator", "class": "Model", "params": {}, "fitted": {"__class__": 1}},
        {"~": "estimator", "class": "Model", "params": {}, "fitted": {"_state": 1}},
        {"~": "generator", "class": "PCG64", "v": {"state": 3}},
        {"~": "sparse", "class": "csr_array", "shape": [2, 2], "data": "0", "indices": "0", "indptr": "0"},
        {"~": "sparse", "class": "csr_array", "shape": [-2, 2], "data": "0", "indices": "0", "indptr": "0"},
        {"~": "sparse", "class": "csr_array", "shape": [1, 9], "data": "0", "indices": "4", "indptr": "5"},
        {"~": "strings", "text": "0", "ends": "0", "shape": [10**30], "dtype": "O"},
        {"~": "strings", "text": "1", "ends": "2", "shape": [1], "dtype": "<U2000000000"},
        {"~": "strings", "text": "1", "ends": "2", "shape": [1], "dtype": "<f8"},
        {"~": "strings", "text": "1", "ends": "2", "shape": [1], "dtype": "090<U1"},
        {"~": "nonzeros", "at": "2", "v": "2", "shape": [2]},
        {"~": "nonzeros", "at": "0", "v": "0", "shape": [10]},
        {"~": "nonzeros", "at": "3", "v": "2", "shape": [10]},
        {"~": "nonzeros", "at": "2", "v": "0", "shape": [10]},
        {"~": "nonzeros", "at": "2", "v": "2", "shape": [10**30]},
        {"~": "nonzeros", "at": "2", "v": "2", "shape": [-5, -2]},
        {"~": "nonzeros", "at": "2", "v": "2", "shape": [1 << 20, 1 << 20]},
        {"~": "nonzeros", "at": "2", "v": "2", "shape": ["10"]},
        {"~": "sparse", "class": "csc_array", "shape": [1, 9], "data": "0", "indices": "2", "indptr": "5"},
        {"~": "items", "v": [[1, 2]]},
        {"~": "tuple", "v": 3},
    ],
    ids=lambda node: str(node)[:60],
)
def test_a_forged_node_is_refused(node):
    arrays = {"0": np.array([5.0, 7.0]), "1": np.frombuffer(b"ab", np.uint8), "2": np.array([2]), "3": np.array([-1])}
    arrays |= {"4": np.array([0, 9]), "5": np.array([0, 2])}
    with pytest.raises(CorruptFileError):
        Decoder(arrays, CLASSES).decode(node)


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8", "<i4", "|b1", "|u1"])
@pytest.mark.parametrize("shape", [(100_000,), (2, 50_000), (100, 10, 100)])
def test_long_arrays_of_mostly_zeros_are_stored_by_the_others(shape, dtype):
    value = np.zeros(shape, dtype)
    value.ravel()[[3, 70_000, 99_999]] = np.array([1.5, -0.0, np.nan]).astype(dtype) if "f" in dtype else 1
    encoder = Encoder()
    node = encoder.encode(value)
    assert sum(array.nbytes for array in encoder.arrays.values()) <= 3 * 12
    back = Decoder(encoder.arrays).decode(node)
    assert (back.shape, back.dtype, back.tobytes()) == (value.shape, value.dtype, value.tobytes())


@pytest.mark.parametrize("value", [np.zeros((2, 9_000), order="F"), np.zeros(9_000, np.longdouble)], ids=["F", "long"])
def test_other_long_arrays_are_stored_as_they_are(value):
    back = trip(value)
    assert (back.dtype, back.tobytes("A")) == (value.dtype, value.tobytes("A"))
    assert back.flags.c_contiguous == value.flags.c_contiguous


def test_what_a_file_may_unfold_to_is_bounded(monkeypatch):
    monkeypatch.setattr("sparsetd.storage.container.ROOM", 1_200_000)  # just enough for one
    zeros = np.zeros(100_000)
    encoder = Encoder()
    node = encoder.encode([zeros, zeros])
    assert [item["~"] for item in node] == ["nonzeros", "array"]
    assert Decoder(encoder.arrays).decode(node)[1].tobytes() == zeros.tobytes()
    with pytest.raises(CorruptFileError, match="names an array twice"):
        Decoder(encoder.arrays).decode([node[0], node[0]])
    monkeypatch.setattr("sparsetd.storage.container.ROOM", 799_999)
    with pytest.raises(CorruptFileError, match="claim more memory than a file may"):
        Decoder(encoder.arrays).decode(node)


def test_no_float_is_rounded():
    values = [math.pi, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, -0.0]
    assert [v.hex() for v in trip(values)] == [v.hex() for v in values]
