"""Find out before a computation starts whether it fits into memory, rather than let the system kill it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

GIB = 2**30
MEMINFO = Path("/proc/meminfo")
# A container's limit, its use, and the cached files in that use, which can be dropped: first in the present form of
# Linux's control groups, then in the older one.
CGROUP = Path("/sys/fs/cgroup")
LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def require(need: float, what: str, remedy: str, free: float | None = None) -> None:
    """Refuse work that needs more bytes than are free: "… takes about 7.0 GiB, but 3.1 GiB are free: …"."""
    free = available() if free is None else free
    if need > free:
        sizes = f"takes about {need / GIB:.1f} GiB, but {free / GIB:.1f} GiB are free"
        raise MemoryError(f"{what} {sizes}: {remedy}")


def available() -> float:
    """Bytes that this process may still take, by the tightest limit of the system, the container and the process."""
    known = [np.inf]  # where nothing is known, as on other systems than Linux, nothing is refused
    with suppress(OSError, StopIteration, ValueError):
        known.append(1024 * sum(_entry(MEMINFO, name) for name in ("MemAvailable:", "SwapFree:")))
    for limit, used, parts, files in LIMITS:
        with suppress(OSError, StopIteration, ValueError):  # "max" is no number, and no limit
            taken = float((CGROUP / used).read_text()) - _entry(CGROUP / parts, files)
            known.append(float((CGROUP / limit).read_text()) - taken)
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]  # as `ulimit -v` sets it
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        if most != resource.RLIM_INFINITY:
            known.append(most - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(0.0, min(known))


def for_evaluation(n_rows: int, n_columns: int) -> float:
    """Bytes that `evaluate` takes at its peak beside the log itself, by a formula that was fitted to measurements."""
    return 8.0 * n_rows * (6 * n_columns + 60)


def _entry(file: Path, name: str) -> float:
    return float(next(line.split()[1] for line in file.read_text().splitlines() if line.split()[0] == name))
