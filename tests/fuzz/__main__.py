"""`python -m fuzz NAME [-atheris_runs=N | FILE]`: drive a target with atheris, guided by the branches in sparsetd.

Python's warnings count as crashes. So do an input that takes more than 10 seconds and a process that needs more than
2 GiB, which is what a size bomb would do.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import atheris

ROOM = 6 * 2**30  # of addresses, far more than is ever touched: an allocation beyond it fails at once
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-len_control=0", "-print_final_stats=1"]


def main(name: str, options: list[str]) -> None:
    with atheris.instrument_imports(include=["sparsetd"], exclude=compiled()):
        target = import_module(f"fuzz.{name}")
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    with tempfile.TemporaryDirectory() as folder:
        corpus, words = Path(folder, "corpus"), Path(folder, "words")
        corpus.mkdir()
        for i, seed in enumerate(target.SEEDS):
            (corpus / f"seed-{i}").write_bytes(seed)
        words.write_text("".join(map(quoted, target.TOKENS)))
        dictionary = [f"-dict={words}"] if target.TOKENS else []
        inputs = [] if any(Path(option).is_file() for option in options) else [str(corpus)]
        atheris.Setup([sys.argv[0], *LIMITS, *dictionary, *options, *inputs], target.one_input)
        print(f"{name}: started at {time.strftime('%H:%M:%S')}", flush=True)
        atheris.Fuzz()


def compiled() -> list[str]:
    """Modules with functions for Numba, which cannot compile what atheris has changed."""
    root = Path(find_spec("sparsetd").origin).parent
    files = [path for path in root.rglob("*.py") if "numba" in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(root.parent).with_suffix("").parts) for path in files]


def quoted(token: bytes) -> str:
    """A line of libFuzzer's dictionary."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n'


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
