"""Apply a function to every shard of a log and add up the results, in this process, in several, or on a cluster.

    reduced(f, shards, args) = f(shard_1, *args) + … + f(shard_n, *args)

The order of the sum depends on n alone, and every task has one BLAS thread. The same shards therefore give the same
bytes, whoever does the work and whatever was killed on the way. `sparsetd.logs.dask` has the engine for a cluster.
"""

from __future__ import annotations

import ctypes
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sparsetd._tools.progress import track
from sparsetd._tools.workers import delayed, in_processes, thread_pools
from sparsetd.logs import Shard, Transitions
from sparsetd.storage.cache import Cache, key_of

__all__ = ["Engine", "Processes", "Serial", "reduced"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h

Task = tuple[Shard, Sequence[Any]]
Work = Callable[[Task], Any]


class Engine(Protocol):
    """Applies `work` to every task and adds the results along `tree`."""

    def reduce(self, work: Work, tasks: Sequence[Task]) -> Any: ...


@dataclass(frozen=True)
class Serial:
    """Handle one shard after the other, in this process."""

    def reduce(self, work: Work, tasks: Sequence[Task]) -> Any:
        return tree(track(map(work, tasks), "shards", len(tasks)))


@dataclass(frozen=True)
class Processes:
    """Handle the shards in `n` processes on this machine, each one shard at a time."""

    n: int

    def reduce(self, work: Work, tasks: Sequence[Task]) -> Any:
        calls = (delayed(by_worker)(work, task) for task in tasks)
        return tree(track(in_processes(calls, self.n), "shards", len(tasks)))


def reduced(
    f: Callable[..., Any],
    shards: Sequence[Shard],
    args: Sequence[Any] = (),
    *,
    along: Sequence[Sequence[Any]] | None = None,
    opened: Callable[[Transitions], Any] | None = None,
    engine: Engine | None = None,
    folder: str | Path | None = None,
) -> Any:
    """Apply a function to every shard and add up the results, Σ_k f(shard_k, *along_k, *args).

    Parameters
    ----------
    f : function of a module
        Takes the `Transitions` of a shard and returns its sums: numbers, arrays, lists (which are joined) or anything
        else with `__add__`.
    shards : sequence of Shard
    args : plain values and functions of modules
        Further arguments of `f`.
    along : sequence, optional
        Further arguments for each shard, which come before `args`.
    opened : callable, optional
        A function of the `Transitions`; `f` gets its result in their place.
    engine : Engine, optional
        `Serial()` by default. A single shard is always handled here.
    folder : path, optional
        Keeps the result of every shard as soon as it is known, so that a run that was killed continues with the rest.
    """
    tasks = list(zip(shards, [()] * len(shards) if along is None else along, strict=True))
    Cache(folder, tidy=True)
    work = partial(worked, f, tuple(args), opened, None if folder is None else str(folder))
    if len(tasks) == 1:
        return work(tasks[0])
    return (engine or Serial()).reduce(work, tasks)


def worked(f: Callable[..., Any], args: tuple[Any, ...], opened: Any, folder: str | None, task: Task) -> Any:
    """Take the result of one shard from the folder, or compute it."""
    shard, own = task
    kept = Cache(folder if shard.digest else None)

    @cache
    def rows() -> Any:
        log = shard.read()
        return log if opened is None else opened(log)

    with thread_pools().limit(limits=1, user_api="blas") if shard.digest else nullcontext():
        key = ""
        if kept.folder is not None:
            # Files are known by their digests and settings by their values. If `opened` holds a policy or a feature
            # map of the user, only the rows that it returns tell whether it is the same.
            source = shard.digest, sorted(shard.columns.items(), key=str), shard.part, opened
            key = key_of(source if _is_plain(opened) else rows(), (f, own, args))
        result = kept.get(key, _classes((f, args)))
        if result is None:
            result = f(rows(), *own, *args)
            kept.put(key, result)
    return result


def by_worker(work: Work, task: Task) -> Any:
    """Do a task in a process that keeps its memory.

    A worker holds only the arrays of its task, so it would give all memory back to the system after each one (Dask
    even asks for that). Fetching the memory again for the next task takes a fifth of the time, and half with Dask.
    """
    with suppress(AttributeError, OSError, TypeError):  # other systems than Linux have no mallopt
        memory = ctypes.CDLL(None)
        for parameter, size in ((M_MMAP_THRESHOLD, 2**25), (M_TRIM_THRESHOLD, 2**30)):
            memory.mallopt(parameter, size)
    return work(task)


def _is_plain(value: Any) -> bool:
    """Whether a value holds only numbers, text and arrays; our own classes count, since a key holds the version."""
    if is_dataclass(value) and type(value).__module__.startswith("sparsetd."):
        return all(_is_plain(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, bool, int, float, np.ndarray, np.generic))


def _classes(functions: Any) -> set[type]:
    """The classes in the modules of some functions (in nested tuples), since a result may be made of these."""
    if isinstance(functions, tuple):
        return set[type]().union(*map(_classes, functions))
    members = inspect.getmembers(inspect.getmodule(functions), inspect.isclass) if inspect.isroutine(functions) else ()
    return {cls for _, cls in members}


def tree(values: Iterable[Any], add: Callable[[Any, Any], Any] = operator.add) -> Any:
    """The sum of values, neighbours first, then pairs of pairs: the order depends on their number alone.

    Values are added as they come, so of n values at most log₂ n + 1 sums are held at a time.
    """
    held: list[tuple[int, Any]] = []
    for value in values:
        size = 1
        while held and held[-1][0] == size:
            value, size = add(held.pop()[1], value), 2 * size
        held.append((size, value))
    total = held.pop()[1]
    while held:
        total = add(held.pop()[1], total)
    return total
