"""Sums over a shard for the tests of engines: importable by their worker processes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs import Transitions


@dataclass(frozen=True, eq=False)
class Sums:
    """Numbers whose sum depends on its order."""

    gram: Any
    n_rows: int
    ids: list[int]

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.gram + other.gram, self.n_rows + other.n_rows, self.ids + other.ids)

    def __bytes__(self) -> bytes:
        return bytes(self.gram.tobytes() + repr((self.n_rows, self.ids)).encode())


def sums(log: Transitions, scale: float = 1.0) -> Sums:
    rows = scale * np.asarray(log.observation, dtype=np.float64)
    return Sums(rows.T @ rows, len(log), [int(i) for i in log.ids()])


def slow_sums(log: Transitions, seconds: float) -> Sums:
    time.sleep(seconds)
    return sums(log)


def noted_sums(log: Transitions, folder: str) -> Sums:
    """One file for each call."""
    Path(folder, f"{log.ids()[0]}-{time.monotonic_ns()}").touch()
    return sums(log)


def deadly_sums(log: Transitions, folder: str, victim: int) -> Sums:
    """The first process that meets the victim's shard is killed, as a machine without memory would do it."""
    mark = Path(folder, "died")
    if victim in log.ids() and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return sums(log)
