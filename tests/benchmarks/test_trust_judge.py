"""The judge of the trust benchmark: what it counts, and that a run goes on where it was stopped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsetd
from benchmarks.trust import ask
from benchmarks.trust.case import Case, Cell, Trouble
from benchmarks.trust.families import corridor, speeds
from benchmarks.trust.names import f1, jaccard
from benchmarks.trust.run import read, run
from benchmarks.trust.sets import ENTROPY, cells_of
from benchmarks.trust.table import codes, summary, table, verdicts
from benchmarks.trust.write import write


def draw(_: np.random.Generator) -> Case:
    raise AssertionError("nothing is drawn here")


def row(k: int, **changes: Any) -> dict[str, Any]:
    said = {"value": 0.1, "low": -0.3, "high": 0.5, "selected": 0.1, "all": 0.1, "severity": "", "failed": "", "cpu": 1}
    return {"cell": "a/b", "log": k, "truth": 0.0, "kept": [], "codes": [], **said, **changes}


MISSED = {"low": 0.05}  # an interval that does not hold the truth
RED = {"severity": "red"}


@pytest.mark.parametrize(
    ("rows", "trouble", "not_met"),
    [
        ([row(k) for k in range(20)], Trouble.NONE, set()),
        ([row(k, **(MISSED if k < 3 else {})) for k in range(20)], Trouble.NONE, {"honest"}),
        ([row(k, **MISSED, **RED) for k in range(20)], Trouble.OVERLAP, set()),
        ([row(k, **MISSED, **(RED if k else {})) for k in range(10)], Trouble.OVERLAP, {"honest"}),
        ([row(k, **(RED if k < 2 else {})) for k in range(20)], Trouble.NONE, {"no false red"}),
        ([row(k, all=0.05) for k in range(20)], Trouble.NONE, {"as good as either"}),
        ([row(k, failed="TimeoutError" if k else "") for k in range(20)], Trouble.NONE, {"answers"}),
    ],
)
def test_each_requirement_is_missed_by_what_it_forbids(rows: Any, trouble: Trouble, not_met: set[str]) -> None:
    found = verdicts(Cell("a/b", draw, trouble), summary(rows))
    assert {what for what, reached in found.items() if not reached} == not_met


def test_a_miss_is_silent_unless_a_red_caution_stands_beside_it() -> None:
    rows = [row(0), row(1, **MISSED), row(2, **MISSED, **RED), row(3, **RED, codes=["overlap", "overlap"])]
    found = summary(rows)
    assert (found["coverage"], found["red"], found["silent"]) == (0.5, 0.5, 0.25)
    assert codes(rows).split() == ["a/b", "overlap", "25%"]


def test_goals_of_a_cell_are_judged() -> None:
    cell = Cell("a/b", draw, f1_goal=0.9, rmse_goal=0.05, dropped_goal=0.95)
    probe = {"jaccard": 0.5, "shift": 0.0}
    rows = [row(k, f1=0.8, dropped=0.9, permuted=probe, rescaled={"jaccard": 1.0, "shift": 1e-3}) for k in range(3)]
    missed = {what for what, reached in verdicts(cell, summary(rows)).items() if not reached}
    assert missed == {"support", "error as before", "noise dropped", "order of episodes", "units of columns"}


def test_a_refusal_is_red_and_a_crash_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    log = speeds.draw(np.random.default_rng(0), episodes=20, noise=2).log

    def fails(problem: Exception) -> dict[str, Any]:
        def evaluate(*_: Any, **__: Any) -> None:
            raise problem

        monkeypatch.setattr(ask, "evaluate", evaluate)
        return ask.answer(log, 0.99)

    assert fails(ValueError("no"))["severity"] == "red"
    crash = fails(ZeroDivisionError("oh"))
    assert crash["failed"] == "ZeroDivisionError: oh"
    assert crash["severity"] == ""


def test_a_selection_without_an_end_is_no_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: Any, **__: Any) -> None:
        time.sleep(30)

    monkeypatch.setattr(ask, "LIMIT", 5)
    monkeypatch.setattr(ask, "probed", endless)
    case = speeds.draw(np.random.default_rng(0), episodes=20, noise=2)
    found = ask._selection(case, permuted=case.log, rescaled=case.log)
    assert found == {"f1": 0.0, "permuted": 0.0, "rescaled": 0.0, "failed": "no answer within 1 s"}


def test_permuting_keeps_the_episodes_and_rescaling_the_rows() -> None:
    log = corridor.draw(np.random.default_rng(1), places=5, episodes=30).log
    mixed = ask.permuted(log, np.random.default_rng(2))
    assert not np.array_equal(mixed.returns(0.9), log.returns(0.9))
    np.testing.assert_allclose(np.sort(mixed.returns(0.9)), np.sort(log.returns(0.9)))
    assert mixed.start.sum() == log.start.sum()
    scaled = ask.rescaled(log, np.random.default_rng(3))
    ratio = scaled.observation.sum(axis=0) / log.observation.sum(axis=0)
    np.testing.assert_allclose(np.log10(ratio), np.round(np.log10(ratio)), atol=1e-9)


def test_sets_of_names_are_compared() -> None:
    assert f1({"a", "b"}, {"b", "c"}) == 0.5
    assert jaccard({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)
    assert jaccard(set(), set()) == 1


def test_build_and_report_have_other_families_cells_and_seeds() -> None:
    build, report = cells_of("build"), cells_of("report")
    assert len(build) + len(report) >= 60
    assert len({cell.family for cell in report.values()} - {cell.family for cell in build.values()}) >= 3
    streams = {ask.generator(ENTROPY[which], "decoys/x", 0).integers(1 << 60) for which in ("build", "report")}
    assert len(streams) == 2
    goals = [cell for cell in report.values() if cell.f1_goal]
    assert {name for name in build if name in report} <= {cell.name for cell in goals}  # the goals name their setting


def test_a_cell_of_every_family_draws_the_same_log_twice() -> None:
    cells = [*cells_of("build").values(), *cells_of("report").values()]
    for cell in {cell.family: cell for cell in reversed(cells)}.values():
        one, two = (cell.draw(ask.generator(1, cell.name, 0)) for _ in range(2))
        assert one.truth == two.truth
        np.testing.assert_array_equal(one.log.observation, two.log.observation)
        assert len(one.log.names or ()) == one.log.observation.shape[1]


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    cell, out = cells_of("build")["corridor/near, 400"], tmp_path / "rows.jsonl"
    out.write_text(json.dumps(row(0) | {"cell": cell.name}) + '\n{"cell": "cut sho')
    rows = run("build", [cell], 2, 1, out, probes=0)
    assert [r["log"] for r in rows] == [0, 1]
    assert rows[0]["value"] == 0.1  # as it was written
    assert rows[1]["made_with"] == ask.made_with()
    assert rows[1]["made_with"]["sparsetd"] == sparsetd.__version__
    assert [r["log"] for r in read(out)] == [0, 1]


def test_the_table_goes_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "trust.md"
    page.write_text("before\n<!-- report: written by benchmarks.trust -->\nold\n<!-- end of report -->\nafter\n")
    made = {"made_with": {"date": "2026-01-02", "sparsetd": "9.8.7", "numpy": "6.5"}, "entropy": 77}
    rows = [row(k) | (made if k else {}) for k in range(4)]
    text, found = table(rows, {"a/b": Cell("a/b", draw)})
    write("report", rows, text, found, page)
    assert "3 logs: run on 2026-01-02 with sparsetd 9.8.7, numpy 6.5; seeds from `SeedSequence([77," in page.read_text()
    assert "1 logs: date and versions not recorded" in page.read_text()
    assert "| a/b |" in page.read_text()
    assert "old" not in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
