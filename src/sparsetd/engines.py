"""The waist between what is computed and where: one function over the shards of a log, its results added up.

    reduced(f, shards, args) = f(shard_1, *args) + … + f(shard_n, *args)

The sum is taken along a tree that only n decides, and every task has one BLAS thread: the same shards give the same
bytes, whoever does the work and whatever was killed on the way. `sparsetd.dask` has the engine for a cluster.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from sparsetd import checkpoint, container
from sparsetd.encoding import Decoder
from sparsetd.transitions import Shard

Work = Callable[[Shard], Any]
Tell = Callable[[int], None]


class Engine(Protocol):
    """Whoever applies `work` to every shard and adds the results along `tree`."""

    def reduce(self, work: Work, shards: Sequence[Shard], tell: Tell) -> Any: ...


@dataclass(frozen=True)
class Serial:
    """One shard after the other, in this process."""

    def reduce(self, work: Work, shards: Sequence[Shard], tell: Tell) -> Any:
        return tree(_counted(map(work, shards), tell))


@dataclass(frozen=True)
class Processes:
    """`n` processes on this machine, a shard each at a time."""

    n: int

    def reduce(self, work: Work, shards: Sequence[Shard], tell: Tell) -> Any:
        import joblib

        calls = (joblib.delayed(work)(shard) for shard in shards)
        try:
            return tree(_counted(joblib.Parallel(n_jobs=self.n, return_as="generator")(calls), tell))
        except BrokenProcessPool:
            why = "out of memory, or stopped from outside"
            raise RuntimeError(f"A worker process was killed ({why}): use fewer jobs, or run again.") from None


def reduced(
    f: Callable[..., Any],
    shards: Sequence[Shard],
    args: Sequence[Any] = (),
    *,
    engine: Engine | None = None,
    folder: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Any:
    """Σ_k f(shard_k, *args); results need only `+`.

    Parameters
    ----------
    f : function of a module
        From the `Transitions` of a shard to its sums: numbers, arrays, lists (which are joined) or what has `__add__`.
    shards : sequence of Shard
    args : plain values
        Further arguments of `f`.
    engine : Engine, optional
        `Serial()` by default. A single shard is always handled here.
    folder : path, optional
        Where the result of every shard is kept as soon as it is there: a run that was killed continues with the rest.
    """
    if len(shards) == 1:
        return f(shards[0].read(), *args)
    mark = (
        None
        if folder is None
        else checkpoint.fingerprint(version("sparsetd"), f.__module__, f.__qualname__, list(args))
    )
    work = partial(worked, f, tuple(args), None if mark is None else (str(folder), mark))
    return (engine or Serial()).reduce(work, shards, lambda k: progress(f"{k:,} of {len(shards):,} shards"))


def worked(f: Callable[..., Any], args: tuple[Any, ...], kept: tuple[str, str] | None, shard: Shard) -> Any:
    """The task of one shard: its result, from the folder if it is there."""
    from threadpoolctl import threadpool_limits

    name = None if kept is None else hashlib.sha256(f"{kept[1]} {shard.digest} {shard.columns}".encode()).hexdigest()
    path = None if kept is None else Path(kept[0], f"{name}.part")
    if path is not None and path.exists():
        return _load(path, f)
    with threadpool_limits(1, "blas") if shard.log is None else nullcontext():
        result = f(shard.read(), *args)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(path, result)
    return result


def _load(path: Path, f: Callable[..., Any]) -> Any:
    """A result that was kept; only classes that the module of `f` knows are built."""
    known = dict(inspect.getmembers(inspect.getmodule(f), inspect.isclass))
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


def _counted(values: Iterable[Any], tell: Tell) -> Iterator[Any]:
    for k, value in enumerate(values, start=1):
        tell(k)
        yield value
