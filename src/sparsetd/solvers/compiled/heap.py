"""A heap of keys and their owners, which knows the smallest key."""

from __future__ import annotations

from sparsetd.solvers.compiled.compile import piece

HEAPED = 1  # the entry of `counter` that holds its size


@piece
def push(keys, owners, counter, key, owner):
    """Into the heap, where keys[i] ≤ keys[2i + 1], keys[2i + 2]."""
    i = counter[HEAPED]
    counter[HEAPED] += 1
    while i > 0 and keys[(i - 1) // 2] > key:
        keys[i], owners[i] = keys[(i - 1) // 2], owners[(i - 1) // 2]
        i = (i - 1) // 2
    keys[i], owners[i] = key, owner


@piece
def drop_first(keys, owners, counter):
    """Out of the heap."""
    n = counter[HEAPED] - 1
    counter[HEAPED] = n
    key, owner, i, sinks = keys[n], owners[n], 0, True
    while sinks and 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and keys[child + 1] < keys[child]:
            child += 1
        sinks = keys[child] < key
        if sinks:
            keys[i], owners[i] = keys[child], owners[child]
            i = child
    keys[i], owners[i] = key, owner
