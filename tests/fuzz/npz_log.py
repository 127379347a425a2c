"""NPZ archives: raw bytes, and archives with a valid checksum around members that the fuzzer changed.

An input is `mode`, then `name` + the bytes of an .npy file for each member, separated by `SEPARATOR`.
"""

from __future__ import annotations

import io
import warnings
import zipfile

import numpy as np

from fuzz import seed_log
from fuzz.oracle import check_log, file

SEPARATOR = b"||||"
MAGIC = b"\x93NUMPY"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def members(columns: dict[str, object]) -> bytes:
    """The members of an archive as an input."""
    parts = []
    for name, values in columns.items():
        out = io.BytesIO()
        np.lib.format.write_array(out, np.asarray(values))
        parts.append(name.encode() + out.getvalue())
    return b"\0" + SEPARATOR.join(parts)


def archive(data: bytes) -> bytes:
    """The archive that an input stands for."""
    if data[:1] == b"P":
        return data
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", METHODS[data[0] % 4 if data else 0]) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members with the same name
        for part in data[1:].split(SEPARATOR):
            name, magic, rest = part.partition(MAGIC)
            file.writestr(name.decode("latin-1").replace("\0", "")[:50] + ".npy", magic + rest)
    return out.getvalue()


def few(columns: dict[str, object]) -> dict[str, object]:
    return {name: columns[name] for name in ("obs_x", "reward", "terminated")}


SEEDS = [
    members(few(seed_log.columns())),
    members(seed_log.list_columns()),
    members({"obs": np.zeros((3, 2), ">i2"), "r": np.array(["1", "a", "NA"]), "t": np.zeros(3, "M8[s]")}),
    archive(members({"obs": [1.0, 2.0], "r": [1, 2]})),
]
TOKENS = [
    *(name.encode() for name in seed_log.NAMES),
    *b"'descr' 'fortran_order' 'shape' True (1,) () (-1,) (0,9) (999999999999,) [('a','<f8')] [] (((( #".split(),
    *b"'<f8' '|O' '<U0' '|V0' '<U9' '|S3' '<f2' '<f16' '<c16' '<u8' '|b1' '<M8[s]' PK\3\4 PK\1\2 PK\5\6".split(),
    *(SEPARATOR, MAGIC + b"\1\0", MAGIC + b"\2\0", MAGIC + b"\3\0", b"\xff" * 4, b"\xff" * 7 + b"\x7f"),
]


def one_input(data: bytes) -> None:
    check_log(file(".npz", archive(data)), data)
