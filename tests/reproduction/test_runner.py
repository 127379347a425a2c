"""Units run once, in any number of processes, with the same rows; what is finished survives an interruption."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

import sparsetd
from reproduction import LARGER, runner
from reproduction.runner import execute, fingerprint, unit_file
from reproduction.verdict import IN_PART, NOT_REPRODUCED, REPRODUCED, THEORY, TRIVIAL, TUNING, UNDER_READING, judge

UNTIMED = ["unit", "seed", "method", "t", "value"]


def test_rows_do_not_depend_on_the_number_of_processes(toy, tmp_path):
    one = execute(toy.TOY, toy.TOY.full, tmp_path / "one", n_jobs=1).rows[UNTIMED]
    two = execute(toy.TOY, toy.TOY.full, tmp_path / "two", n_jobs=2).rows[UNTIMED]
    pd.testing.assert_frame_equal(one, two)
    assert len(one) == 4 * 2 * 3


def test_resume_skips_finished_units_and_restart_does_not(toy, tmp_path):
    calls = []

    def counted(settings, unit):
        calls.append(unit.label)
        return toy.run(settings, unit)

    experiment = dataclasses.replace(toy.TOY, run=counted)
    first = execute(experiment, experiment.full, tmp_path)
    assert len(calls) == 8
    victim = unit_file(tmp_path / "toy", experiment.full, list(toy.units(experiment.full))[3])
    victim.unlink()
    calls.clear()
    again = execute(experiment, experiment.full, tmp_path, resume=True)
    assert calls == ["a-003"]
    pd.testing.assert_frame_equal(first.rows[UNTIMED], again.rows[UNTIMED])
    calls.clear()
    execute(experiment, experiment.full, tmp_path)
    assert len(calls) == 8


def test_resume_computes_a_file_that_was_cut_short_again(toy, tmp_path):
    first = execute(toy.TOY, toy.TOY.full, tmp_path)
    victims = [unit_file(tmp_path / "toy", toy.TOY.full, unit) for unit in list(toy.units(toy.TOY.full))[:3]]
    victims[0].write_bytes(victims[0].read_bytes()[:-40])
    victims[1].write_bytes(b"")
    whole = victims[2].stat().st_mtime_ns
    again = execute(toy.TOY, toy.TOY.full, tmp_path, resume=True)
    pd.testing.assert_frame_equal(first.rows[UNTIMED], again.rows[UNTIMED])
    assert victims[2].stat().st_mtime_ns == whole


def test_a_full_disk_leaves_no_part_of_a_file(toy, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    execute(toy.TOY, toy.TOY.full, tmp_path / "a")
    assert len(synced) == 2 * 8  # each file, and the folder after it

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="this file was not written"):
        execute(toy.TOY, toy.TOY.full, tmp_path / "b")
    assert not list((tmp_path / "b" / "toy" / "rows").iterdir())


def test_a_failing_unit_keeps_the_others(toy, tmp_path):
    def fails(settings, unit):
        if unit.seed == 1:
            raise RuntimeError("no luck")
        return toy.run(settings, unit)

    experiment = dataclasses.replace(toy.TOY, run=fails)
    with pytest.raises(RuntimeError, match="no luck"):
        execute(experiment, experiment.full, tmp_path)
    finished = sorted((tmp_path / "toy" / "rows").iterdir())
    assert [f.suffix for f in finished] == [".parquet"]
    assert len(execute(toy.TOY, toy.TOY.full, tmp_path, resume=True).rows) == 24


def test_other_settings_have_other_files_but_more_seeds_do_not(toy):
    unit, settings = next(iter(toy.units(toy.TOY.full))), toy.TOY.full
    assert fingerprint(settings, unit) == fingerprint(dataclasses.replace(settings, n_seeds=99), unit)
    assert fingerprint(settings, unit) != fingerprint(dataclasses.replace(settings, mean=2.0), unit)
    assert fingerprint(settings, unit) != fingerprint(settings, dataclasses.replace(unit, seed=7))


def test_seeds_differ_between_runs_and_streams_and_agree_between_methods(toy):
    draw = [toy.TOY.full.rng(seed, stream).random() for seed in range(3) for stream in range(2)]
    assert len(set(draw)) == 6
    assert toy.TOY.full.rng(1).random() == draw[2]


def test_progress_counts_to_the_end(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "EVERY", 0.0)
    said = []
    execute(toy.TOY, toy.TOY.quick, tmp_path, tell=said.append)
    assert said == [f"toy: {k} of 4" for k in range(1, 5)]


def test_every_setting_states_its_source(toy):
    sources = {name: source for name, _, source, _ in toy.TOY.full.table()}
    assert sources == {"n_seeds": "assumed", "entropy": "assumed", "mean": "paper", "methods": "assumed"}


@pytest.mark.parametrize(
    ("literal", "reading", "verdict"),
    [(True, True, REPRODUCED), (False, True, UNDER_READING), (False, False, NOT_REPRODUCED)],
)
def test_verdicts_follow_the_rule(literal, reading, verdict):
    claim = judge(THEORY, "c", "1", "2", "rule", literal=literal, reading=reading, because="of us")
    assert claim.verdict == verdict
    assert ("of us" in claim.sentence) == (not literal)


def test_a_part_may_hold_and_what_is_trivial_says_so():
    part = judge(TUNING, "c", "1", "2", "rule", literal=False, part="in the median, not in the mean")
    assert (part.verdict, part.sentence) == (IN_PART, "reproduced in the median, not in the mean")
    assert judge(TRIVIAL, "c", "1", "2", "rule", literal=True).sentence == TRIVIAL


def test_rows_say_which_version_made_them(toy, tmp_path):
    outcome = execute(toy.TOY, toy.TOY.quick, tmp_path)
    assert outcome.versions == [sparsetd.__version__]
    assert dataclasses.replace(outcome, rows=outcome.rows.drop(columns="version")).versions == ["0.2.0 or earlier"]


KEPT = Path(__file__).parents[2] / "docs" / "reproduction"
MADE_BY = {
    "atlas": ("mountain-car-atlas", {"backend": "cuda"}),
    "search": ("triple-link-search", {"backend": "cuda"}),
    "actor-critic": ("mountain-car-actor-critic", {}),
}


@pytest.mark.parametrize("page", MADE_BY)
def test_kept_rows_are_found_again_by_the_command_of_their_page(page):
    """A GPU made them in hours: a setting that changes its name or its value must not lose them unnoticed."""
    name, options = MADE_BY[page]
    experiment = LARGER[name]
    settings = dataclasses.replace(experiment.full, **options)
    wanted = {unit_file(KEPT / page / name, settings, unit) for unit in experiment.units(settings)}
    assert wanted == set((KEPT / page / name / "rows").iterdir())
    words = [name, *(f"--{option} {value}" for option, value in options.items())]
    assert f"`python -m reproduction {' '.join(words)}`" in (KEPT / page / "report.md").read_text(encoding="utf-8")
