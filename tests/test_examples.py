"""Every example runs in a process of its own, as a reader would run it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SMALL = {  # arguments, what it prints, and the package that it needs beyond the core
    "baird_star": ([], "TD    diverged", "matplotlib"),
    "hashed_features": ([], "SparseTD: converged, 3 weights", "matplotlib"),
    "icu_sepsis_evaluation": ([], "noise columns kept", "icu_sepsis"),
    "minari_round_trip": ([], "the same rows: True", "minari"),
    "mountain_car": ([], "SparseTDCV", "matplotlib"),
    "options_four_rooms": ([], "LSTD from 10,950 executions: mean error 0.02", "matplotlib"),
    "sklearn_pipeline": ([], "best of 12", "matplotlib"),
    "which_features": ([], "[0 1 2 3 4]", "matplotlib"),
}


def test_every_example_is_listed_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name, tmp_path):
    words, expected, needs = SMALL[name]
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"needs {needs}")
    command = [sys.executable, "-W", "ignore", str(FOLDER / f"{name}.py"), *words]
    environment = {**os.environ, "MPLBACKEND": "Agg"}  # no window
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert expected in done.stdout
