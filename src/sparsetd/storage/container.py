"""One file format for models, checkpoints and kept work: a JSON header, raw arrays, a SHA-256 of everything before it.

    magic (8) · header length (8, little-endian) · header (JSON) · arrays (each on a 64-byte boundary) · SHA-256 (32)

The digest is verified before a byte of the header is believed, so any cut and any flipped bit is found. A file holds
numbers and text and no code, so loading runs none. A load is bounded: the header is at most 1 MB, and the arrays lie
one after the other and are used where they lie, so a file takes its own size in memory. A file is written all at once
(see `atomic`).

Nested Python values become JSON plus named arrays, and back, without losing a bit. Numbers, text, lists, tuples, dicts
with names, NumPy arrays and scalars, arrays of strings and CSR rows are written as themselves; a dataclass or an
estimator is written as its class's name and its fields. Values that JSON lacks become an object {"~": tag, …}. Long
lists of numbers and arrays of strings go into arrays, so the header stays short. A long array of mostly zeros is stored
by its other entries, so a model of 10⁷ hashed features takes only the room of those that have a weight.

Reading builds only the classes it is handed (`classes`), by name: a file cannot choose what is constructed. Every array
is used once. Values that take more room in memory than in the file (zeros, lists, text) are counted before they are
made.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import operator
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sparsetd.storage.atomic import replace_file
from sparsetd.system import Array

MAGIC = b"\x93STD\r\n\x1a\n"
VERSION = 1
MAX_HEADER = 1_000_000
ALIGN = 64
DIGEST = 32
PREFIX = len(MAGIC) + 8
# Plain numbers: nothing that holds a pointer.
DTYPES = frozenset(("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"))
TAG = "~"
SHORT = 16  # a list of numbers longer than this is stored as an array
LONG = 4096  # an array with more entries is stored by its non-zeros if these take less than half the room …
ROOM = 80 * 2**20  # bytes that a file may take in memory beyond its own size: no file is a bomb
NUMBER, TEXT = 40, 64  # bytes that an entry of a list takes, and a piece of text beside its letters


class CorruptFileError(ValueError):
    """Report that a file was cut short, was altered, or is of another kind."""


def write(
    path: str | os.PathLike[str], kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Array], *, tidy: bool = True
) -> None:
    """Write a header and arrays to `path`, atomically. `kind` ("model", "entry") is checked on reading."""
    replace_file(path, pack(kind, meta, arrays), tidy=tidy)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the header and the arrays of a file that `write` made; raise `CorruptFileError` if anything is amiss."""
    try:
        with open(path, "rb") as file:
            data = bytearray(os.fstat(file.fileno()).st_size)  # a device has size 0, so it is not read
            file.readinto(data)
        return unpack(data, kind)
    except CorruptFileError as error:
        raise CorruptFileError(f"{os.fspath(path)}: {error}") from None


def pack(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Lay out a header and arrays as the bytes of a file."""
    entries, blocks, offset = {}, [], 0
    for name, array in arrays.items():
        order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        data = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if data.dtype.str not in DTYPES:
            raise TypeError(f"{name} has dtype {array.dtype}; only plain numbers can be stored.")
        raw = data.tobytes(order=order)  # the layout is kept: it decides the order of a BLAS sum
        entries[name] = {"dtype": data.dtype.str, "shape": list(data.shape), "order": order, "offset": offset}
        blocks.append(raw + b"\0" * (-len(raw) % ALIGN))
        offset += len(blocks[-1])
    text = {"version": VERSION, "kind": kind, "size": offset, "meta": meta, "arrays": entries}
    header = json.dumps(text, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    header += b" " * (-(PREFIX + len(header)) % ALIGN)
    if len(header) > MAX_HEADER:
        raise ValueError(f"The header takes {len(header)} bytes, more than {MAX_HEADER}: store long lists as arrays.")
    body = b"".join([MAGIC, len(header).to_bytes(8, "little"), header, *blocks])
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes | bytearray, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header's `meta` and the arrays in the bytes of a file; the arrays share the memory of a bytearray."""
    data = data if isinstance(data, bytearray) else bytearray(data)
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptFileError("not a sparsetd file.")
    if len(data) < PREFIX + DIGEST or hashlib.sha256(memoryview(data)[:-DIGEST]).digest() != data[-DIGEST:]:
        raise CorruptFileError("the checksum does not match: the file was cut short or altered; use a copy.")
    length = int.from_bytes(data[len(MAGIC) : PREFIX], "little")
    if length > min(MAX_HEADER, len(data) - PREFIX - DIGEST):
        raise CorruptFileError(f"the header claims {length} bytes, more than is allowed.")
    header = _header(bytes(data[PREFIX : PREFIX + length]))
    if header["version"] != VERSION:
        raise CorruptFileError(f"written in format {header['version']!r}, not {VERSION}: upgrade sparsetd.")
    if header["kind"] != kind:
        raise CorruptFileError(f"holds a {header['kind']!r}, not a {kind!r}.")
    body = memoryview(data)[PREFIX + length : -DIGEST]
    # Each array begins where the one before ends, and together they fill the file.
    arrays, offset = dict[str, Array](), 0
    for name, entry in header["arrays"].items():
        arrays[name] = _array(name, entry, body, offset)
        offset += arrays[name].nbytes + -arrays[name].nbytes % ALIGN
    if not offset == header["size"] == len(body):
        raise CorruptFileError("the arrays do not fill the file.")
    return header["meta"], arrays


def _header(raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw, object_pairs_hook=distinct)
    except (ValueError, RecursionError) as error:
        wrong = "says something twice" if "twice" in str(error) else "is not JSON"
        raise CorruptFileError(f"the header {wrong}.") from None
    types = {"version": int, "kind": str, "size": int, "meta": dict, "arrays": dict}
    if not isinstance(header, dict) or any(not isinstance(header.get(key), kind) for key, kind in types.items()):
        raise CorruptFileError("the header lacks a field.")
    return header


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of a JSON text, and refuse a name that occurs twice: `json` would silently keep the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"it names {twice[:40]!a} twice")
    return found


def _array(name: str, entry: Any, body: memoryview, begin: int) -> Array:
    """One array; its extent is computed with Python integers, which do not overflow."""
    try:
        dtype, shape, order, offset = entry["dtype"], tuple(entry["shape"]), entry["order"], entry["offset"]
        sizes_ok = len(shape) <= 32 and all(type(n) is int and n >= 0 for n in (*shape, offset))
    except (TypeError, KeyError):
        raise CorruptFileError(f"the array {name!r} is not described.") from None
    if not isinstance(dtype, str) or dtype not in DTYPES or order not in ("C", "F") or not sizes_ok:
        raise CorruptFileError(f"the array {name!r} is described wrongly.")
    count, extent = math.prod(shape), math.prod(max(n, 1) for n in shape)
    if offset != begin or offset + count * np.dtype(dtype).itemsize > len(body) or extent > 2**48:
        raise CorruptFileError(f"the array {name!r} reaches beyond its place in the file.")
    flat = np.frombuffer(body, dtype=dtype, count=count, offset=offset) if count else np.empty(0, dtype)
    return flat.reshape(shape, order=order)


def is_record(cls: type) -> bool:
    """Return whether a class is a plain bundle of fields: a dataclass (no estimator) or a named tuple."""
    named = issubclass(cls, tuple) and hasattr(cls, "_fields")
    return named or (is_dataclass(cls) and not issubclass(cls, BaseEstimator))


def _names_of(record: type) -> tuple[str, ...]:
    return getattr(record, "_fields", None) or tuple(f.name for f in fields(record))


class Encoder:
    """Turns values into JSON nodes and collects the arrays they refer to.

    `compact` is for files: zeros are written short, and functions are refused. Otherwise the nodes only serve a digest,
    and functions of modules are allowed.
    """

    def __init__(self, compact: bool = True) -> None:
        self.arrays: dict[str, Array] = {}
        self.records: set[type] = set()  # the classes of records that were written
        self.code: set[Any] = set()  # all classes and functions met, whose code is not in the nodes
        self.room, self.compact = ROOM, compact

    def encode(self, value: Any, where: str = "value") -> Any:
        """The JSON node of `value`; `where` names it in an error."""
        match value:
            case None | bool() | str() | int():
                return value
            case np.generic():  # before float, which some of them are
                return {TAG: "scalar", "name": self._put(np.asarray(value))}
            case float():
                return value if math.isfinite(value) else {TAG: "float", "v": repr(value)}
            case np.ndarray() if value.dtype.kind in "OUT":
                return self._strings(value, where)
            case np.ndarray():
                return self._nonzeros(value) or {TAG: "array", "name": self._put(value)}
            case dict() if TAG not in value and all(isinstance(key, str) for key in value):
                return self._fields(value, f"{where}.")
            case list():
                return self._numbers(value, where) or self._each(value, where)
            case sp.sparray() | sp.spmatrix():
                if value.format != "csr":
                    raise TypeError(f"{where} is a sparse matrix in {value.format} format: convert it with .tocsr().")
                parts = {part: self._put(getattr(value, part)) for part in ("data", "indices", "indptr")}
                return {TAG: "sparse", "class": "csr_array", "shape": list(value.shape), **parts}
            case BaseEstimator():
                self.code.add(type(value))
                params = value.get_params(deep=False)
                fitted = {key: v for key, v in vars(value).items() if key not in params and not key.startswith("_")}
                named = {"params": self._fields(params, f"{where}: parameter ")}
                named |= {"fitted": self._fields(fitted, f"{where}: attribute ")}
                return {TAG: "estimator", "class": type(value).__name__, **named}
            case tuple() if not is_record(type(value)):
                return {TAG: "tuple", "v": self._each(value, where)}
        if is_record(type(value)):
            self.records.add(type(value))
            self.code.add(type(value))
            named = {name: getattr(value, name) for name in _names_of(type(value))}
            return {TAG: "record", "class": type(value).__name__, "v": self._fields(named, f"{where}.")}
        if inspect.isroutine(value) and not self.compact:
            return self._name_of(value, where)
        raise TypeError(f"{where} is a {type(value).__name__}, which a file cannot hold: use numbers, text or arrays.")

    def _name_of(self, function: Any, where: str) -> dict[str, str]:
        """The node of a function in a digest: its name, if that leads to the function."""
        name = function.__qualname__
        if "<" in name:  # <lambda>, or <locals> of another function
            what = f"{where} is {name}, which is not a function of a module, so its results cannot be kept"
            raise TypeError(f"{what}: define it in a module.")
        self.code.add(function)
        return {TAG: "function", "v": f"{function.__module__}.{name}"}

    def _fields(self, named: Mapping[str, Any], where: str) -> dict[str, Any]:
        return {key: self.encode(item, where + key) for key, item in named.items()}

    def _each(self, values: Sequence[Any], where: str) -> list[Any]:
        return [self.encode(item, f"{where}[{i}]") for i, item in enumerate(values)]

    def _spend(self, size: int, where: str) -> None:
        """Count the memory that reading will take, and refuse to write a file that would exceed it."""
        self.room -= size
        if self.room < 0 and self.compact:
            raise ValueError(f"{where} takes more memory than a file may ask for: keep fewer names or shorter lists.")

    def _put(self, array: Array) -> str:
        name = str(len(self.arrays))
        self.arrays[name] = array
        return name

    def _strings(self, value: Array, where: str) -> Any:
        flat = value.ravel().tolist()
        for i, item in enumerate(flat):
            if not isinstance(item, str):
                raise TypeError(f"{where}[{i}] is a {type(item).__name__}; an array of objects must hold text only.")
        raw = [item.encode() for item in flat]
        self._spend(_size_of_text(len(raw), sum(map(len, raw)), value.dtype), where)
        text = self._put(np.frombuffer(b"".join(raw), dtype=np.uint8))
        ends = self._put(np.cumsum([len(item) for item in raw], dtype=np.int64))
        kind = value.dtype.str if value.dtype.kind == "U" else "O"
        return {TAG: "strings", "text": text, "ends": ends, "shape": list(value.shape), "dtype": kind}

    def _nonzeros(self, value: Array) -> Any:
        """The node of an array of mostly zeros, or None for any other array.

        −0.0 does not count as zero, since no bit may be lost. A third of the room is left to text and lists, which have
        no shorter form.
        """
        plain = value.dtype.kind in "biuf" and value.dtype.itemsize <= 8 and value.flags.c_contiguous
        if not self.compact or value.size <= LONG or value.nbytes > self.room - ROOM // 3 or not plain:
            return None
        at = np.flatnonzero(value.ravel().view(f"u{value.dtype.itemsize}")).astype(np.int32)
        if 2 * (at.nbytes + len(at) * value.dtype.itemsize) > value.nbytes:
            return None
        self.room -= value.nbytes
        parts = {"at": self._put(at), "v": self._put(value.ravel()[at])}
        return {TAG: "nonzeros", "shape": list(value.shape), **parts}

    def _numbers(self, value: list[Any], where: str) -> Any:
        """The node of a long list of numbers of one kind, or None for any other list."""
        kinds = set(map(type, value)) if len(value) > SHORT else set()
        if kinds == {float} or (kinds == {int} and -(2**63) <= min(value) <= max(value) < 2**63):
            self._spend(NUMBER * len(value), where)
            tag, dtype = ("floats", np.float64) if kinds == {float} else ("ints", np.int64)
            return {TAG: tag, "name": self._put(np.array(value, dtype))}
        return None


class Decoder:
    """Turns JSON nodes back into values."""

    def __init__(self, arrays: Mapping[str, Array], classes: Mapping[str, type] | None = None) -> None:
        self.arrays, self.classes, self.room = dict(arrays), classes or {}, ROOM

    def decode(self, node: Any) -> Any:
        """Return the value of a node; raise `CorruptFileError` if `Encoder` writes no node like it."""
        try:
            return self._decode(node)
        except CorruptFileError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, OverflowError) as error:
            raise CorruptFileError(f"the header holds a value that cannot be read ({type(error).__name__}).") from None

    def _decode(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        if TAG not in node:
            return {key: self._decode(item) for key, item in node.items()}
        match node[TAG]:
            case "float":
                return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[node["v"]]
            case "scalar":
                return self._use(node["name"])[()]
            case "array":
                return self._use(node["name"])
            case "floats" | "ints":
                values = self._use(node["name"])
                self._spend(NUMBER * values.size)
                return values.tolist()
            case "tuple":
                return tuple(self._decode(item) for item in node["v"])
            case "sparse" if node["class"] == "csr_array":
                data, indices, indptr = (self._use(node[part]) for part in ("data", "indices", "indptr"))
                # SciPy copies 64-bit indices to shorter ones where they fit.
                self._spend(indices.nbytes + indptr.nbytes if indices.dtype == np.int64 else 0)
                matrix = sp.csr_array((data, indices, indptr), shape=tuple(node["shape"]))
                matrix.check_format(full_check=True)
                return matrix
            case "nonzeros" | "strings" | "record" | "estimator":
                return getattr(self, f"_{node[TAG]}")(node)
        raise CorruptFileError(f"the header holds an unknown kind of value, {node[TAG]!r}.")

    def _use(self, name: Any) -> Array:
        """Take an array of the file; each may be used once."""
        if name not in self.arrays:
            raise CorruptFileError("the header names an array twice, or one that the file does not hold.")
        return self.arrays.pop(name)

    def _spend(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise CorruptFileError("its contents claim more memory than a file may.")

    def _nonzeros(self, node: Any) -> Array:
        at, values, shape = self._use(node["at"]), self._use(node["v"]), tuple(map(operator.index, node["shape"]))
        if min(shape, default=0) < 0 or at.min(initial=0) < 0:
            raise CorruptFileError("an array of mostly zeros has no shape, or an entry before its beginning.")
        self._spend(math.prod(shape) * values.dtype.itemsize)
        out = np.zeros(math.prod(shape), values.dtype)
        out[at] = values
        return out.reshape(shape)

    def _strings(self, node: Any) -> Array:
        text, ends = self._use(node["text"]), self._use(node["ends"])
        # NumPy's own parser of types accepts far more than text, so it must not see an unknown string.
        if not re.fullmatch(r"O|[<>]U\d{1,7}", node["dtype"]):
            raise CorruptFileError("an array of text claims to hold something else.")
        if (np.diff(ends, prepend=0) < 0).any() or ends[-1:].tolist() not in ([], [len(text)]):
            raise CorruptFileError("the pieces of a text do not follow one another.")
        self._spend(_size_of_text(len(ends), len(text), np.dtype(node["dtype"])))
        whole, cuts = text.tobytes(), [0, *ends.tolist()]
        items = [whole[i:j].decode() for i, j in itertools.pairwise(cuts)]
        if node["dtype"] != "O" and int(node["dtype"][2:]) > max([1, *map(len, items)]):
            raise CorruptFileError("an array of text claims more room than its text takes.")
        return np.array(items, dtype=node["dtype"]).reshape(node["shape"])

    def _record(self, node: Any) -> Any:
        cls = self._class(node, is_record)
        if set(_names_of(cls)) != set(node["v"]):
            other = "not those of this version of sparsetd; make the file again with it"
            raise CorruptFileError(f"the fields of {cls.__name__} are {other}.")
        values = {name: self._decode(item) for name, item in node["v"].items()}
        if issubclass(cls, tuple):
            return cls(**values)
        record: Any = object.__new__(cls)  # without __init__, so that none of its code runs
        for name, item in values.items():
            object.__setattr__(record, name, item)
        return record

    def _estimator(self, node: Any) -> Any:
        cls = self._class(node, lambda c: issubclass(c, BaseEstimator))
        unknown = [name for name in node["params"] if name not in cls._get_param_names()]  # type: ignore[attr-defined]
        if unknown:
            raise CorruptFileError(f"{cls.__name__} has no parameter {unknown[0]!r} in this version: fit it anew.")
        model = cls(**{key: self._decode(item) for key, item in node["params"].items()})
        for name, item in node["fitted"].items():
            if name.startswith("_") or hasattr(cls, name):  # a file may not replace a method
                raise CorruptFileError(f"{name!r} is not a fitted attribute.")
            setattr(model, name, self._decode(item))
        if node["fitted"] and hasattr(model, "_restore"):
            model._restore()
        return model

    def _class(self, node: Any, suits: Callable[[type], bool]) -> type:
        cls = self.classes.get(node["class"])
        if cls is None or not suits(cls):
            raise CorruptFileError(f"holds a {node['class']!r}, which this version of sparsetd does not know.")
        return cls


def _size_of_text(n: int, n_bytes: int, dtype: Any) -> int:
    """Bytes that n pieces of text take in memory: each as a string, up to four bytes a letter, and all as an array."""
    return TEXT * n + 4 * n_bytes + (n * dtype.itemsize if dtype.kind == "U" else 0)
