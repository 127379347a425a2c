"""Damage model files and kept work in every way: is every damage found?

    python -m benchmarks corruption --flips 100000

Cuts the file at every byte, and flips random single bits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from sparsetd import LSTD
from sparsetd.estimators import model_file
from sparsetd.storage import container
from sparsetd.storage.cache import Cache
from sparsetd.storage.container import CorruptFileError


def files(folder: Path) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 20)), rng.normal(size=200)
    model_file.save(LSTD(alpha=0.1).fit(X, y), folder / "model")
    key = "0" * 64
    Cache(folder).put(key, {"x": rng.normal(size=(2, 20)), "t": 7})
    return {"model": (folder / "model").read_bytes(), "entry": Cache(folder).file(key).read_bytes()}


def accepted(data: bytes, kind: str) -> bool:
    try:
        container.unpack(data, kind)
    except CorruptFileError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rng, found = np.random.default_rng(1), {"cuts": 0, "flips": 0, "missed": 0}
    with tempfile.TemporaryDirectory() as folder:
        for kind, data in files(Path(folder)).items():
            assert accepted(data, kind)
            for n in range(len(data)):
                found["cuts"] += 1
                found["missed"] += accepted(data[:n], kind)
            for bit in rng.integers(8 * len(data), size=args.flips // 2):
                damaged = bytearray(data)
                damaged[bit // 8] ^= 1 << bit % 8
                found["flips"] += 1
                found["missed"] += accepted(bytes(damaged), kind)
    print(json.dumps(found) if args.json else ", ".join(f"{n} {name}" for name, n in found.items()))
    return int(found["missed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
