"""The waist between what is computed and where: one function over the shards of a log, its results added up.

    reduced(f, shards, args) = f(shard_1, *args) + … + f(shard_n, *args)

The sum is taken along a tree that only n decides, and every task has one BLAS thread: the same shards give the same
bytes, whoever does the work and whatever was killed on the way. `sparsetd.logs.dask` has the engine for a cluster.
"""

from __future__ import annotations

import ctypes
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import joblib

from sparsetd._tools.progress import track
from sparsetd.logs import Shard, Transitions
from sparsetd.storage import checkpoint, container
from sparsetd.storage.encoding import Decoder

__all__ = ["Engine", "Processes", "Serial", "reduced"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h

Task = tuple[Shard, Sequence[Any]]
Work = Callable[[Task], Any]


class Engine(Protocol):
    """Whoever applies `work` to every task and adds the results along `tree`."""

    def reduce(self, work: Work, tasks: Sequence[Task]) -> Any: ...


@dataclass(frozen=True)
class Serial:
    """One shard after the other, in this process."""

    def reduce(self, work: Work, tasks: Sequence[Task]) -> Any:
        return tree(track(map(work, tasks), "shards", len(tasks)))


@dataclass(frozen=True)
class Processes:
    """`n` processes on this machine, a shard each at a time."""

    n: int

    def reduce(self, work: Work, tasks: Sequence[Task]) -> Any:
        calls = (joblib.delayed(by_worker)(work, task) for task in tasks)
        try:
            found = joblib.Parallel(n_jobs=self.n, return_as="generator")(calls)
            return tree(track(found, "shards", len(tasks)))
        except BrokenProcessPool:
            why = "out of memory, or stopped from outside"
            raise RuntimeError(f"A worker process was killed ({why}): use fewer jobs, or run again.") from None


def reduced(
    f: Callable[..., Any],
    shards: Sequence[Shard],
    args: Sequence[Any] = (),
    *,
    along: Sequence[Sequence[Any]] | None = None,
    listed: bool = False,
    opened: Callable[[Transitions], Any] | None = None,
    engine: Engine | None = None,
    folder: str | Path | None = None,
) -> Any:
    """Σ_k f(shard_k, *along_k, *args); results need only `+`.

    Parameters
    ----------
    f : function of a module
        From the `Transitions` of a shard to its sums: numbers, arrays, lists (which are joined) or what has `__add__`.
    shards : sequence of Shard
    args : plain values and functions of modules
        Further arguments of `f`.
    along : sequence, optional
        Arguments of each shard, which come before `args`.
    listed : bool
        The list of the shards' results in place of their sum.
    opened : callable, optional
        What `f` gets in place of the `Transitions` themselves: `opened` of them.
    engine : Engine, optional
        `Serial()` by default. A single shard is always handled here.
    folder : path, optional
        Where the result of every shard is kept as soon as it is there: a run that was killed continues with the rest.
    """
    tasks = list(zip(shards, [()] * len(shards) if along is None else along, strict=True))
    work = partial(worked, f, tuple(args), opened, listed, None if folder is None else str(folder))
    if len(tasks) == 1:
        return work(tasks[0])
    return (engine or Serial()).reduce(work, tasks)


def worked(
    f: Callable[..., Any], args: tuple[Any, ...], opened: Any, listed: bool, folder: str | None, task: Task
) -> Any:
    """The result of one shard, from the folder if it is there."""
    shard, own = task
    path = None
    if folder is not None and shard.digest:
        code = version("sparsetd"), shard.digest, sorted(shard.columns.items(), key=str), shard.part
        path = Path(folder, checkpoint.fingerprint(*_plain((*code, f, own, args, opened))) + ".part")
        if path.exists():
            return [_load(path, (f, args))] if listed else _load(path, (f, args))
    with _libraries().limit(limits=1, user_api="blas") if shard.digest else nullcontext():
        log = shard.read()
        result = f(log if opened is None else opened(log), *own, *args)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(path, result)
    return [result] if listed else result


def by_worker(work: Work, task: Task) -> Any:
    """work(task), in a process that keeps its memory.

    A worker has nothing but the arrays of its task, so that all memory goes back to the system with every one of them
    (Dask even asks for that). To fetch it again for the next takes a fifth of the time, and with Dask a half.
    """
    with suppress(AttributeError, OSError, TypeError):  # other systems than Linux have no mallopt
        memory = ctypes.CDLL(None)
        for parameter, size in ((M_MMAP_THRESHOLD, 2**25), (M_TRIM_THRESHOLD, 2**30)):
            memory.mallopt(parameter, size)
    return work(task)


@cache
def _libraries() -> Any:
    """The thread pools of this process; to look for them takes longer than to read a small shard."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def forget(folder: str | Path) -> None:
    """Remove what `reduced` kept in a folder, and the folder if nothing else is in it."""
    for path in Path(folder).glob("*.part"):
        if re.fullmatch(r"[0-9a-f]{64}\.part", path.name):
            path.unlink(missing_ok=True)
    with suppress(OSError):  # there is something of somebody else's, or no such folder
        Path(folder).rmdir()


def _plain(value: Any) -> Any:
    """What a digest can be taken of: functions by their names and code, other objects by what they are made of."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if inspect.isroutine(value):
        held = (cell.cell_contents for cell in getattr(value, "__closure__", None) or ())
        return f"{value.__module__}.{value.__qualname__}", _code(getattr(value, "__code__", None)), _plain(tuple(held))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__qualname__, *(_plain(getattr(value, f.name)) for f in fields(value)))
    try:
        checkpoint.fingerprint(value)
    except TypeError:
        return joblib.hash(value)
    return value


def _code(value: Any) -> str:
    """The code of a function with its names and constants, in an order that is the same in every process."""
    if inspect.iscode(value):
        return f"{value.co_code.hex()} {value.co_names} {[_code(constant) for constant in value.co_consts]}"
    return str(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _routines(value: Any) -> Iterator[Any]:
    """The functions in a nest of tuples."""
    if isinstance(value, tuple):
        yield from (found for entry in value for found in _routines(entry))
    elif inspect.isroutine(value):
        yield value


def _load(path: Path, functions: Any) -> Any:
    """A result that was kept; only classes that the modules of these functions know are built."""
    modules = {inspect.getmodule(f) for f in _routines(functions)}
    known = dict(pair for module in modules for pair in inspect.getmembers(module, inspect.isclass))
    meta, arrays = container.read(path, checkpoint.KIND)
    return Decoder(arrays, known).decode(meta["state"])


def tree(values: Iterable[Any], add: Callable[[Any, Any], Any] = operator.add) -> Any:
    """The sum of values, neighbours first, then pairs of pairs: the order depends on their number alone.

    Values are taken as they come, and of n at most log₂ n + 1 are held at a time.
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
