"""What holds for all tests: every answer is computed a second way, the examples are the same in every run, no verdict
is passed on how fast the machine is, and two workers do not compile the same kernels."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ["SPARSETD_VERIFY"] = "1"  # also read by the commands that tests start
for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")  # two workers on two cores: more threads would only wait for one another
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of the garbage collections, and what has survived two of them out of most: they
    cost a fifth of the time of compiling."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 1000)


def pytest_runtest_teardown() -> None:
    """Close the figures of a test: pyplot keeps them, and warns where they are many."""
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


# Folders and files whose tests compile kernels, and then those that use a few of them.
KERNELS = (
    "solvers/",
    "estimators/",
    "gpu/",
    "control/",
    "test_laws.py",
    "storage/test_cache.py",
    "logs/test_sparse_logs.py",
    "evaluation/test_fit_shards.py",
    "fuzz/test_fuzz.py",
    "reproduction/",
    "sweeps/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what compiles kernels first, other files of this folder next, and the other folders last."""

    def place(item: pytest.Item) -> int:
        name = item.nodeid.removeprefix("tests/")
        found = [number for number, start in enumerate(KERNELS) if name.startswith(start)]
        return found[0] if found else len(KERNELS) + ("/" in name.partition("::")[0])

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Let the first worker go through the tests from their beginning and all others from their end, one function at a
    time: one worker compiles the kernels, each once, and all workers are busy until the last test."""
    from xdist.scheduler import LoadFileScheduling

    class FromBothEnds(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("[")[0]

        def _assign_work_unit(self, node: Any) -> None:
            if node is not self.nodes[0]:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False  # keep the order above
    return FromBothEnds(config, log)
