"""`backend="cuda"` through the emulated kernel: the same table as on cores, and one sentence for what it cannot do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from gpu.emulation import emulate

from sparsetd import GTD2, LSTD, ROTD, TD, TDC, LinearTD, penalties, sweep
from sparsetd.estimators import PFGTD, RDATD, MirrorDescentTD, ROTDLasso
from sparsetd.problems import random_mdp, random_walk, star
from sparsetd.sweeps.cuda.job import inputs_of, shape_of
from sparsetd.sweeps.cuda.launch import _check_room
from sparsetd.sweeps.gpu import job_of


@pytest.fixture
def emulated(monkeypatch):
    monkeypatch.setattr("sparsetd.sweeps.cuda.launch.launch", emulate)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("source", ["problem", "log"])
def test_the_table_is_that_of_the_cores(source, tmp_path):
    mdp = random_mdp(np.random.default_rng(3), n_states=8, n_features=5, n_relevant=2)
    data = mdp if source == "problem" else mdp.sample(24, np.random.default_rng(0))
    learners = {"GTD2": GTD2(), "TDC": TDC(), "two passes": TDC(n_passes=2, lam=0.5), "ROTD": ROTD(rho_theta=0.01)}
    grid = {"step_size": [0.05, "auto"], "eta": [0.5, 2.0]}
    how = {"n_runs": 2, "curve": 3} | ({"n_rows": 24} if source == "problem" else {})
    cores = sweep(learners, grid, data, n_jobs=1, **how)
    device = sweep(learners, grid, data, backend="cuda", dtype="float64", out=tmp_path, **how)
    assert len(device) == len(cores)
    for ours, theirs in zip(device.rows, cores.rows, strict=True):
        assert {**ours, "rmspbe": 0, "curve": 0} == {**theirs, "rmspbe": 0, "curve": 0}
        np.testing.assert_allclose(ours["curve"], theirs["curve"], rtol=1e-8)
        assert ours["rmspbe"] == pytest.approx(theirs["rmspbe"], rel=1e-8)
    again = sweep(learners, grid, data, backend="cuda", dtype="float64", out=tmp_path, progress=pytest.fail, **how)
    assert again.rows == device.rows


@pytest.mark.usefixtures("emulated")
def test_divergence_is_a_status_there_too():
    table = sweep(
        TD(), {"step_size": [30.0]}, star(), sampling="independent", n_rows=1200, backend="cuda", dtype="float64"
    )
    assert table.rows[0]["status"] == "diverged"


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (MirrorDescentTD(step_size=0.1, p=3.0), "p other than 2"),
        (PFGTD(), "CoinBetting"),
        (LSTD(), "LeastSquares"),
        (ROTDLasso(step_size=0.1), "LeastSquaresSaddle"),
        (ROTD(fit_norm="inf", step_size=0.1), "l1 norm"),
        (RDATD(), "RDATD"),
        (TDC(step_size=lambda t: 1.0 / (1.0 + t)), "a function of your own"),
        (TDC(fit_intercept=True), "intercept"),
        (TDC(radius=1.0), "radius"),
        (LinearTD(penalty=penalties.GroupL1(np.array([0, 0]), 0.1)), "GroupL1, which is not separable"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_a_gpu_cannot_do_names_the_backend_that_can(model, what):
    with pytest.raises(ValueError, match=rf"cannot run .*{what}.*: use backend='cores'"):
        job_of(model)


def test_without_a_gpu_there_is_one_sentence():
    with pytest.raises((ImportError, RuntimeError), match="cores"):
        sweep(TDC(), {"step_size": [0.1]}, random_walk(), backend="cuda")


def test_a_launch_that_does_not_fit_is_refused_before_it_begins():
    class Device:
        """As much of CuPy as the question takes: 1 GiB free."""

        class cuda:
            class runtime:
                memGetInfo = staticmethod(lambda: (2**30, 2**34))

        get_default_memory_pool = staticmethod(lambda: SimpleNamespace(free_bytes=lambda: 0))

    inputs = inputs_of([job_of(TDC(step_size=0.1))], [random_walk().trajectory(10, 0)], np.float32)
    shape = shape_of([job_of(TDC(step_size=0.1))], 5, 1, np.float32, origin=False)
    _check_room(Device, shape, inputs, 1, 4)
    with pytest.raises(MemoryError, match=r"would hold takes about .* but 0.9 GiB are free: run fewer settings"):
        _check_room(Device, shape, inputs, 10**9, 4)
