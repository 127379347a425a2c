"""Inputs without atheris, and choices out of an input's bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def mutated(seeds: Sequence[bytes], tokens: Sequence[bytes], rng: random.Random) -> bytes:
    """A seed with one to four edits: a stretch removed, overwritten, doubled or replaced by a token."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        stop = min(len(data), at + rng.choice((0, 0, 1, 1, 2, 4, 8, 64)))
        new = rng.choice((b"", rng.randbytes(stop - at), data[at:stop] * 2, rng.choice(tokens or [b""])))
        data[at:stop] = new
    return bytes(data)


class Choices:
    """Decisions read from bytes, one byte each (zeros when they run out): what a fuzzer changes is a decision."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, below: int) -> int:
        byte = self.data[self.at] if self.at < len(self.data) else 0
        self.at += 1
        return byte % below

    def one(self, items: Sequence[Item]) -> Item:
        return items[self.number(len(items))]

    def odd(self, one_in: int) -> bool:
        """True for one value in so many; False when the bytes have run out."""
        return self.number(one_in) == one_in - 1
