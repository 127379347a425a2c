"""What holds for all tests: every answer is computed a second way, the examples are the same in every run, no verdict
is passed on how fast the machine is, and two workers do not compile the same kernels."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ["SPARSETD_VERIFY"] = "1"  # also read by the commands that tests start
for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")  # two workers on two cores: more threads would only wait for one another
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of the garbage collections, which cost a tenth of the time of compiling."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


KERNELS = ("control", "estimators", "gpu", "solvers", "test_laws.py")  # files whose tests share compiled kernels


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Keep such a file in one process, so that one worker compiles its kernels; deal out all other tests one by one."""
    from xdist.scheduler import LoadFileScheduling

    class KernelsTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return file if file.split("/")[1] in KERNELS else nodeid

    return KernelsTogether(config, log)
