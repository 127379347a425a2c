"""Minari datasets, local ones, with or without an environment."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, numbers, objects, reason
from sparsetd.logs.files import Opened, Raw

PROBABILITIES = ("behavior_prob", "target_prob", "ratio")


def open_minari(dataset: Any) -> Opened:
    """A `minari.MinariDataset`, or the local dataset with that identifier: its columns are those of the first episodes.

    An episode has T + 1 observations for T steps: they become s and s'. Minari has no standard field for propensities:
    the entries `behavior_prob`, `target_prob` and `ratio` of `infos` are read where they exist.
    """
    dataset = _load(dataset) if isinstance(dataset, str) else dataset
    names = next((list(columns) for columns in _chunks(dataset, 1)), ["observation", "reward"])

    def batches(columns: Sequence[str], rows: int, _: Sequence[str]) -> Iterator[Raw]:
        for chunk in _chunks(dataset, rows):
            yield {name: chunk[name] for name in columns}

    return Opened(names, batches)


def _chunks(dataset: Any, batch_rows: int) -> Iterator[dict[str, Array]]:
    """Whole episodes, as many as have so many rows."""
    pending: list[dict[str, Array]] = []
    first: dict[str, Array] = {}
    size = 0
    for number, episode in enumerate(_episodes(dataset)):
        columns = _columns(number, episode)
        if not len(columns["reward"]):
            continue
        columns = _numbers(number, columns)
        first = first or columns
        _refuse_other_shapes(number, columns, first)
        pending.append(columns)
        size += len(columns["reward"])
        if size >= batch_rows:
            yield _join(pending)
            pending, size = [], 0
    if pending:
        yield _join(pending)


def _episodes(dataset: Any) -> Iterator[Any]:
    try:
        yield from dataset.iterate_episodes()
    except Exception as error:  # a damaged file fails in h5py, Arrow and Minari, each in its own ways
        raise ValueError(f"The Minari dataset cannot be read ({reason(error)}): download it again.") from None


def _load(identifier: str) -> Any:
    try:
        import minari
    except ImportError:
        raise ImportError('Reading Minari datasets needs minari: pip install "minari[hdf5]".') from None
    try:
        return minari.load_dataset(identifier, download=False)
    except Exception as error:  # it is absent, or its metadata is damaged
        what = f"There is no local Minari dataset {identifier!r}"
        raise ValueError(f"{what} that can be read ({reason(error)}): download it first.") from None


def _columns(number: int, episode: Any) -> dict[str, Array]:
    try:
        columns = _fields(episode)
    except Exception as error:  # in place of an array there may be anything
        raise ValueError(f"Episode {number} of the Minari dataset cannot be read ({reason(error)}).") from None
    n = len(columns["reward"])
    for name, column in columns.items():
        if column.shape[:1] != (n,):
            raise ValueError(
                f"Episode {number} has {n} rewards, so `{name}` must have {n} rows (observations one more), "
                f"but its shape is {column.shape}."
            )
    return columns


def _numbers(number: int, columns: dict[str, Array]) -> dict[str, Array]:
    """Numbers only, so that episodes of one shape can be joined."""
    try:
        return {name: column if name == "episode" else numbers(name, column) for name, column in columns.items()}
    except (TypeError, ValueError) as error:
        raise type(error)(f"Episode {number} of the Minari dataset: {error}") from None


def _fields(episode: Any) -> dict[str, Array]:
    observations, rewards = _flat(episode.observations), np.asarray(episode.rewards)
    columns = {
        "observation": observations[:-1],
        "next_observation": observations[1:],
        "action": _flat(episode.actions),
        "reward": rewards,
        "terminated": np.asarray(episode.terminations),
        "truncated": np.asarray(episode.truncations),
        "episode": objects(np.asarray([episode.id] * len(rewards)).tolist()),
    }
    for name in PROBABILITIES:
        if isinstance(episode.infos, dict) and name in episode.infos:
            columns[name] = np.asarray(episode.infos[name])[-len(rewards) :]
    return columns


def _flat(values: Any) -> Array:
    """Arrays, or dictionaries and tuples of arrays, side by side as (n, p); plain numbers stay a vector."""
    if isinstance(values, (dict, tuple)):
        parts = [_flat(part) for part in (values.values() if isinstance(values, dict) else values)]
        return np.hstack([part[:, None] if part.ndim == 1 else part for part in parts])
    array = np.asarray(values)
    return array if array.ndim == 1 else array.reshape(len(array), math.prod(array.shape[1:]))


def _refuse_other_shapes(number: int, columns: dict[str, Array], first: dict[str, Array]) -> None:
    absent = next((name for name in first if name not in columns), None)
    if absent is not None:
        raise ValueError(f"Episode {number} has no `{absent}`, which episode 0 has: give it to all, or to none.")
    for name, column in columns.items():
        if name in first and column.shape[1:] != first[name].shape[1:]:
            raise ValueError(f"Episode {number} has another shape of `{name}` than episode 0: make them alike.")


def _join(episodes: list[dict[str, Array]]) -> dict[str, Array]:
    names = [name for name in episodes[0] if all(name in episode for episode in episodes)]
    return {name: np.concatenate([episode[name] for episode in episodes]) for name in names}
