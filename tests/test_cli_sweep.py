"""`sparsetd sweep` as its users meet it."""

from __future__ import annotations

import csv
import json

import pytest

from sparsetd.cli import main
from sparsetd.cli.sweep import axis

WORDS = ["sweep", "random-walk", "--method", "tdc", "ROTD", "--rows", "60", "--n-jobs", "1", "--out", "s"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_table_and_figure_are_made_and_a_second_call_adds_nothing(here, capsys):
    words = [*WORDS, "--grid", "step_size=1e-2:1:3log", "eta=1,4", "--n-runs", "2"]
    assert main(words) == 0
    first = capsys.readouterr()
    assert "best of each method" in first.out
    with (here / "s/table.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 24
    assert {p.name for p in (here / "s").glob("*.png")} == {"step_size.png", "eta.png"}
    before = {p: p.stat().st_mtime_ns for p in (here / "s/rows").iterdir()}
    assert main([*words, "--json"]) == 0
    again = capsys.readouterr()
    assert {p: p.stat().st_mtime_ns for p in (here / "s/rows").iterdir()} == before
    assert json.loads(again.out)["best"][0]["method"] == "TDC"


def test_a_best_setting_at_the_edge_of_the_grid_is_told(capsys):
    words = [*WORDS, "--grid", "step_size=1e-6,1e-5"]
    assert main(words) == 0
    told = "TDC and ROTD are best at the largest step_size of the grid, 1e-05: try larger values too."
    assert told in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["edges"] == [told]


def test_a_log_is_standardised_and_given_a_constant(capsys):
    assert main(["example", "icu-sepsis", "--episodes", "30", "--out", "log.csv", "--quiet"]) == 0
    capsys.readouterr()
    words = ["sweep", "log.csv", "--method", "TDC", "--grid", "step_size=0.001,0.01", "--n-jobs", "1", "--out", "s"]
    assert main(words) == 0
    assert "TDC" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--grid", "stepsize=1"], "did you mean 'step_size'"),
        (["--grid", "step_size"], "NAME=VALUES"),
        (["--grid", "step_size=1:x:3"], "1e-4:1:20log"),
        (["--grid", "step_size=0.1", "--metric", "rmse"], "choose from 'rmspbe'"),
        (["--grid", "step_size=0.1", "--n-runs", "0"], "at least 1"),
        (["--grid", "step_size=0.1", "--method", "TDX"], "did you mean 'TD"),
    ],
)
def test_wrong_words_get_one_sentence_and_leave_nothing(words, sentence, here, capsys):
    assert main([*WORDS, *words]) == 2
    err = capsys.readouterr().err.strip()
    assert sentence in err
    assert "\n" not in err
    assert not (here / "s").exists()


def test_an_unknown_problem_is_not_taken_for_a_file(capsys):
    assert main(["sweep", "random-wlk", "--method", "TDC", "--grid", "eta=1", "--out", "s"]) == 2
    assert "neither a file nor one of the problems" in capsys.readouterr().err


def test_values_of_a_grid():
    assert axis("eta=1,4.5,auto") == ("eta", [1, 4.5, "auto"])
    assert axis("lam=0:1:3") == ("lam", [0.0, 0.5, 1.0])
    assert axis("step_size=0.01:1:3log")[1] == pytest.approx([0.01, 0.1, 1.0])
