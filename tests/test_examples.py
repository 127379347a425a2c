"""Every example runs and prints what its page promises."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SMALL = {  # what it prints, and the package that it needs beyond the core
    "baird_star": ("TD    diverged", "matplotlib"),
    "hashed_features": ("SparseTD: converged, 3 weights", "matplotlib"),
    "icu_sepsis_evaluation": ("noise columns kept", "icu_sepsis"),
    "minari_round_trip": ("the same rows: True", "minari"),
    "mountain_car": ("SparseTDSelect", "gymnasium"),
    "options_four_rooms": ("LSTD from 10,950 executions: mean error 0.02", "matplotlib"),
    "sklearn_pipeline": ("best of 12", "gymnasium"),
    "which_features": ("[0 1 2 3 4]", "matplotlib"),
}


def test_every_example_is_listed_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name, tmp_path, monkeypatch, capsys):
    """As the program of its own, but in this process: most of the time of a new one goes into imports."""
    expected, needs = SMALL[name]
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"needs {needs}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")  # no window
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert expected in capsys.readouterr().out
