"""One function over many shards: the same bytes from every engine, after every kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shard_sums import Sums, deadly_sums, noted_sums, sums

from sparsetd.logs import Shard, Transitions, shards
from sparsetd.logs.engines import Processes, reduced, tree
from sparsetd.logs.sharding import shard

pytest.importorskip("pyarrow")


def log(n_episodes: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    length = rng.integers(1, 9, n_episodes)
    n = int(length.sum())
    rows = {f"obs_{j}": rng.normal(size=n) * 10.0**j for j in range(4)}
    last = np.isin(np.arange(n), np.cumsum(length) - 1)
    return {**rows, "episode": np.repeat(np.arange(n_episodes), length), "reward": np.zeros(n), "terminated": last}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("log") / "shards"
    shard([log()], out, n_shards=13)
    return out


@pytest.fixture(scope="module")
def parts(folder: Path) -> tuple[Shard, ...]:
    return shards(folder)


@pytest.fixture(scope="module")
def expected(parts: tuple[Shard, ...]) -> bytes:
    return bytes(reduced(sums, parts, (0.3,)))


@pytest.mark.parametrize("n", range(1, 20))
def test_the_tree_depends_on_the_number_of_values_alone(n: int) -> None:
    def split(values: list[str]) -> str:
        """The largest power of two below n to the left, the rest to the right."""
        if len(values) == 1:
            return values[0]
        half = 1 << (len(values) - 1).bit_length() - 1
        return f"({split(values[:half])}+{split(values[half:])})"

    values = [str(i) for i in range(n)]
    assert tree(iter(values), lambda a, b: f"({a}+{b})") == split(values)


def test_the_sum_is_that_of_the_shards(parts: tuple[Shard, ...]) -> None:
    total = reduced(sums, parts, (0.3,))
    rows = np.concatenate([part.read().observation for part in parts])
    np.testing.assert_allclose(total.gram, 0.09 * rows.T @ rows, rtol=1e-12)
    assert total.n_rows == len(rows)
    assert sorted(total.ids) == list(range(60))
    whole = Transitions.from_arrays(rows, np.zeros(len(rows)), terminated=np.ones(len(rows)))
    assert reduced(sums, shards(whole), engine=Processes(2)).n_rows == len(rows)  # a single shard is handled here


def test_processes_give_the_same_bytes(parts: tuple[Shard, ...], expected: bytes) -> None:
    assert bytes(reduced(sums, parts, (0.3,), engine=Processes(2))) == expected


def test_results_are_kept_shard_by_shard(parts: tuple[Shard, ...], tmp_path: Path) -> None:
    calls, kept = tmp_path / "calls", tmp_path / "kept"
    calls.mkdir()

    def run(**changed: Any) -> Sums:
        return reduced(noted_sums, changed.get("parts", parts), (str(calls),), folder=kept)

    whole = bytes(run())
    assert len(list(calls.iterdir())) == len(list(kept.iterdir())) == 13
    for lost in list(kept.iterdir())[:4]:
        lost.unlink()
    assert bytes(run()) == whole
    assert len(list(calls.iterdir())) == 17
    other = [Shard(None, part.path, f"not {part.digest}", part.columns) for part in parts]
    assert bytes(run(parts=other)) == whole  # of other contents nothing is taken over
    assert len(list(calls.iterdir())) == 30


def test_a_result_that_was_damaged_is_computed_again(parts: tuple[Shard, ...], tmp_path: Path) -> None:
    whole = bytes(reduced(sums, parts, folder=tmp_path))
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="the checksum does not match"):
        assert bytes(reduced(sums, parts, folder=tmp_path)) == whole


def test_after_a_killed_worker_the_next_run_continues(parts: tuple[Shard, ...], tmp_path: Path) -> None:
    victim = parts[7].read().ids()[0].item()
    arguments = (str(tmp_path), victim)
    with pytest.raises(RuntimeError, match="A worker process was killed"):
        reduced(deadly_sums, parts, arguments, engine=Processes(2), folder=tmp_path / "kept")
    assert 0 < len(list((tmp_path / "kept").iterdir())) < 13
    again = reduced(deadly_sums, parts, arguments, engine=Processes(2), folder=tmp_path / "kept")
    assert bytes(again) == bytes(reduced(sums, parts))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_dask_gives_the_same_bytes(client: Any, parts: tuple[Shard, ...], expected: bytes) -> None:
    from sparsetd.logs.dask import Dask

    assert bytes(reduced(sums, parts, (0.3,), engine=Dask(client))) == expected
    address = client.scheduler.address
    assert bytes(reduced(sums, parts, (0.3,), engine=Dask(address))) == expected


def test_dask_survives_a_killed_worker(client: Any, parts: tuple[Shard, ...], tmp_path: Path) -> None:
    from sparsetd.logs.dask import Dask

    victim = parts[7].read().ids()[0].item()
    total = reduced(deadly_sums, parts, (str(tmp_path), victim), engine=Dask(client))
    assert (tmp_path / "died").exists()
    assert bytes(total) == bytes(reduced(sums, parts))


def test_no_scheduler_is_one_sentence() -> None:
    pytest.importorskip("distributed")
    from sparsetd.logs.dask import Dask

    with pytest.raises(ValueError, match=r"No Dask scheduler answers at nowhere://1 \(ValueError\): check the address"):
        Dask("nowhere://1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the command forks its victims")
def test_runs_that_are_killed_end_with_the_same_bytes() -> None:
    """A small share of what `python -m kills` does."""
    command = [sys.executable, "-m", "kills", "--kills", "12", "--victims", "shard", "serial", "sweep"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("4 kills") == 3


STEP = 1.0


def helped(rows: Any) -> Any:
    return STEP * rows


class Scaled:
    """A policy, or a feature map, that calls other code of its user's."""

    def __call__(self, log: Transitions) -> Transitions:
        return replace(log, observation=helped(log.observation))


def test_kept_results_are_of_what_a_policy_computes_not_of_its_code(
    parts: tuple[Shard, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the function nor its class changes when a global of its module does."""
    one = reduced(sums, parts, opened=Scaled(), folder=tmp_path)
    monkeypatch.setitem(globals(), "STEP", 2.0)
    other = reduced(sums, parts, opened=Scaled(), folder=tmp_path)
    np.testing.assert_array_equal(other.gram, 4 * one.gram)
    assert len(list(tmp_path.iterdir())) == 2 * len(parts)
    assert bytes(reduced(sums, parts, opened=Scaled(), folder=tmp_path)) == bytes(other)
    assert len(list(tmp_path.iterdir())) == 2 * len(parts)


def test_a_function_without_a_name_cannot_be_kept(parts: tuple[Shard, ...], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="is not a function of a module, so its results cannot be kept"):
        reduced(lambda log: len(log), parts, folder=tmp_path)
