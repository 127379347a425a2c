"""Who reaches zero next? A queue of the active coordinates of dual averaging, in the order in which they leave.

The level ℓ = ρ Σa_i only grows, so an untouched coordinate leaves the active ones once, in the order of |v|/ρ: the keys
of a heap. A key is a little early and a re-entry a little late, so that rounding keeps no coordinate beyond its time.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import part, piece

# Places in a line, rows of `active` (Σ(|v| − ℓ)², Σ(|v| − ℓ), how many, ℓ), of `lane` and of `scale`, as in `awake`.
V, R, SHARE, KEY, MARK = 0, 4, 8, 12, 15
SQUARES, LENGTHS, NUMBER, LEVEL = range(4)
L1, PER = 0, 4
P, Q = range(2)
HEAPED = 1  # the entry of `counter` that holds the size of the heap
EARLY, LATE = 1.0 - 2.0**-50, 1.0 + 2.0**-50


@piece
def _push(keys, owners, counter, key, owner):
    """Into the heap, where keys[i] ≤ keys[2i + 1], keys[2i + 2]."""
    i = counter[HEAPED]
    counter[HEAPED] += 1
    while i > 0 and keys[(i - 1) // 2] > key:
        keys[i], owners[i] = keys[(i - 1) // 2], owners[(i - 1) // 2]
        i = (i - 1) // 2
    keys[i], owners[i] = key, owner


@piece
def _drop_first(keys, owners, counter):
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


@part
def enter(s, j, b, key):
    s.line[j, KEY + b] = key
    _push(s.keys, s.owners, s.counter, key, 2 * j + b)


@piece
def raise_level(s, before, mass):
    """ℓ ← l1·mass; the coordinates that it reaches leave the active ones."""
    active, line = s.active, s.line
    for b in range(2):
        rise = s.lane[L1, b] * mass - active[LEVEL, b]
        active[SQUARES, b] += rise * (active[NUMBER, b] * rise - 2.0 * active[LENGTHS, b])
        active[LENGTHS, b] -= rise * active[NUMBER, b]
        active[LEVEL, b] = s.lane[L1, b] * mass
    while s.counter[HEAPED] > 0 and s.keys[0] <= mass:
        key, j, b = s.keys[0], s.owners[0] // 2, s.owners[0] % 2
        _drop_first(s.keys, s.owners, s.counter)
        if line[j, KEY + b] == key:  # else it has moved towards zero since, and has another entry or none
            line[j, KEY + b] = 0.0
            if line[j, MARK] == 0.0:
                size = abs(line[j, V + b])
                if size > active[LEVEL, b]:  # it has moved away from zero since
                    enter(s, j, b, max(size * s.lane[PER, b], mass * LATE))
                else:  # it leaves, and takes along what it has in its sum
                    v, beyond = line[j, V + b], size - active[LEVEL, b]
                    active[SQUARES, b] -= beyond * beyond
                    active[LENGTHS, b] -= beyond
                    active[NUMBER, b] -= 1.0
                    line[j, R + b] += v * s.scale[P, b] - np.copysign(s.scale[Q, b], v)
                    line[j, SHARE + b] += before
