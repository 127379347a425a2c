"""Parts of episodes by the hash of their ids."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from sparsetd.logs import Transitions, concatenate, partition, read
from sparsetd.logs.partition import MANY, cuts, hashed, parts_between

MASK = 2**64 - 1


def _mixed(z: int) -> int:
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def test_the_hash_is_the_same_everywhere() -> None:
    assert _mixed(0) == 0xE220A8397B1DCDAF  # the first number of SplitMix64 with seed 0, as published
    for ids in ([0, 7, -3, 2**62], ["patient-1", "ü", ""]):
        numbers = [i & MASK if isinstance(i, int) else _digest(i) for i in ids]
        slow = [_mixed((_mixed(number) + _digest("folds")) & MASK) for number in numbers]
        assert hashed(ids, "folds").tolist() == slow
    assert hashed([7, -3], "folds").tolist() == [6113095575799428630, 17171963855595052327]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float64, object])
def test_the_type_of_an_id_does_not_matter(kind: type) -> None:
    ids = np.arange(-50, 50)
    assert hashed(ids.astype(kind)).tolist() == hashed(ids).tolist()


@pytest.mark.parametrize("n_ids", [5, 7, 1000])
def test_parts_are_of_equal_size_and_know_no_order(n_ids: int) -> None:
    ids = np.array([f"stay {i}" for i in range(n_ids)], dtype=object)
    parts = partition(ids, 5)
    assert np.ptp(np.bincount(parts, minlength=5)) <= 1
    order = np.random.default_rng(0).permutation(n_ids)
    assert partition(ids[order], 5).tolist() == parts[order].tolist()


def test_a_shard_places_its_episodes_with_the_cuts_alone() -> None:
    ids = np.arange(100)
    border = cuts(hashed(ids, "x"), 4)
    shards = [parts_between(border, hashed(part, "x")) for part in np.array_split(ids, 7)]
    assert np.concatenate(shards).tolist() == partition(ids, 4, "x").tolist()


def test_of_very_many_ids_the_parts_are_equal_ranges_of_the_hashes() -> None:
    ids = np.arange(MANY)
    sizes = np.bincount(partition(ids, 5), minlength=5)
    assert np.abs(sizes * 5 / MANY - 1).max() < 0.01
    assert np.mean(partition(ids[:-1], 5) != partition(ids, 5)[:-1]) < 0.005  # one id fewer: the cuts are exact again


def test_salts_are_independent() -> None:
    ids = np.arange(20_000)
    both = partition(ids, 2, "a") * 2 + partition(ids, 2, "b")
    assert np.abs(np.bincount(both) / 5000 - 1).max() < 0.05


def test_no_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="`ids` is empty"):
        partition([], 5)


def test_a_log_keeps_what_it_calls_its_episodes() -> None:
    columns = {
        "obs_a": np.arange(5.0),
        "reward": np.zeros(5),
        "terminated": np.array([0, 1, 0, 0, 1]),
        "episode": np.array(["b", "b", "a", "a", "a"], dtype=object),
    }
    log = read(columns)
    assert log.ids().tolist() == ["b", "a"]
    assert log.episode.tolist() == [0, 0, 1, 1, 1]
    assert log[2:].ids().tolist() == ["a"]
    assert concatenate([log[:2], log[2:]]).ids().tolist() == ["b", "a"]
    assert Transitions.from_arrays(np.zeros(2), np.zeros(2), episode=[9, 4], terminated=[1, 1]).ids().tolist() == [9, 4]
    assert Transitions.from_arrays(np.zeros(2), np.zeros(2), terminated=[1, 1]).ids().tolist() == [0, 1]
