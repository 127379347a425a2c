"""The engine for a Dask cluster: `evaluate(folder, engine=Dask("tcp://…"))`. The only module that opens a socket.

Whoever reaches the port of a Dask scheduler can run code on its workers: keep it on localhost or a private network, or
connect a `Client` with TLS (`distributed.Security`) and pass that. Workers need sparsetd and the same paths.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from sparsetd.logs.engines import Task, Work, by_worker, tree

__all__ = ["Dask"]


class Dask:
    """Handle the shards on the workers of a Dask scheduler, given by its address or as a `distributed.Client`.

    The whole sum is one static graph: a task that dies with its worker, results and all, is computed again elsewhere.
    """

    def __init__(self, scheduler: Any, *, retries: int = 3) -> None:
        self.client, self.retries = scheduler, retries
        if isinstance(scheduler, str):
            try:
                from distributed import Client
            except ImportError:
                raise ImportError("A Dask cluster needs distributed: pip install distributed.") from None
            try:
                connect: Any = Client
                self.client = connect(scheduler, set_as_default=False)
            except (OSError, ValueError) as error:
                what = f"No Dask scheduler answers at {scheduler} ({type(error).__name__})"
                raise ValueError(f"{what}: check the address.") from None

    def reduce(self, work: Work, tasks: Sequence[Task]) -> Any:
        from dask.delayed import delayed
        from distributed import KilledWorker

        total = tree([delayed(by_worker)(work, task) for task in tasks], delayed(operator.add))
        try:
            return self.client.compute(total, retries=self.retries).result()
        except KilledWorker:
            why = "out of memory, or stopped from outside"
            raise RuntimeError(f"Workers died again and again on one task ({why}): run again to continue.") from None
