"""Minari datasets, local ones, with or without an environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsetd.transitions.checks import Array

PROBABILITIES = ("behavior_prob", "target_prob", "ratio")


def minari_chunks(dataset: Any, batch_rows: int) -> Iterator[dict[str, Array]]:
    """Chunks of whole episodes of a `minari.MinariDataset`, or of the local dataset with that identifier.

    An episode has T + 1 observations for T steps: they become s and s'. Minari has no standard field for propensities:
    the entries `behavior_prob`, `target_prob` and `ratio` of `infos` are read where they exist.
    """
    if isinstance(dataset, str):
        dataset = _load(dataset)
    pending: list[dict[str, Array]] = []
    size = 0
    for episode in dataset.iterate_episodes():
        columns = _columns(episode)
        pending.append(columns)
        size += len(columns["reward"])
        if size >= batch_rows:
            yield _join(pending)
            pending, size = [], 0
    if pending:
        yield _join(pending)


def _load(identifier: str) -> Any:
    try:
        import minari
    except ImportError:
        raise ImportError('Reading Minari datasets needs minari: pip install "sparsetd[minari]".') from None
    try:
        return minari.load_dataset(identifier, download=False)
    except (FileNotFoundError, ValueError) as error:
        raise ValueError(f"There is no local Minari dataset {identifier!r} ({error}): download it first.") from None


def _columns(episode: Any) -> dict[str, Array]:
    n = len(episode.rewards)
    observations = _flat(episode.observations)
    columns = {
        "observation": observations[:-1],
        "next_observation": observations[1:],
        "action": _flat(episode.actions),
        "reward": np.asarray(episode.rewards),
        "terminated": np.asarray(episode.terminations),
        "truncated": np.asarray(episode.truncations),
        "episode": np.full(n, episode.id),
    }
    if len(observations) != n + 1:
        raise ValueError(
            f"Episode {episode.id} must have {n + 1} observations for {n} rewards, but it has {len(observations)}."
        )
    for name in PROBABILITIES:
        if episode.infos and name in episode.infos:
            columns[name] = np.asarray(episode.infos[name])[-n:]
    return columns


def _flat(values: Any) -> Array:
    """Arrays, or dictionaries and tuples of arrays, side by side as (n, p); plain numbers stay a vector."""
    if isinstance(values, dict):
        return np.hstack([_flat(part).reshape(_length(part), -1) for part in values.values()])
    if isinstance(values, tuple):
        return np.hstack([_flat(part).reshape(_length(part), -1) for part in values])
    array = np.asarray(values)
    return array if array.ndim == 1 else array.reshape(len(array), -1)


def _length(part: Any) -> int:
    while isinstance(part, (dict, tuple)):
        part = next(iter(part.values())) if isinstance(part, dict) else part[0]
    return len(part)


def _join(episodes: list[dict[str, Array]]) -> dict[str, Array]:
    names = [name for name in episodes[0] if all(name in episode for episode in episodes)]
    return {name: np.concatenate([episode[name] for episode in episodes]) for name in names}
