"""One file format for models and checkpoints: a JSON header, raw arrays, a SHA-256 of everything before it.

    magic (8) · header length (8, little-endian) · header (JSON) · arrays (each on a 64-byte boundary) · SHA-256 (32)

The digest is verified before a byte of the header is believed, so any cut and any flipped bit is found. Nothing in a
file names code: it holds numbers and text, and loading runs none of it. A load is bounded: the header is at most 1 MB,
the arrays lie in the file one after the other, and they are not copied out of it: a file takes its own size in memory.

A file is written all at once (see `atomic`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

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


class CorruptFileError(ValueError):
    """The file is not what was written: cut short, altered, or of another kind."""


def write(
    path: str | os.PathLike[str], kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Array], *, tidy: bool = True
) -> None:
    """Write a header and arrays to `path`, atomically. `kind` ("model", "entry") is checked on reading."""
    replace_file(path, pack(kind, meta, arrays), tidy=tidy)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a file written by `write`; `CorruptFileError` if anything is amiss."""
    try:
        with open(path, "rb") as file:
            data = bytearray(os.fstat(file.fileno()).st_size)  # a device has no size, so nothing is read of it
            file.readinto(data)
        return unpack(data, kind)
    except CorruptFileError as error:
        raise CorruptFileError(f"{os.fspath(path)}: {error}") from None


def pack(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """The bytes of a file."""
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
    """The header's `meta` and the arrays held by the bytes of a file; a bytearray is shared with the arrays."""
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
    return header["meta"], _arrays(header["arrays"], body, header["size"])


def _arrays(entries: dict[str, Any], body: memoryview, size: int) -> dict[str, Array]:
    """All arrays; each begins where the one before ends, and together they fill the file."""
    arrays, offset = {}, 0
    for name, entry in entries.items():
        arrays[name] = _array(name, entry, body, offset)
        offset += arrays[name].nbytes + -arrays[name].nbytes % ALIGN
    if not offset == size == len(body):
        raise CorruptFileError("the arrays do not fill the file.")
    return arrays


def _header(raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw, object_pairs_hook=_without_repeats)
    except CorruptFileError:
        raise
    except (ValueError, RecursionError):
        raise CorruptFileError("the header is not JSON.") from None
    types = {"version": int, "kind": str, "size": int, "meta": dict, "arrays": dict}
    if not isinstance(header, dict) or any(not isinstance(header.get(key), kind) for key, kind in types.items()):
        raise CorruptFileError("the header lacks a field.")
    return header


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the header, in which every name must stand once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise CorruptFileError("the header says something twice.")
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
