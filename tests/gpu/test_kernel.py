"""The kernel's algorithm against the library's solvers: emulated everywhere, on the device with `-m gpu`."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gpu.cases import estimators, rows
from gpu.emulation import block_sum, emulate
from pairs import covering

from sparsetd.sweeps.cuda import inputs_of, launch, stream
from sparsetd.sweeps.gpu import job_of

CASES = estimators()
VARIED = ("lam", "step_size", "average", "rho_theta", "fit_norm", "extragradient")


def settings(model):
    chosen = model.get_params()
    return {"kind": type(model), **{name: chosen[name] for name in VARIED if name in chosen}}


def both(model, dtype):
    """θ of the kernel and of the estimator, which take the same rows; None where what is left of θ is rounding."""
    batch, job = rows(), job_of(model)
    found, taken = stream([job], inputs_of([job], [batch], dtype, model.coef_init), [9, len(batch) * job.passes], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
        model.fit(batch.phi.astype(dtype), batch.reward, batch.phi_next.astype(dtype), **columns)
    lost = model.status_ == "diverged" and dtype == np.float32
    assert abs(int(taken[0]) - model.n_iter_) <= lost
    return None if lost else (found[0, -1], model.coef_)


def compared(thetas, tolerance):
    if thetas is not None:
        np.testing.assert_allclose(*thetas, rtol=tolerance, atol=tolerance * np.abs(thetas[1]).max())


@pytest.mark.parametrize("model", covering(CASES, settings), ids=lambda m: str(m).replace("\n", "")[:60])
def test_the_algorithm_is_that_of_the_solvers(model, monkeypatch):
    monkeypatch.setattr("sparsetd.sweeps.cuda.launch.launch", emulate)
    compared(both(model, np.float64), 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-3)])
@pytest.mark.parametrize("model", CASES, ids=lambda m: str(m).replace("\n", "")[:60])
def test_the_device_agrees(model, dtype, tolerance):
    compared(both(model, dtype), tolerance)


WIDE = [m for m in CASES if job_of(m).dual != "none" or job_of(m).average != "none"][::4]


@pytest.mark.gpu
@pytest.mark.parametrize("keep", [0, 2])
@pytest.mark.parametrize("model", WIDE, ids=lambda m: str(m).replace("\n", "")[:60])
def test_what_lies_in_shared_memory_agrees(model, keep, monkeypatch):
    """As where a run is too wide for the registers, with this row kept and with rows that are read again."""
    monkeypatch.setattr("sparsetd.sweeps.cuda.job._divide", lambda d, *_: (32, -(-d // 32), keep, True, 1))
    compared(both(model, np.float64), 1e-9)


def test_sums_go_lane_by_lane_in_a_tree():
    values = np.random.default_rng(0).normal(size=(1, 3, 64)).astype(np.float32)
    assert block_sum(values, 64, 8) == pytest.approx(values.astype(float).sum(), rel=1e-5)
    lone = np.zeros((1, 1, 32))
    lone[0, 0, [0, 16]] = 1.0, 2.0**-53  # added to each other first, where the small one is lost
    lone[0, 0, 1] = 2.0**-53
    assert block_sum(lone, 32, 8) == 1.0


def test_a_missing_gpu_or_cupy_is_one_sentence():
    with pytest.raises((ImportError, RuntimeError), match=r"backend=.cuda. (needs CuPy|found no NVIDIA GPU)"):
        launch.cupy()
