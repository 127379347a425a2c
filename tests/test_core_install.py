"""With the core dependencies alone the public names, the help and the demo work; the rest says what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXTRAS = ("gymnasium", "pandas", "icu_sepsis", "minari", "onnx", "polars", "h5py", "cvxpy", "matplotlib")
ABSENT = f"""
import sys
from importlib.machinery import PathFinder

class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name.partition(".")[0] in {EXTRAS!r} else super().find_spec(name, *where)

sys.meta_path = [Core if finder is PathFinder else finder for finder in sys.meta_path]
"""
COMMANDS = (
    "demo",
    "example",
    "prepare",
    "inspect",
    "evaluate",
    "compare",
    "improve",
    "select",
    "fit",
    "predict",
    "sweep",
)
NAMES = "import sparsetd\nfor name in sparsetd.__all__: getattr(sparsetd, name)\n"
HELP = f"""
from sparsetd.cli import main
for command in {COMMANDS!r}:
    try:
        main([command, "--help"])
    except SystemExit as end:
        assert end.code == 0, command
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, since what another test has imported would be there."""
    return subprocess.run(
        [sys.executable, "-c", ABSENT + code], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def command(*words: str) -> str:
    return f"from sparsetd.cli import main\nsys.exit(main({list(words)!r}))"


def test_the_core_needs_no_extra(tmp_path: Path) -> None:
    done = run(NAMES + HELP + command("demo", "--samples", "500"), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("example", "icu-sepsis", "--out", "icu.csv"), "icu-sepsis"),
        (("inspect", "minari:some/data-v0"), "minari"),
    ],
)
def test_what_an_extra_brings_is_said_in_one_sentence(words: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    done = run(command(*words), tmp_path)
    assert done.returncode in (1, 2)
    assert extra in done.stderr
    assert "Traceback" not in done.stderr
