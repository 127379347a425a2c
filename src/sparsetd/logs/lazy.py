"""Columns that are made when they are first asked for: what a log holds beyond the schema costs and breaks nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from sparsetd.logs.checks import Array


class LazyColumns(Mapping[str, Array]):
    """Named columns, each made by `make(name)` once."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Array]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
