"""Work that is kept: exact values under keys of what was computed, and nothing else of the folder touched."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import TDC, operators, solvers
from sparsetd._tools import progress
from sparsetd.storage.cache import Cache, Checkpoint, key_of

KEY = "0" * 64


@dataclass
class Inner:
    follow_on: float


@dataclass
class State:
    x: np.ndarray
    step: int
    inner: Inner
    history: dict[str, list[float]] = field(default_factory=dict)


def make_state(seed=0):
    rng = np.random.default_rng(seed)
    return State(rng.normal(size=(2, 5)), 7, Inner(np.inf), {"objective": rng.normal(size=30).tolist()})


def test_a_state_round_trips_exactly(tmp_path):
    state = make_state()
    Cache(tmp_path).put(KEY, state)
    back = Cache(tmp_path).get(KEY, (State, Inner))
    assert back.x.tobytes() == state.x.tobytes()
    assert (back.step, back.inner, back.history) == (state.step, state.inner, state.history)


def test_an_entry_is_found_under_its_own_key_alone(tmp_path):
    kept = Cache(tmp_path / "new")
    assert kept.get(KEY) is None
    kept.put(KEY, 1)
    kept.put("1" * 64, 2)
    assert (kept.get(KEY), kept.get("1" * 64), kept.get("2" * 64)) == (1, 2, None)
    kept.put(KEY, 3)
    assert kept.get(KEY) == 3
    kept.file("2" * 64).write_bytes(kept.file(KEY).read_bytes())
    with pytest.warns(UserWarning, match="holds the entry of another key"):
        assert kept.get("2" * 64) is None


def test_without_a_folder_nothing_is_kept():
    kept = Cache(None)
    kept.put(KEY, 1)
    assert kept.get(KEY) is None
    kept.clear()


def test_a_file_is_no_checkpoint(tmp_path):
    (tmp_path / "old.ckpt").write_text("x")
    with pytest.raises(ValueError, match=r"old.ckpt' is a file, but a checkpoint is a folder: name a folder"):
        Cache(tmp_path / "old.ckpt")


def test_what_was_damaged_is_reported_and_not_used(tmp_path):
    kept = Cache(tmp_path)
    kept.put(KEY, make_state())
    whole = kept.file(KEY).read_bytes()
    for n in range(0, len(whole), 97):
        kept.file(KEY).write_bytes(whole[:n])
        with pytest.warns(UserWarning, match=f"{KEY}.part: .*The work that was kept there is done again"):
            assert kept.get(KEY, (State, Inner)) is None


def test_only_given_classes_are_built(tmp_path):
    kept = Cache(tmp_path)
    kept.put(KEY, make_state())
    with pytest.warns(UserWarning, match="holds a 'State', which"):
        assert kept.get(KEY, (Inner,)) is None


def test_a_state_of_an_older_version_is_not_used(tmp_path):
    """A class of the same name with the fields that it had once."""
    older = make_dataclass("StreamState", ["x", "trace", "fading"])
    kept = Checkpoint(tmp_path, KEY, "rows")
    kept.save(lambda: older(np.zeros((1, 3)), None, np.ones(2)), 1, now=True)
    like = solvers.Stochastic().init(operators.td(), 3)
    with pytest.warns(UserWarning, match=r"the fields of StreamState are not those of this version"):
        assert kept.load(like) == (None, 0)


def test_clearing_removes_entries_and_nothing_else(tmp_path):
    kept = Cache(tmp_path)
    for k in range(2):
        kept.put(f"{k:064x}", k)
    kept.file(KEY, ".arrow").write_text("an entry in another format")
    (tmp_path / f".{KEY}.part.99999999.abcdef.tmp").write_text("half written")
    others = [tmp_path / "notes.txt", tmp_path / "film.part", tmp_path / "folder", tmp_path / KEY]
    for path in others[:2]:
        path.write_text("x")
    for path in others[2:]:
        path.mkdir()
    kept.clear()
    assert sorted(tmp_path.iterdir()) == sorted(others)
    Cache(tmp_path / "never made").clear()
    alone = Cache(tmp_path / "new")
    alone.put(KEY, 1)
    alone.clear()
    assert not (tmp_path / "new").exists()


def test_a_key_tells_data_and_settings_apart():
    x = np.arange(4.0)
    same = key_of({"gamma": 0.9}, x)
    assert same == key_of({"gamma": 0.9}, x.copy())
    mostly_zero = np.zeros(9000)
    others = [
        ({"gamma": 0.91}, x),
        ({"gamma": 0.9}, x + 1e-15),
        ({"gamma": 0.9}, x.reshape(2, 2)),
        ({"gamma": 0.9}, x.view(np.int64)),
        ({"gamma": 0.9}, mostly_zero),
        ({"gamma": 0.9}, mostly_zero + np.eye(1, 9000, 7).ravel()),
        ({"gamma": 0.9}, sp.csr_array(x[None])),
    ]
    assert len({same, *(key_of(*other) for other in others)}) == 8


def test_a_checkpoint_is_written_when_it_is_time_and_says_so(tmp_path, capsys):
    kept, states = Checkpoint(tmp_path, KEY, "batches", seconds=3600.0), iter(range(9))
    with progress.shown():
        kept.save(lambda: next(states), 1)
        assert kept.load(0) == (None, 0)
        kept.save(lambda: next(states), 2, now=True)
        kept.seconds = 0.0
        kept.save(lambda: next(states), 3)
        assert kept.load(0) == (1, 3)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"checkpoint after 2 batches in {tmp_path}",
        f"checkpoint after 3 batches in {tmp_path}",
        f"continuing after 3 batches from the checkpoint in {tmp_path}",
    ]
    Cache(tmp_path).put(KEY, {"state": 1})
    assert kept.load(0) == (None, 0)


def test_leftovers_of_killed_runs_are_cleared_once_for_a_run(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ours = [f".{KEY}.part.{dead.pid}.tmp", f".{'1' * 64}.arrow.{dead.pid}.abcdef.tmp"]
    others = {f".{KEY}.part.{writer}.tmp" for writer in (os.getppid(), 10**20, "notes")} | {f".mine.{dead.pid}.tmp"}
    for name in (*ours, *others):
        (tmp_path / name).write_bytes(b"being written, or not ours")
    Cache(tmp_path).put(KEY, 1)
    assert {p.name for p in tmp_path.iterdir()} == {f"{KEY}.part", *ours, *others}
    for kept in (Cache(tmp_path, tidy=True), Checkpoint(tmp_path, KEY, "rows")):
        assert {p.name for p in tmp_path.iterdir()} == {f"{KEY}.part", *others}, kept


def test_a_checkpoint_may_lie_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    kept = Cache(tmp_path / "link")
    kept.put(KEY, 1)
    assert len(list((tmp_path / "there").iterdir())) == 1
    kept.clear()
    assert (tmp_path / "link").is_symlink()
    assert not list((tmp_path / "there").iterdir())


def test_a_stream_of_an_older_rule_is_not_continued():
    X, y = np.eye(4), np.ones(4)
    model = TDC().partial_fit(X, y, X)
    model._state.record = model._state.record[:-1].copy()
    with pytest.raises(ValueError, match=r"from another version, .*: remove its checkpoint"):
        model.partial_fit(X, y, X)


def test_a_lazy_stream_of_an_older_layout_is_not_continued():
    X, y = sp.csr_array(np.eye(4)), np.ones(4)
    model = TDC().partial_fit(X, y, X)
    model._state.lazy["layout"] -= 1
    with pytest.raises(ValueError, match=r"from another version, .*: remove its checkpoint"):
        model.partial_fit(X, y, X)
