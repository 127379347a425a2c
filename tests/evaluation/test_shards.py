"""A log in shards gives every number that the log in memory gives, whatever the shards and their order."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsetd.evaluation import estimate_behavior, evaluate
from sparsetd.logs import Shard, Transitions, concatenate, read, shards
from sparsetd.logs.engines import Processes
from sparsetd.logs.sharding import part_of

N = 60


def log(kind: str) -> Transitions:
    """Sixty episodes of a linear system with four columns, and what makes a log awkward."""
    rng = np.random.default_rng(sum(map(ord, kind)))
    length = rng.integers(1, 9, N) if kind != "bandit" else np.ones(N, dtype=int)
    n, of = int(length.sum()), np.repeat(np.arange(N), length)
    s = rng.normal(size=(n + 1, 4))
    last = np.append(of[1:] != of[:-1], True)
    end = last & (of % 4 > 0) if kind == "cut" else np.zeros(n, dtype=bool) if kind == "endless" else last
    columns: dict[str, Any] = {"action": rng.integers(0, 2, n), "behavior_prob": rng.uniform(0.3, 0.9, n)}
    columns["target_prob"] = np.clip(columns["behavior_prob"] + rng.uniform(-0.2, 0.2, n), 0, 1)
    reward = s[:n, 0] + 0.5 * s[:n, 1] + rng.normal(size=n)
    if kind == "zeros":
        columns["target_prob"][rng.random(n) < 0.3] = 0.0
    if kind == "heavy":
        columns["behavior_prob"] = rng.uniform(0.01, 1, n) ** 2
    if kind == "ratio":
        columns = {"ratio": rng.exponential(size=n)}
    if kind == "far":
        s = s * [1.0, 1e3, 1e-3, 1.0] + [1e5, 0.0, 7.0, 0.0]
    if kind == "redundant":
        s = np.column_stack([s, s[:, 0] + s[:, 1], np.full(n + 1, 3.0), np.zeros(n + 1)])
    if kind == "discrete":
        s = np.rint(s)
    if kind == "float32":
        s = s.astype(np.float32)
    if kind == "misfit":
        reward = s[:n, 0] * s[:n, 1] + 0.1 * rng.normal(size=n)
    after = s[1:].copy()
    after[last] = s[rng.permutation(n)[: int(last.sum())]]
    ids = np.array([f"stay {i}" for i in of], dtype=object) if kind == "text" else of * 7 - 100
    return Transitions.from_arrays(s[:n], reward, after, terminated=end, truncated=last & ~end, episode=ids, **columns)


KINDS = ["plain", "cut", "endless", "bandit", "zeros", "heavy", "ratio"]
KINDS += ["far", "redundant", "discrete", "float32", "misfit", "text"]
SHARE, TINY = 1e-9, 1e-3


def answers(source: Any, **settings: Any) -> dict[str, Any]:
    """All that an evaluation says, but for the numbers of suspicious rows."""
    found = evaluate(source, gamma=0.9, n_resamples=5, **settings).to_dict()
    for warning in found["warnings"]:
        warning["text"] = re.sub(r"(in|first) row \d+", "", warning["text"])
    return found


def split(whole: Transitions, n: int, seed: int) -> list[Shard]:
    """The episodes in another order, in n parts."""
    rng = np.random.default_rng(seed)
    episodes = list(whole.episodes())
    order = np.array_split(rng.permutation(len(episodes)), n)
    return [Shard(concatenate([episodes[i] for i in part])) for part in order]


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two results differ by more than rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        return [line for key in one for line in differences(one[key], other[key], f"{where}.{key}")]
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return [f"{where}: {one} and {other}"]
        pairs = enumerate(zip(one, other, strict=True))
        return [line for i, pair in pairs for line in differences(*pair, f"{where}[{i}]")]
    same = one == other
    if isinstance(one, float) and isinstance(other, float):
        same |= abs(one - other) <= SHARE * max(abs(one), abs(other), TINY) or (math.isnan(one) and math.isnan(other))
    return [] if same else [f"{where}: {one!r} and {other!r}"]


def written(whole: Transitions, folder: Path, n: int) -> None:
    """`log.parquet`, and the same in n shards."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    from sparsetd.logs.sharding import shard

    columns = {"episode": whole.episode_id, "reward": whole.reward, "terminated": whole.terminated}
    columns |= {name: getattr(whole, name) for name in ("action", "behavior_prob", "target_prob")}
    columns |= {f"obs_{j}": whole.observation[:, j] for j in range(4)}
    columns |= {f"next_obs_{j}": whole.next_observation[:, j] for j in range(4)}
    pq.write_table(pa.table({k: v for k, v in columns.items() if v is not None}), folder / "log.parquet")
    shard([folder / "log.parquet"], folder / "shards", n_shards=n)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_that_of_the_log_in_memory(kind: str) -> None:
    whole = log(kind)
    expected = answers(whole)
    for n in (1, 3, 13, 50):
        assert differences(answers(split(whole, n, n)), expected) == [], n


def test_from_files_with_processes_and_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparsetd.logs import engines

    written(log("misfit"), tmp_path, 3)
    expected = answers(tmp_path / "shards")
    assert differences(expected, answers(tmp_path / "log.parquet")) == []
    assert answers(tmp_path / "shards", engine=Processes(2)) == expected
    real, calls = engines.worked, []

    def stopped(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(engines, "worked", stopped)
        with pytest.raises(KeyboardInterrupt):
            answers(tmp_path / "shards", checkpoint=tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 7
    assert answers(tmp_path / "shards", checkpoint=tmp_path / "kept") == expected
    assert not (tmp_path / "kept").exists()


def test_what_needs_a_log_in_memory_says_so() -> None:
    from sparsetd import LSTD

    parts = split(log("plain"), 3, 0)
    with pytest.raises(ValueError, match=r"an `estimator`, .* need it in memory: pass `read\(path\)`"):
        evaluate(parts, estimator=LSTD(gamma=0.9))


def unlogged(kind: str) -> Transitions:
    """A log without the probabilities of its actions, which follow the first column."""
    whole = log(kind)
    names = ("treat", "wait") if kind == "text" else None
    action = (whole.observation[:, 0] + np.random.default_rng(1).normal(size=len(whole)) > 0).astype(int)
    return replace(whole, action=action, action_names=names, behavior_prob=None, target_prob=None, ratio=None)


def mostly(s: Any) -> Any:
    return np.column_stack([np.full(len(s), 0.6), np.full(len(s), 0.4)])


@pytest.mark.parametrize("kind", ["plain", "text"])
def test_an_estimated_behaviour_is_that_of_the_log_in_memory(kind: str) -> None:
    whole = unlogged(kind)
    expected = answers(whole, target=mostly)
    for n in (3, 13):
        assert not differences(expected, answers(split(whole, n, 0), target=mostly))
    assert "estimated from the logged actions (the" in expected["behavior_policy"]


def test_an_estimated_behaviour_of_a_large_log_comes_from_its_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparsetd.evaluation.reading.SAMPLE", 100)
    whole = unlogged("plain")
    written(whole, tmp_path, 5)
    one = evaluate(tmp_path / "shards", mostly, gamma=0.9, n_resamples=0, checkpoint=str(tmp_path / "kept"))
    other = evaluate(whole, mostly, gamma=0.9, n_resamples=0)
    assert "of the first 1" in str(one.behavior_policy)
    assert one.estimate.value == pytest.approx(other.estimate.value, abs=other.estimate.standard_error)
    assert one.estimate.value != other.estimate.value


def test_an_action_that_the_first_rows_do_not_have_is_named() -> None:
    whole = unlogged("plain")
    model = estimate_behavior(whole).model
    with pytest.raises(ValueError, match="an action that is not among the rows"):
        model.apply(replace(whole, action=whole.action + 1))  # type: ignore[operator]
    swapped = replace(unlogged("text"), action=1 - unlogged("text").action, action_names=("wait", "treat"))  # type: ignore[operator]
    known = estimate_behavior(unlogged("text")).model
    assert np.array_equal(known.apply(swapped).behavior_prob, known.apply(unlogged("text")).behavior_prob)


def test_a_part_of_the_shards_is_that_part_of_the_log(tmp_path: Path) -> None:
    whole = log("plain")
    written(whole, tmp_path, 5)
    for k in (1, 2, 3):
        some = part_of(shards(tmp_path / "shards"), k, 3)
        assert (
            differences(answers(some, checkpoint=tmp_path / "kept"), answers(read(tmp_path / "log.parquet").part(k, 3)))
            == []
        )
    tiny = part_of(split(whole, N, 0), 1, 30)
    assert len(tiny) == 2
    assert sum(len(shard.read()) for shard in tiny) == len(whole.part(1, 30))
