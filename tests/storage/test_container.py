"""The file format: exact round trips, every corruption found, no write that leaves half a file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparsetd.storage import container
from sparsetd.storage.container import CorruptFileError, pack, unpack

ARRAYS = {
    "coef": np.linspace(-1, 1, 7),
    "mask": np.array([True, False]),
    "empty": np.empty((0, 3), dtype=np.float32),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "scalar": np.array(np.nan),
    "full": np.arange(8.0),  # fills its 64 bytes: the last block has no padding
}
META = {"class": "LSTD", "note": "θ = A⁻¹b", "n": 3}
DATA = pack("model", META, ARRAYS)


def forge(meta=None, **changes):
    """A file with a valid digest whose header was tampered with."""
    length = int.from_bytes(DATA[8:16], "little")
    header = json.loads(DATA[16 : 16 + length])
    header.update(changes)
    if meta is not None:
        header["meta"] = meta
    raw = json.dumps(header).encode()
    body = DATA[:8] + len(raw).to_bytes(8, "little") + raw + DATA[16 + length : -32]
    return body + hashlib.sha256(body).digest()


def test_round_trip_is_exact():
    meta, arrays = unpack(DATA, "model")
    assert meta == META
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.f_contiguous == array.flags.f_contiguous
        assert arrays[name].flags.writeable


@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.int32, np.bool_, np.complex128, ">f8"]),
        hnp.array_shapes(min_dims=0, min_side=0),
    )
)
def test_any_array_round_trips(array):
    back = unpack(pack("model", {}, {"a": array}), "model")[1]["a"]
    assert back.dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(back, array)


def test_same_content_gives_same_bytes():
    assert pack("model", META, ARRAYS) == DATA


def test_every_array_starts_at_the_next_64_byte_boundary():
    length = int.from_bytes(DATA[8:16], "little")
    entries = json.loads(DATA[16 : 16 + length])["arrays"]
    assert (16 + length) % 64 == 0
    assert [entry["offset"] for entry in entries.values()] == [0, 64, 128, 128, 192, 256]


def test_every_truncation_is_found():
    for n in range(len(DATA)):
        with pytest.raises(CorruptFileError):
            unpack(DATA[:n], "model")


def test_every_bit_flip_is_found():
    for bit in range(8 * len(DATA)):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFileError):
            unpack(bytes(damaged), "model")


def test_bytes_added_at_the_end_are_found():
    with pytest.raises(CorruptFileError, match="checksum"):
        unpack(DATA + b"\0", "model")


ENTRY = {"dtype": "<f8", "shape": [7], "order": "C", "offset": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "upgrade sparsetd"),
        ({"version": "1"}, "lacks a field"),
        ({"kind": "checkpoint"}, "holds a 'checkpoint'"),
        ({"size": 10**30}, "do not fill"),
        ({"arrays": []}, "lacks a field"),
        ({"arrays": {"a": None}}, "not described"),
        ({"arrays": {"a": [1]}}, "not described"),
        ({"arrays": {"a": {**ENTRY, "dtype": "|O"}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "dtype": ["<f8"]}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "dtype": "<f8,<f8"}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "order": "K"}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "shape": [-1]}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "shape": [1.5]}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "shape": [True]}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "shape": [1] * 40}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "shape": 7}}}, "not described"),
        ({"arrays": {"a": {**ENTRY, "offset": -8}}}, "described wrongly"),
        ({"arrays": {"a": {**ENTRY, "shape": [2**33, 2**33]}}}, "beyond its place"),
        ({"arrays": {"a": {**ENTRY, "shape": [2**62, 4]}}}, "beyond its place"),
        ({"arrays": {"a": {**ENTRY, "shape": [0, 2**62, 2**62]}}}, "beyond its place"),
        ({"arrays": {"a": {**ENTRY, "offset": 10**20}}}, "beyond its place"),
        ({"arrays": {"a": {**ENTRY, "shape": [41]}}}, "beyond its place"),
        ({"arrays": {"a": {**ENTRY, "shape": [40], "offset": 1}}}, "beyond its place"),
    ],
)
def test_a_forged_header_with_a_valid_digest_is_refused(change, message):
    with pytest.raises(CorruptFileError, match=message):
        unpack(forge(**change), "model")


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"1" * 5_000, b"null"])
def test_a_header_that_is_no_header_is_refused(raw):
    body = DATA[:8] + len(raw).to_bytes(8, "little") + raw
    with pytest.raises(CorruptFileError, match="header"):
        unpack(body + hashlib.sha256(body).digest(), "model")


@pytest.mark.parametrize("length", [container.MAX_HEADER + 1, 2**63, 2**64 - 1])
def test_the_header_is_capped(length):
    body = DATA[:8] + length.to_bytes(8, "little") + b" " * (container.MAX_HEADER + 100)
    with pytest.raises(CorruptFileError, match="header claims"):
        unpack(body + hashlib.sha256(body).digest(), "model")


def test_a_header_longer_than_the_file_is_refused():
    body = DATA[:8] + (1).to_bytes(8, "little")
    with pytest.raises(CorruptFileError, match="header claims 1 bytes"):
        unpack(body + hashlib.sha256(body).digest(), "model")


def test_a_header_too_long_to_read_is_not_written():
    with pytest.raises(ValueError, match="store long lists as arrays"):
        pack("model", {"names": ["x" * 100] * 20_000}, {})


def test_objects_are_not_written():
    with pytest.raises(TypeError, match="names has dtype object"):
        pack("model", {}, {"names": np.array(["a", None], dtype=object)})


def test_nan_in_the_header_is_not_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        pack("model", {"value": float("nan")}, {})


def test_read_names_the_file(tmp_path):
    path = tmp_path / "model.sparsetd"
    path.write_bytes(DATA[:-1])
    with pytest.raises(CorruptFileError, match=r"model\.sparsetd: the checksum"):
        container.read(path, "model")


def test_write_replaces_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "model.sparsetd"
    container.write(path, "model", {"n": 1}, {})
    container.write(path, "model", META, ARRAYS)
    assert container.read(path, "model")[0] == META
    assert os.listdir(tmp_path) == ["model.sparsetd"]


@pytest.mark.skipif(sys.platform == "win32", reason="a directory cannot be opened there")
def test_a_write_is_on_the_disk_before_the_rename_and_the_rename_after_it(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append(stat.S_IFMT(os.fstat(fd).st_mode)), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (steps.append("rename"), replace(a, b)))
    container.write(tmp_path / "model.sparsetd", "model", META, ARRAYS)
    assert steps == [stat.S_IFREG, "rename", stat.S_IFDIR]


def lowest_free_descriptor():
    os.close(free := os.dup(0))
    return free


def test_a_write_leaves_nothing_open(tmp_path):
    free = lowest_free_descriptor()
    container.write(tmp_path / "model.sparsetd", "model", META, ARRAYS)
    assert lowest_free_descriptor() == free


def test_write_follows_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    container.write(tmp_path / "link", "model", META, ARRAYS)
    assert (tmp_path / "link").is_symlink()
    assert container.read(tmp_path / "target", "model")[0] == META


FAULTS = [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EFBIG, errno.ENOMEM]


@pytest.mark.parametrize("code", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("step", ["os.fsync", "os.replace", "builtins.open"])
def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch, step, code):
    path = tmp_path / "model.sparsetd"
    container.write(path, "model", {"n": 1}, {})

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        container.write(path, "model", META, ARRAYS)
    monkeypatch.undo()
    assert container.read(path, "model")[0] == {"n": 1}
    assert os.listdir(tmp_path) == ["model.sparsetd"]


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        container.write(tmp_path / "nowhere" / "m", "model", META, ARRAYS)


FULL = """
import resource, sys
import numpy as np
from sparsetd.storage import container
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    container.write(sys.argv[1], "model", {"n": 2}, {"a": np.zeros(10_000)})
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX resource limits")
def test_a_real_write_that_runs_out_of_room_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.sparsetd"
    container.write(path, "model", {"n": 1}, {})
    out = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "OSError"
    assert container.read(path, "model")[0] == {"n": 1}
    assert os.listdir(tmp_path) == ["model.sparsetd"]


def test_a_name_that_occurs_twice_in_an_object_is_refused() -> None:
    assert json.loads('{"a": {"b": 1}, "b": 2}', object_pairs_hook=container.distinct) == {"a": {"b": 1}, "b": 2}
    with pytest.raises(ValueError, match="it names 'b' twice"):
        json.loads('{"a": {"b": 1, "b": 2}}', object_pairs_hook=container.distinct)
