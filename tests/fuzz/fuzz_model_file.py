"""Fuzz the loader of model files and checkpoints: whatever the bytes, a value or `CorruptFileError`.

    python tests/fuzz/fuzz_model_file.py -runs=1000000        with atheris, guided by coverage
    python tests/fuzz/fuzz_model_file.py --plain 100000       without it

Random bytes would all die at the checksum, so every second input is dressed as a file with a valid one: its header is
the fuzzer's, or a real header with the fuzzer's changes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd import LSTD, TDC, checkpoint, container, encoding, model_file
from sparsetd.container import CorruptFileError
from sparsetd.encoding import Decoder


def seeds() -> list[bytes]:
    """Real files: two models and a checkpoint."""
    X, y = np.arange(12.0).reshape(4, 3) % 5, np.ones(4)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for model in (LSTD(rho_theta=0.1), TDC(step_size=0.01, fit_intercept=True)):
            model_file.save(model.fit(X, y), path)
            out.append(path.read_bytes())
        checkpoint.save(path, {"x": np.eye(2), "rng": np.random.default_rng(0), "names": np.array(["a", "b"], object)})
        out.append(path.read_bytes())
    return out


SEEDS = seeds()
CLASSES = model_file.known_classes()


def sealed(header: bytes, body: bytes) -> bytes:
    """A file with this header and a valid digest."""
    data = container.MAGIC + len(header).to_bytes(8, "little") + header + body
    return data + hashlib.sha256(data).digest()


def spliced(data: bytes) -> bytes:
    """A real file in whose header a stretch was replaced by the fuzzer's bytes; the digest is valid again."""
    seed = SEEDS[data[0] % len(SEEDS)]
    length = int.from_bytes(seed[8:16], "little")
    header, body = seed[16 : 16 + length], seed[16 + length : -container.DIGEST]
    at = int.from_bytes(data[1:3], "little") % length
    return sealed(header[:at] + data[4:] + header[at + data[3] % 40 :], body)


def one_input(data: bytes) -> None:
    """Load the bytes in every way; only `CorruptFileError` may come out."""
    for file in (data, sealed(data, b"\0" * 64), spliced(data.ljust(4, b"\0"))):
        for kind in (model_file.KIND, checkpoint.KIND):
            try:
                meta, arrays = container.unpack(file, kind)
                for part in meta.values():
                    value = Decoder(arrays, CLASSES).decode(part)
                    if kind == model_file.KIND:
                        model_file._check(value)
            except CorruptFileError:
                continue


def mutated(rng: random.Random) -> bytes:
    """A change to a header worth trying, for runs without atheris."""
    words = [
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"null",
        b"-1",
        b"1e999",
        b"9" * 30,
        b'"~"',
        b'"estimator"',
        b'"<f8"',
        b"\\u0000",
    ]
    names = [
        json.dumps(tag).encode() for tag in ("record", "array", "strings", "sparse", "items", "generator", "dtype")
    ]
    pick = rng.choice([*words, *names, rng.randbytes(rng.randrange(1, 12))])
    return bytes([rng.randrange(256), rng.randrange(256), rng.randrange(256), rng.randrange(40)]) + pick * rng.choice(
        [1, 1, 2]
    )


def instrument(atheris: Any, module: Any) -> None:
    """Let the fuzzer see the branches of the code under test (and not those of NumPy)."""
    for name, item in list(vars(module).items()):
        if inspect.isfunction(item) and item.__module__ == module.__name__:
            setattr(module, name, atheris.instrument_func(item))
        elif inspect.isclass(item) and item.__module__ == module.__name__:
            for key, method in list(vars(item).items()):
                if inspect.isfunction(method):
                    setattr(item, key, atheris.instrument_func(method))


def plain(runs: int) -> None:
    rng = random.Random(0)
    for _ in range(runs):
        one_input(mutated(rng))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--plain":
        plain(int(sys.argv[2]))
        print(f"{sys.argv[2]} inputs, every one loaded or refused")
    else:
        import atheris

        for module in (container, encoding):
            instrument(atheris, module)
        atheris.Setup(sys.argv, one_input)
        atheris.Fuzz()
