"""Minari datasets: episodes with odd fields.

What Minari and h5py make of a damaged file is theirs, and a crash inside the HDF5 library cannot be caught here; what
they raise becomes one sentence. Everything after that is ours and is fuzzed: lengths that do not match, spaces of
dictionaries and tuples, missing fields, odd types.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuzz.mutations import Choices
from fuzz.oracle import check_log
from fuzz.tables import NUMBERS, ODD

TYPES = ["f8", "f8", "f4", "i8", "u8", "i4", "?", "f2", "O", "U3", "M8[s]", "c16"]


def values(choose: Choices, n: int) -> Any:
    """n rows of one kind: as expected, or another length, type or shape."""
    n = choose.one([n, n, n, n, n, n, n + 1, max(n - 1, 0), 0])
    shape = choose.one([(n,), (n, 2), (n, 2), (n, 1), (n, 2, 2), (n, 0), ()])
    if choose.odd(8):
        return choose.one([None, 3, "text", [], [[1], [1, 2]], {}, (), {"a": None}, [choose.one(ODD)] * n])
    array = np.resize(np.arange(0, 2, 0.25), shape).astype(choose.one(TYPES))
    if array.size and choose.odd(3):
        array.flat[choose.number(array.size)] = np.asarray(choose.one(NUMBERS)).astype(array.dtype)
    return array


def space(choose: Choices, n: int, depth: int = 0) -> Any:
    """Rows, or a dictionary or a tuple of such."""
    if depth == 2 or not choose.odd(4):
        return values(choose, n)
    parts = [space(choose, n, depth + 1) for _ in range(choose.number(3))]
    return choose.one([tuple(parts), dict(zip("abc", parts, strict=False))])


def episode(choose: Choices, number: int) -> SimpleNamespace:
    """A valid episode, of which some fields are replaced and one may be absent."""
    n = choose.one([3, 3, 2, 1, 0])
    ends = np.arange(n) == n - 1
    fields = {
        "id": number,
        "observations": np.arange(2.0 * (n + 1)).reshape(n + 1, 2),
        "actions": np.arange(n) % 2,
        "rewards": np.ones(n),
        "terminations": ends & bool(number % 2),
        "truncations": ends & (not number % 2),
        "infos": {"behavior_prob": np.full(n + choose.number(2), 0.5)},
    }
    for name in fields:
        if choose.odd(6):
            fields[name] = space(choose, n + (name == "observations"))
    if choose.odd(16):
        del fields[choose.one(list(fields))]
    return SimpleNamespace(**fields)


class Dataset:
    """What is asked of a `minari.MinariDataset`."""

    def __init__(self, data: bytes) -> None:
        choose = Choices(data)
        self.episodes = [episode(choose, i) for i in range(choose.one([2, 3, 1, 0]))]

    def iterate_episodes(self) -> Any:
        return iter(self.episodes)


def one_input(data: bytes) -> None:
    with np.errstate(all="ignore"):
        dataset = Dataset(data)
    check_log(dataset, data)


SEEDS = [bytes(60), *(random.Random(i).randbytes(60) for i in range(8))]
TOKENS: list[bytes] = []
