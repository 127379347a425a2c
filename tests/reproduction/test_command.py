"""`sparsetd reproduce` as its users meet it: files, resuming, JSON, one sentence for a wrong word."""

from __future__ import annotations

import json

import pytest

from reproduction import EXPERIMENTS
from reproduction.__main__ import REPRODUCE
from sparsetd.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparsetd.cli.parser.COMMANDS", (REPRODUCE,))
    return tmp_path


def test_star_writes_rows_figures_and_both_reports(here, capsys):
    assert main(["reproduce", "star", "--quick", "--seeds", "1", "--out", "r"]) == 0
    out = capsys.readouterr()
    assert "star: TD diverges: reproduced" in out.out
    assert "running star" in out.err
    assert sorted(p.name for p in (here / "r").iterdir()) == ["report.html", "report.md", "star"]
    assert len(list((here / "r/star/rows").glob("*.parquet"))) == 3
    assert "`sparsetd reproduce star --quick --seeds 1`" in (here / "r/report.md").read_text()
    before = {p: p.stat().st_mtime_ns for p in (here / "r/star/rows").iterdir()}
    assert main(["reproduce", "star", "--quick", "--seeds", "1", "--out", "r", "--resume", "--json", "--quiet"]) == 0
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
        (["star", "--out", ""], "name a folder"),
        (["star", "--atlas"], "--atlas belongs to mountain-car"),
        (["star", "--search"], "--search belongs to triple-link"),
        (["all", "--actor-critic"], "--actor-critic belongs to mountain-car"),
        (["mountain-car", "--backend", "cuda"], "--backend belongs to mountain-car --atlas and triple-link --search"),
    ],
)
def test_wrong_words_get_one_sentence(argv, word, capsys):
    assert main(["reproduce", *argv]) == 2
    err = capsys.readouterr().err.strip()
    assert word in err
    assert "\n" not in err


def test_every_experiment_is_described():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.about
        for settings in (experiment.full, experiment.quick):
            sources = {source for _, _, source, _ in settings.table()}
            assert sources <= {"paper", "cited", "assumed"}
            assert list(experiment.units(settings))
