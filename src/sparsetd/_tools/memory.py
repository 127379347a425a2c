"""Whether a computation fits into memory: said before it starts, not by the system that kills it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

GIB = 2**30
# The limit of a container, what is used of it, and what of that are files that can go: the present and the older kind.
CGROUP = Path("/sys/fs/cgroup")
LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def require(need: float, what: str, remedy: str) -> None:
    """Refuse what needs more bytes than are available: "… takes about 7.0 GiB, but 3.1 GiB are free: …"."""
    free = available()
    if need > free:
        raise MemoryError(f"{what} takes about {_gib(need)}, but {_gib(free)} are free: {remedy}")


def available() -> float:
    """Bytes that this process may still take: the least of the system's, the container's and the process's limits."""
    return max(0.0, min(_of_system(), *(_of_container(*names) for names in LIMITS), _of_process()))


def for_evaluation(n_rows: int, n_columns: int) -> float:
    """Bytes that `evaluate` takes at its peak for so many rows and observed columns beside the log, as measured."""
    return 8.0 * n_rows * (6 * n_columns + 60)


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _entry(file: Path, name: str) -> float:
    return float(next(line.split()[1] for line in file.read_text().splitlines() if line.split()[0] == name))


def _of_system() -> float:
    try:
        return 1024 * sum(_entry(Path("/proc/meminfo"), name) for name in ("MemAvailable:", "SwapFree:"))
    except (OSError, StopIteration, ValueError):
        return np.inf  # not Linux: nothing is known, so nothing is refused


def _of_container(limit: str, used: str, parts: str, files: str) -> float:
    try:
        taken = float((CGROUP / used).read_text()) - _entry(CGROUP / parts, files)
        return float((CGROUP / limit).read_text()) - taken
    except (OSError, StopIteration, ValueError):  # "max" is no number, and no limit
        return np.inf


def _of_process() -> float:
    """Bytes that `ulimit -v` still allows."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):
        return np.inf
    return np.inf if limit == resource.RLIM_INFINITY else limit - pages * os.sysconf("SC_PAGE_SIZE")
