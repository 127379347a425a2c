"""Run calls in several processes of this machine, which end with their parent and import only what it would.

    for result in in_processes([delayed(f)(x) for x in work], n_jobs=4): …

A worker watches its parent, so whatever signal kills the parent ends the workers too. On a busy machine it takes
seconds until a worker watches; until then the kernel of Linux ends it with its parent. A worker starts without the
current folder on its path, because a file `numpy.py` there would be run in place of NumPy. It then gets the path of its
parent, which holds that folder if the user asked for it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from typing import Any

import joblib
from joblib import delayed
from joblib.externals.loky.backend import fork_exec
from joblib.parallel import get_active_backend

__all__ = ["delayed", "in_processes", "thread_pools"]

SECONDS = 0.25  # between two looks at the parent
SAFE_PATH = "PYTHONSAFEPATH"
PR_SET_PDEATHSIG, SIGKILL = 1, 9  # Linux sends a process this signal when the thread that started it ends
# A worker runs this first, in a bare Python that takes some hundredths of a second; the request outlives execv.
PRELUDE = (
    f"import ctypes, os, sys; ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {SIGKILL}); "
    "os.getppid() == int(sys.argv[1]) and os.execv(sys.argv[2], sys.argv[2:])"
)
_start: Any = fork_exec.fork_exec  # joblib offers no other way to run something before a worker does


def in_processes(
    calls: Iterable[Any], n_jobs: int | None, *, ordered: bool = True, backend: str = "loky"
) -> Iterator[Any]:
    """Run joblib's delayed calls in processes and yield their results, in order or as they come.

    If another `backend` is named here or set by `joblib.parallel_config`, joblib starts that one's workers as usual.
    """
    how: dict[str, Any] = {"backend": backend}
    if backend == "loky":
        how |= {"initializer": end_with, "initargs": (os.getpid(),), "inner_max_num_threads": 1}
        active, _ = get_active_backend()
        how = how if type(active).__name__ == "LokyBackend" else {}
    returned = "generator" if ordered else "generator_unordered"
    try:
        with _started_with_care(), joblib.parallel_config(**how):
            yield from joblib.Parallel(n_jobs=n_jobs, return_as=returned)(calls)
    except BrokenProcessPool:
        why = "out of memory, or stopped from outside"
        raise RuntimeError(f"A worker process was killed ({why}): use fewer jobs, or run again.") from None


@cache
def thread_pools() -> Any:
    """The thread pools of this process, found once: the search takes longer than reading a small shard."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def end_with(parent: int) -> None:
    """Let this process end as soon as its parent has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if sys.platform == "linux":  # the thread that started this worker may end before its process does
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)


def _start_bound(command: list[str], *args: Any, **more: Any) -> Any:
    """Start a worker as joblib does, but bind its life to this process from its first moment on."""
    first = [sys.executable, "-IS", "-c", PRELUDE, str(os.getpid())] if sys.platform == "linux" else []
    return _start([*first, *command], *args, **more)


@contextmanager
def _started_with_care() -> Iterator[None]:
    """Let Python processes that start inside end with this one and keep the current folder off their path."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    fork_exec.fork_exec = _start_bound
    try:
        yield
    finally:
        fork_exec.fork_exec = _start
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before
