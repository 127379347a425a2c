"""Checkpoints: exact state, refusal of another fit's state, and resuming after a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import TD, TDC, estimators, operators, solvers
from sparsetd.storage import checkpoint
from sparsetd.storage.container import CorruptFileError

ESTIMATORS = [
    cls
    for name in estimators.__all__
    if isinstance(cls := getattr(estimators, name), type)
    and issubclass(cls, estimators.BaseTD)
    and cls is not estimators.BaseTD
]


@dataclass
class Inner:
    follow_on: float


@dataclass
class State:
    x: np.ndarray
    step: int
    rng: np.random.Generator
    inner: Inner
    history: dict[str, list[float]] = field(default_factory=dict)


def make_state(seed=0):
    rng = np.random.default_rng(seed)
    return State(rng.normal(size=(2, 5)), 7, rng, Inner(np.inf), {"objective": rng.normal(size=30).tolist()})


def test_a_state_round_trips_exactly(tmp_path):
    state, path = make_state(), tmp_path / "fit.ckpt"
    checkpoint.save(path, state, position=123, fingerprint="f")
    back, position = checkpoint.load(path, make_state(1), fingerprint="f")
    assert position == 123
    assert back.x.tobytes() == state.x.tobytes()
    assert (back.step, back.inner, back.history) == (state.step, state.inner, state.history)
    assert back.rng.normal() == state.rng.normal()


def test_a_dict_is_a_state(tmp_path):
    path = tmp_path / "fit.ckpt"
    checkpoint.save(path, {"x": np.ones(2), "step": 3})
    back, position = checkpoint.load(path, {})
    assert position == 0
    assert back["step"] == 3


def test_another_fit_is_refused(tmp_path):
    path = tmp_path / "fit.ckpt"
    checkpoint.save(path, make_state(), fingerprint="this")
    with pytest.raises(ValueError, match="other data or settings"):
        checkpoint.load(path, make_state(), fingerprint="that")


def test_another_class_is_refused(tmp_path):
    path = tmp_path / "fit.ckpt"
    checkpoint.save(path, make_state())
    with pytest.raises(CorruptFileError, match="'State', which"):
        checkpoint.load(path, {})
    checkpoint.save(path, Inner(1.0))
    with pytest.raises(CorruptFileError, match="holds a Inner, not a State"):
        checkpoint.load(path, make_state())


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


def test_a_state_of_an_older_version_is_refused_with_a_remedy(tmp_path):
    """A class of the same name with the fields that it had once."""
    older = make_dataclass("StreamState", ["x", "trace", "fading"])
    checkpoint.save(tmp_path / "old", older(np.zeros((1, 3)), None, np.ones(2)))
    like = solvers.Stochastic().init(operators.td(), 3)
    with pytest.raises(CorruptFileError, match=r"old: the fields of StreamState are not those .* make the file again"):
        checkpoint.load(tmp_path / "old", like)


def test_every_truncation_is_found(tmp_path):
    path = tmp_path / "fit.ckpt"
    checkpoint.save(path, make_state())
    data = path.read_bytes()
    for n in range(0, len(data), 7):
        path.write_bytes(data[:n])
        with pytest.raises(CorruptFileError):
            checkpoint.load(path, make_state())


@pytest.mark.parametrize("act", [checkpoint.exists, lambda path: checkpoint.save(path, make_state())])
def test_leftovers_of_a_killed_save_are_cleared(tmp_path, act):
    path = tmp_path / "fit.ckpt"
    checkpoint.save(path, make_state())
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".fit.ckpt.{dead.pid}.tmp").write_bytes(b"half")
    kept = {f".fit.ckpt.{writer}.tmp" for writer in (os.getppid(), 10**20, "notes")}
    kept.add(f".other.ckpt.{dead.pid}.tmp")
    for name in kept:
        (tmp_path / name).write_bytes(b"being written, or not ours")
    act(path)
    assert {p.name for p in tmp_path.iterdir()} == {"fit.ckpt", *kept}


def test_a_checkpoint_exists_once_it_is_saved(tmp_path):
    assert not checkpoint.exists(tmp_path / "fit.ckpt")
    checkpoint.save(tmp_path / "fit.ckpt", make_state())
    assert checkpoint.exists(tmp_path / "fit.ckpt")


def test_a_fingerprint_tells_data_and_settings_apart():
    x = np.arange(4.0)
    same = checkpoint.fingerprint({"gamma": 0.9}, x)
    assert same == checkpoint.fingerprint({"gamma": 0.9}, x.copy())
    others = [
        ({"gamma": 0.91}, x),
        ({"gamma": 0.9}, x + 1e-15),
        ({"gamma": 0.9}, x.reshape(2, 2)),
        ({"gamma": 0.9}, x.view(np.int64)),
    ]
    assert len({same, *(checkpoint.fingerprint(*other) for other in others)}) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_killed_fits_resume_bit_identically(tmp_path):
    script = Path(__file__).parents[1] / "benchmarks" / "crash.py"
    command = [sys.executable, str(script), "--kills", "12", "--folder", str(tmp_path), "--json"]
    out = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert out["kills"] >= 12
    assert out["unreadable"] == 0
    assert out["different"] == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_a_checkpointed_fit_is_the_fit(cls, tmp_path, monkeypatch):
    """Stopped after every second save and continued by a fresh object, it ends with the bits of one plain fit."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)) / 2, rng.normal(size=60)
    columns = {"ratio": rng.uniform(0.5, 1.5, 60), "start": np.arange(60) % 15 == 0}
    passes = {"n_passes": 2} if "n_passes" in cls().get_params() else {}
    plain = cls(gamma=0.7, **passes).fit(X, y, **columns)
    original = checkpoint.save
    for _ in range(30):
        left = 2

        def save(*args, **keywords):
            nonlocal left
            original(*args, **keywords)
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(checkpoint, "save", save)
        try:
            model = checkpoint.fit(cls(gamma=0.7, **passes), X, y, path=tmp_path / "c", rows_per_save=13, **columns)
            break
        except KeyboardInterrupt:
            continue
    assert model.coef_.tobytes() == plain.coef_.tobytes()
    assert (model.n_iter_, model.status_) == (plain.n_iter_, plain.status_)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpointed_fit_refuses_other_rows(tmp_path, monkeypatch):
    X, y = np.eye(4), np.ones(4)

    def stop(*args, **keywords):
        original(*args, **keywords)
        raise KeyboardInterrupt

    original = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.fit(TDC(), X, y, path=tmp_path / "c", rows_per_save=2)
    monkeypatch.undo()
    for model, reward in [(TDC(), 2 * y), (TDC(eta=2.0), y), (TD(), y)]:
        with pytest.raises(ValueError, match="other data or settings"):
            checkpoint.fit(model, X, reward, path=tmp_path / "c")
    assert checkpoint.fit(TDC(), X, y, path=tmp_path / "c").coef_.tobytes() == TDC().fit(X, y).coef_.tobytes()
