"""The next batch is read while the caller works on this one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(batches: Iterable[T]) -> Iterator[T]:
    """The same batches in the same order; a second thread reads one, and never more than one, ahead.

    At most two batches are in memory. What goes wrong while reading is raised here, after the batches before it. A
    caller that stops early, by an exception or Ctrl-C as well, waits for the batch that is being read and no longer.
    """
    source = iter(batches)
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as reader:
        coming = reader.submit(next, source, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield batch
