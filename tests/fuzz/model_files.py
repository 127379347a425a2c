"""Model files and checkpoints: whatever the bytes, a value or `CorruptFileError`.

Random bytes would all die at the checksum, so an input is also dressed as a file with a valid one: its header is the
input, or a real header with the input's changes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.oracle import check_sentence, file
from sparsetd import LSTD, TDC, Transitions, ValueFunction
from sparsetd.estimators import model_file
from sparsetd.evaluation import ScorePolicy
from sparsetd.features import Fourier, RBFGrid, Tabular, TileCoding
from sparsetd.storage import container
from sparsetd.storage.cache import Cache
from sparsetd.storage.container import CorruptFileError

TAGS = ["float", "scalar", "array", "nonzeros", "strings", "floats", "ints"]
TAGS += ["tuple", "sparse", "record", "estimator"]
KEY = "0" * 64
STATE = {"x": np.eye(2), "rows": sp.csr_array(np.eye(3)), "names": np.array(["a", "b"], object)}


def files() -> list[bytes]:
    """Real files: models of rows and of states, a policy, and a checkpoint."""
    X, y = np.arange(12.0).reshape(4, 3) % 5, np.ones(4)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for model in (LSTD(alpha=0.1), TDC(step_size=0.01, fit_intercept=True)):
            model_file.save(model.fit(X, y), path)
            out.append(path.read_bytes())
        log = Transitions.from_arrays(X[:, :2].astype(int), y, terminated=[0, 0, 0, 1])
        for features in (TileCoding(2, 2), Fourier(2), RBFGrid((2,)), Tabular()):
            model_file.save(ValueFunction(features, LSTD(alpha=0.1)).fit(log), path)
            out.append(path.read_bytes())
        tables = np.zeros(2), np.ones(2), np.eye(3), np.eye(3)
        policy = ScorePolicy(("a", "b"), np.arange(2), *tables, "tilt", 1.0, np.arange(4, dtype=np.uint64))
        model_file.save(policy, path)
        out.append(path.read_bytes())
        Cache(folder).put(KEY, STATE)
        out.append(Cache(folder).file(KEY).read_bytes())
    return out


FILES = files()


def sealed(header: bytes, body: bytes) -> bytes:
    """A file with this header and a valid digest."""
    data = container.MAGIC + len(header).to_bytes(8, "little") + header + body
    return data + hashlib.sha256(data).digest()


def spliced(data: bytes) -> bytes:
    """A real file in whose header a stretch was replaced by the fuzzer's bytes; the digest is valid again."""
    seed = FILES[data[0] % len(FILES)]
    length = int.from_bytes(seed[8:16], "little")
    header, body = seed[16 : 16 + length], seed[16 + length : -container.DIGEST]
    at = int.from_bytes(data[1:3], "little") % length
    return sealed(header[:at] + data[4:] + header[at + data[3] % 40 :], body)


def kept(path: Path) -> Any:
    """The entry that the bytes would be in a folder of kept work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Cache(path.parent).get(path.rename(path.with_name(f"{KEY}.part")).stem)


def one_input(data: bytes) -> None:
    """Load the bytes in every way; only an error that says so may come out."""
    for contents in (data, sealed(data, b"\0" * 64), spliced(data.ljust(4, b"\0"))):
        path = file(".std", contents)
        for load in (model_file.load, model_file.read_notes, kept):
            try:
                loaded = load(path)
                if isinstance(loaded, ScorePolicy):
                    loaded(np.zeros((1, len(loaded.names))))
            except ValueError as error:
                check_sentence(error, (CorruptFileError, ValueError))


# An input is the number of a file, a place in its header, how much to remove there, and what to insert.
SEEDS = [*FILES, *(bytes([number, 40 * place, 0, 0]) for number in range(len(FILES)) for place in range(6))]
TOKENS = [
    *b'" { } [ ] , : null -1 1e999 \\u0000 "~" "v" "<f8"'.split(),
    b"9" * 30,
    *b"200000000 3161 2147483648 1e300".split(),
    *(json.dumps(tag).encode() for tag in (*TAGS, "meta", "arrays", "shape", "offset", "order", "class", "params")),
    *(json.dumps(name).encode() for name in ("LSTD", "TDC", "csr_array", "PCG64", "__class__", "coef_", "state")),
    *(json.dumps(name).encode() for name in ("ScorePolicy", "habit", "tilt")),
]
