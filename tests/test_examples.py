"""Every example runs, on a small size, in a process of its own as a reader would run it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SMALL = {
    "icu_sepsis_evaluation": (["--episodes", "200", "--noise", "5"], "truth by dynamic programming", "icu_sepsis"),
    "hashed_features": (["--n", "1500", "--bits", "14"], "SparseTD: converged", None),
    "sklearn_pipeline": (["--episodes", "12"], "best of 4", None),
    "minari_round_trip": (["--episodes", "8"], "the same rows: True", "minari"),
    "mountain_car": ([], "SparseTDCV", None),
}


def test_every_example_is_listed_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name, tmp_path):
    words, expected, needs = SMALL[name]
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"needs {needs}")
    command = [sys.executable, "-W", "ignore", str(FOLDER / f"{name}.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert expected in done.stdout
