"""A stream of batches gives the model of one fit, whatever the batches, and a killed one continues."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import estimators
from sparsetd._tools import progress
from sparsetd.estimators import model_file
from sparsetd.estimators.base import BaseTD
from sparsetd.estimators.fit_stream import fit_in_parts, fit_stream
from sparsetd.estimators.lstd import LSTD
from sparsetd.estimators.rotd import ROGQ, ROTD
from sparsetd.estimators.td import TD
from sparsetd.solvers import PrimalDual
from sparsetd.storage.cache import Cache

N, D = 300, 80
MODELS = [
    TD(gamma=0.9, step_size=0.05),
    ROTD(gamma=0.9, step_size=0.05, rho_theta=0.001, rho_w=0.002, fit_intercept=True),
    ROGQ(gamma=0.9, lam=0.7, step_size=0.05, rho_theta=0.001, average="suffix"),
]


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    X = sp.random_array((N, D), density=0.06, rng=rng, format="csr")
    columns = {"ratio": rng.random(N) + 0.5, "start": rng.random(N) < 0.1}
    return X, rng.normal(size=N), columns


def cut(log, size):
    X, y, columns = log
    for a in range(0, N, size):
        yield {"X": X[a : a + size], "y": y[a : a + size]} | {name: c[a : a + size] for name, c in columns.items()}


def same(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.coef_last_, b.coef_last_) and a.n_iter_ == b.n_iter_


def fresh(model):
    return type(model)(**model.get_params())


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("size", [1, 7, 300])
def test_successors_cross_the_borders_of_batches(log, model, size):
    X, y, columns = log
    assert same(fit_stream(fresh(model), cut(log, size)), fresh(model).fit(X, y, **columns))


def test_successors_may_be_given(log):
    X, y, columns = log
    batches = [b | {"X_next": b["X"][::-1]} for b in cut(log, 50)]
    whole = fresh(MODELS[0]).fit(X, y, sp.vstack([b["X_next"] for b in batches], format="csr"), **columns)
    assert same(fit_stream(fresh(MODELS[0]), batches), whole)


def test_dense_batches_stream_too(log):
    X, y, columns = log
    dense = (X.toarray(), y, columns)
    assert same(fit_stream(fresh(MODELS[1]), cut(dense, 32)), fresh(MODELS[1]).fit(X.toarray(), y, **columns))


def test_several_estimators_in_one_pass(log):
    X, y, columns = log
    models = [fresh(model) for model in MODELS]
    assert fit_stream(models, cut(log, 64)) is models
    for model, alone in zip(models, MODELS, strict=True):
        assert same(model, fresh(alone).fit(X, y, **columns))


@pytest.mark.parametrize("rows_per_block", [1, 7, 50])
def test_blocks_of_dense_rows_change_nothing(log, rows_per_block, monkeypatch):
    X, y, columns = log
    X = X.toarray()
    taken = []
    update = PrimalDual.update
    monkeypatch.setattr(PrimalDual, "update", lambda *a: (taken.append((id(a[1]), len(a[2]))), update(*a))[1])
    module = importlib.import_module("sparsetd.estimators.fit_stream")
    monkeypatch.setattr(module, "BLOCK_BYTES", rows_per_block * 16 * D)
    alone = [*MODELS, ROTD(gamma=0.5, step_size=lambda t: 0.1 / np.sqrt(t + 1)), ROTD(gamma=0.9), LSTD(gamma=0.9)]
    models = fit_stream([fresh(model) for model in alone], cut((X, y, columns), 64))
    assert max(rows for _, rows in taken) == min(rows_per_block, 64)
    assert taken[0][0] != taken[1][0], "one configuration after the other in every block"
    for model, other in zip(models, alone, strict=True):
        assert same(model, fresh(other).fit(X, y, **columns))


def test_rows_are_checked_once_for_models_that_treat_them_alike(log, monkeypatch):
    X, y, columns = log
    checked = []
    check = BaseTD._batch
    monkeypatch.setattr(BaseTD, "_batch", lambda model, *a, **k: (checked.append(len(a[1])), check(model, *a, **k))[1])
    fit_stream([fresh(MODELS[0]), fresh(MODELS[0]), TD(gamma=0.5, step_size=0.05)], [{"X": X, "y": y, **columns}])
    assert checked.count(N - 1) == 2


def test_parameters_are_checked(log):
    with pytest.raises(ValueError, match="gamma=2"):
        fit_stream(TD(gamma=2), cut(log, 10))


def test_a_checkpoint_of_other_rows_is_refused(log, tmp_path):
    path = tmp_path / "kept"
    X, y, columns = log

    def killed(batches):
        for number, batch in enumerate(batches):
            if number == 7:
                raise KeyboardInterrupt
            yield batch

    def interrupted():
        Cache(path).clear()
        with pytest.raises(KeyboardInterrupt):
            fit_stream(fresh(MODELS[0]), killed(cut(log, 20)), checkpoint=path, seconds_per_save=0.0)

    changed = y.copy()
    changed[13] += 1e-9
    other_rows = X.copy()
    other_rows.data[0] += 1e-9
    for other in ((X, changed, columns), (other_rows, y, columns), (X, y, {**columns, "ratio": columns["ratio"] * 2})):
        interrupted()
        with pytest.raises(ValueError, match="covers 7 batches of other rows: remove it"):
            fit_stream(fresh(MODELS[0]), cut(other, 20), checkpoint=path)
    with pytest.raises(ValueError, match="covers 7 batches of other rows: remove it"):
        fit_stream(fresh(MODELS[0]), cut(log, 10), checkpoint=path)
    with pytest.raises(ValueError, match="covers 7 batches, but there are only 5: remove it"):
        fit_stream(fresh(MODELS[0]), list(cut(log, 20))[:5], checkpoint=path)
    assert same(fit_stream(fresh(MODELS[0]), cut(log, 20), checkpoint=path), fresh(MODELS[0]).fit(X, y, **columns))


def test_a_killed_stream_continues_from_its_checkpoint(log, tmp_path):
    X, y, columns = log
    path = tmp_path / "kept"

    def killed():
        for number, batch in enumerate(cut(log, 20)):
            if number == 11:
                raise KeyboardInterrupt
            yield batch

    models = [fresh(model) for model in MODELS]
    with pytest.raises(KeyboardInterrupt):
        fit_stream(models, killed(), checkpoint=path, seconds_per_save=0.0)
    assert path.exists()
    models = [fresh(model) for model in MODELS]
    fit_stream(models, cut(log, 20), checkpoint=path, seconds_per_save=0.0)
    assert not path.exists()
    for model, alone in zip(models, MODELS, strict=True):
        assert same(model, fresh(alone).fit(X, y, **columns))


@pytest.mark.parametrize("steps", [{}, {"step_size": 0.05}], ids=["automatic", "by hand"])
def test_a_checkpoint_holds_a_penalty_with_an_intercept_on_many_features(steps, tmp_path):
    n, wide = 40, 2**18
    X = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n))), shape=(n, wide))
    batches = [{"X": X[k : k + 10], "y": np.ones(10)} for k in range(0, n, 10)]
    model = ROTD(gamma=0.5, rho_theta=0.01, fit_intercept=True, **steps)
    kept = fit_stream(fresh(model), batches, checkpoint=tmp_path / "kept", seconds_per_save=0)
    assert same(kept, fit_stream(fresh(model), batches))


def test_progress_counts_batches(log, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    said = io.StringIO()
    with progress.shown(said):
        fit_stream(fresh(MODELS[0]), cut(log, 77))
    assert [line.split(",")[0] for line in said.getvalue().splitlines()] == [f"batches: {k}" for k in (1, 2, 3, 4)]


def test_what_cannot_stream_is_refused(log):
    with pytest.raises(ValueError, match="n_passes=2"):
        fit_stream(TD(n_passes=2), cut(log, 10))
    with pytest.raises(ValueError, match="batches is empty"):
        fit_stream(TD(), [])
    first, second, *_ = cut(log, 10)
    with pytest.raises(ValueError, match="only one of batch 1 and the first has X_next"):
        fit_stream(TD(), [first, second | {"X_next": second["X"]}])
    with pytest.raises(ValueError, match="only one of batch 1 and the first has ratio"):
        fit_stream(TD(), [first, second | {"ratio": None}])


def test_what_is_no_batch_is_refused_with_what_to_pass(log):
    one = next(cut(log, 50))
    for batches, kind in (([[1.0]], "list"), (one, "str")):
        with pytest.raises(TypeError, match=rf"not a {kind}: pass a list of batches, or `read_batches"):
            fit_stream(TD(), batches)
    with pytest.raises(ValueError, match="a batch lacks X and y; it has phi, reward: X holds the features"):
        fit_stream(TD(), [{"phi": one["X"], "reward": one["y"]}])


def test_a_kept_checkpoint_goes_on_with_more_batches(log, tmp_path):
    X, y, columns = log
    path, batches = tmp_path / "kept", list(cut(log, 20))
    fit_stream(fresh(MODELS[0]), batches[:8], checkpoint=path, keep_checkpoint=True)
    assert path.exists()
    whole = fit_stream(fresh(MODELS[0]), batches, checkpoint=path)
    assert same(whole, fresh(MODELS[0]).fit(X, y, **columns))
    assert not path.exists()


def test_the_common_progress_counts_batches(log, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    said = io.StringIO()
    with progress.shown(said):
        fit_stream(fresh(MODELS[0]), list(cut(log, 20))[:3])
    assert [line.split(",")[0] for line in said.getvalue().splitlines()] == [f"batches: {k} of 3" for k in (1, 2, 3)]


def test_a_checkpoint_of_other_settings_is_not_found(log, tmp_path):
    X, y, columns = log
    fit_stream(fresh(MODELS[0]), list(cut(log, 20))[:8], checkpoint=tmp_path, keep_checkpoint=True)
    other = TD(gamma=0.8, step_size=0.05)
    assert same(fit_stream(fresh(other), cut(log, 20), checkpoint=tmp_path), fresh(other).fit(X, y, **columns))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_fitted_or_loaded_model_goes_on_from_where_it_was(log, model, tmp_path):
    """One night after the other is one stream; nothing is forgotten and nothing begins afresh."""
    batches = [b | {"X_next": b["X"][::-1]} for b in cut(log, 50)]
    whole = fit_stream(fresh(model), batches)
    yesterday = fit_stream(fresh(model), batches[:2])
    model_file.save(yesterday, tmp_path / "yesterday.sparsetd")
    today = fit_stream(model_file.load(tmp_path / "yesterday.sparsetd"), batches[2:])
    np.testing.assert_allclose(today.coef_, whole.coef_, rtol=1e-10, atol=1e-14)
    assert today.n_iter_ == whole.n_iter_ == N
    assert same(fit_stream(yesterday, batches[2:]), whole)


def test_a_model_that_cannot_go_on_says_so(log, tmp_path):
    batches = list(cut(log, 50))
    model_file.save(fit_stream(LSTD(gamma=0.9, alpha=0.1), batches), tmp_path / "m")
    with pytest.raises(ValueError, match="holds no solver state: go on from a file"):
        fit_stream(model_file.load(tmp_path / "m"), batches)
    model_file.save(fit_stream(fresh(MODELS[0]), batches), tmp_path / "m")
    with pytest.raises(ValueError, match="X has 79 features, but TD is expecting 80"):
        fit_stream(model_file.load(tmp_path / "m"), [b | {"X": b["X"][:, 1:]} for b in batches])


def test_a_model_of_the_command_line_says_how_it_goes_on(log):
    with pytest.raises(TypeError, match=r"ValueFunction .* `partial_fit\(log\)`, or .* `sparsetd fit --init`"):
        fit_stream(estimators.ValueFunction(None, TD()), list(cut(log, 50)))


def test_a_killed_continuation_begins_with_the_model_it_was_given(log, tmp_path):
    """The key of the checkpoint has the state that was loaded: another yesterday is another run."""
    batches = [b | {"X_next": b["X"][::-1]} for b in cut(log, 50)]
    one, other = (fit_stream(fresh(MODELS[0]), batches[:k]) for k in (1, 2))
    for model in (one, other):
        model_file.save(model, tmp_path / f"{model.n_iter_}")

    def dying():
        yield from batches[2:4]
        raise KeyboardInterrupt

    folder = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        fit_stream(model_file.load(tmp_path / "50"), dying(), checkpoint=folder, seconds_per_save=0.0)
    again = fit_stream(model_file.load(tmp_path / "100"), batches[2:], checkpoint=folder)
    assert same(again, fit_stream(model_file.load(tmp_path / "100"), batches[2:]))


ESTIMATORS = [
    cls
    for name in estimators.__all__
    if isinstance(cls := getattr(estimators, name), type) and issubclass(cls, BaseTD) and cls is not BaseTD
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_a_fit_in_parts_is_the_fit(cls, tmp_path, monkeypatch):
    """Stopped after every second save and continued by a fresh object, it ends with the bits of one plain fit."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)) / 2, rng.normal(size=60)
    columns = {"ratio": rng.uniform(0.5, 1.5, 60), "start": np.arange(60) % 15 == 0}
    passes = {"n_passes": 2} if "n_passes" in cls().get_params() else {}
    plain = cls(gamma=0.7, **passes).fit(X, y, **columns)
    original, left = Cache.put, 2

    def put(*args):
        nonlocal left
        original(*args)
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Cache, "put", put)
    how = {"checkpoint": tmp_path / "c", "rows": 13, "seconds_per_save": 0.0, **columns}
    for _ in range(30):
        left = 2
        try:
            model = fit_in_parts(cls(gamma=0.7, **passes), X, y, **how)
            break
        except KeyboardInterrupt:
            continue
    assert model.coef_.tobytes() == plain.coef_.tobytes()
    assert (model.n_iter_, model.status_) == (plain.n_iter_, plain.status_)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_killed_fits_resume_bit_identically(tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "crash.py"
    command = [sys.executable, str(script), "--kills", "12", "--folder", str(tmp_path), "--json"]
    out = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert out["kills"] >= 12
    assert (out["unreadable"], out["different"], out["leftovers"]) == (0, 0, 0)
