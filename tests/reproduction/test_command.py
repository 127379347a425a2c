"""`python -m reproduction` as its users meet it: files, resuming, JSON, one sentence for a wrong word."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from reproduction import EXPERIMENTS
from reproduction.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_star_writes_rows_figures_and_both_reports(here, capsys):
    assert main(["star", "--quick", "--seeds", "1", "--out", "r"]) == 0
    out = capsys.readouterr()
    assert "star: TD diverges on the star: reproduced" in out.out
    assert "running star" in out.err
    assert sorted(p.name for p in (here / "r").iterdir()) == ["report.html", "report.md", "star"]
    assert len(list((here / "r/star/rows").glob("*.parquet"))) == 3
    assert "`python -m reproduction star --quick --seeds 1`" in (here / "r/report.md").read_text()
    before = {p: p.stat().st_mtime_ns for p in (here / "r/star/rows").iterdir()}
    assert main(["star", "--quick", "--seeds", "1", "--out", "r", "--resume", "--json", "--quiet"]) == 0
    out = capsys.readouterr()
    assert {p: p.stat().st_mtime_ns for p in (here / "r/star/rows").iterdir()} == before
    data = json.loads(out.out)
    assert out.err == ""
    assert data["claims"][0]["verdict"] == "reproduced"
    assert data["claims"][0]["experiment"] == "star"


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["stra"], "star"),
        (["star", "--seeds", "0"], "integer of at least 1"),
        (["star", "--seeds", "x"], "integer of at least 1"),
        (["star", "--n-jobs", "0"], "integer of at least 1"),
        (["star", "--jobs", "2"], "--jobs is now --n-jobs"),
        (["star", "--seed", "2"], "--seed is now --random-state"),
        (["star", "--out", ""], "name a folder"),
        (["mountain-car-atlsa"], "did you mean 'mountain-car-atlas'"),
        (["mountain-car", "--backend", "cuda"], "--backend belongs to mountain-car-atlas, triple-link-search"),
    ],
)
def test_wrong_words_get_one_sentence(argv, word, capsys):
    assert main([*argv]) == 2
    err = capsys.readouterr().err.strip()
    assert word in err
    assert "\n" not in err


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert main(["star", "--quick", "--seeds", "1"]) == 2
    assert "pip install pandas" in capsys.readouterr().err


def test_the_wheel_holds_the_library_alone():
    """Hatch packs these folders and nothing else; what runs the experiments lies beside them."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/sparsetd"]}
    words = re.compile(r"^(from|import) (reproduction|benchmarks)", re.MULTILINE)
    assert not [file for file in (ROOT / "src").rglob("*.py") if words.search(file.read_text())]
    assert not [file for file in (ROOT / "src").rglob("*.cu") if file.stem in ("triple_link", "mountain_car")]


def test_every_experiment_is_described():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.about
        for settings in (experiment.full, experiment.quick):
            sources = {source for _, _, source, _ in settings.table()}
            assert sources <= {"paper", "cited", "assumed"}
            assert list(experiment.units(settings))
