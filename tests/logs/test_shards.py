"""Shards: the same episodes as the log, the same bytes whatever its order and whatever was interrupted."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

import sparsetd  # noqa: E402
from sparsetd.cli import main  # noqa: E402
from sparsetd.logs import (  # noqa: E402
    Transitions,
    concatenate,
    files,
    inspect,
    read,
    read_batches,
    sharding,
    shards,
)
from sparsetd.logs.sharding import shard  # noqa: E402
from sparsetd.storage import container  # noqa: E402

N_EPISODES = 60


def log(kind: str) -> dict[str, Any]:
    """Columns of a log, in order."""
    rng = np.random.default_rng(0)
    length = rng.integers(1, 9, N_EPISODES)
    n, of = int(length.sum()), np.repeat(np.arange(N_EPISODES), length)
    first = np.cumsum(length) - length
    columns: dict[str, Any] = {
        "episode": of,
        "step": np.arange(n) - first[of],
        "obs_a": rng.normal(size=n),
        "obs_b": rng.integers(0, 5, n),
        "action": rng.integers(0, 3, n),
        "reward": rng.normal(size=n),
        "terminated": np.append(of[1:] != of[:-1], True) & (of % 3 > 0),
        "behavior_prob": rng.uniform(0.2, 1, n),
    }
    if kind == "text ids":
        columns["episode"] = np.array([f"stay {i}" for i in of], dtype=object)
    if kind == "next":
        columns |= {"next_obs_a": rng.normal(size=n), "next_obs_b": rng.integers(0, 5, n)}
    if kind == "lists":
        columns["obs"] = list(np.column_stack([columns.pop("obs_a"), columns.pop("obs_b")]))
    if kind == "continuous":
        columns["action"] = np.where(of < 20, columns["action"], rng.normal(size=n))
    if kind == "no ids":
        columns.pop("episode")
        columns.pop("step")
        columns["truncated"] = np.append(of[1:] != of[:-1], True) & ~columns["terminated"]
        columns["next_obs_a"], columns["next_obs_b"] = rng.normal(size=n), rng.integers(0, 5, n)
    return columns


KINDS = ["plain", "text ids", "next", "lists", "continuous", "no ids"]


def write(columns: dict[str, Any], path: Path, order: Any = None, n_parts: int = 3) -> list[str]:
    """The rows in several Parquet files, in the given order."""
    table = pa.table({name: list(v) if v is columns.get("obs") else v for name, v in columns.items()})
    table = table if order is None else table.take(order)
    path.mkdir()
    ends = [len(table) * k // n_parts for k in range(n_parts + 1)]
    names = [str(path / f"{k}.parquet") for k in range(n_parts)]
    for name, begin, end in zip(names, ends[:-1], ends[1:], strict=True):
        pq.write_table(table.slice(begin, end - begin), name)
    return names


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the manifest, which names the sources it was made from; that lists the others' checksums."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.name != "manifest.json"}


def by_id(whole: Transitions) -> dict[Any, Any]:
    return dict(zip(whole.ids().tolist(), whole.episodes(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_shards_hold_the_episodes_of_the_log(kind: str, tmp_path: Path) -> None:
    names = write(log(kind), tmp_path / "raw")
    shard(names, tmp_path / "out", n_shards=7, memory=4_000)
    whole = read(tmp_path / "raw")
    parts = [part.read() for part in shards(tmp_path / "out")]
    assert len(parts) == 7
    assert sorted(i for part in parts for i in part.ids()) == sorted(whole.ids())
    expected = by_id(whole)
    for name, episode in by_id(concatenate(parts)).items():
        for column, values in episode._columns().items():
            if column not in ("episode", "episode_id"):
                assert values.dtype == getattr(expected[name], column).dtype, column
                np.testing.assert_array_equal(values, getattr(expected[name], column), err_msg=column)
        assert episode.names == expected[name].names


def test_neither_order_nor_files_nor_memory_change_the_bytes(tmp_path: Path) -> None:
    columns = log("text ids")
    n = len(columns["reward"])
    shard(write(columns, tmp_path / "0"), tmp_path / "out0", n_shards=5)
    for seed, memory in ((1, 2_000), (2, 10**9)):
        order = np.random.default_rng(seed).permutation(n)
        shard(write(columns, tmp_path / str(seed), order, 2 + seed), tmp_path / f"out{seed}", n_shards=5, memory=memory)
        assert contents(tmp_path / f"out{seed}") == contents(tmp_path / "out0")


def test_without_steps_rows_keep_their_order(tmp_path: Path) -> None:
    columns = {name: values for name, values in log("plain").items() if name != "step"}
    shard(write(columns, tmp_path / "raw"), tmp_path / "out", n_shards=3, memory=2_000)
    expected = by_id(read(tmp_path / "raw"))
    for part in shards(tmp_path / "out"):
        for name, episode in by_id(part.read()).items():
            np.testing.assert_array_equal(episode.reward, expected[name].reward)


def test_an_interrupted_run_continues_with_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = write(log("plain"), tmp_path / "raw")

    def run(out: Path, writes: int | None = None) -> int:
        done, real = 0, sharding.replace_file

        def limited(path: Path, data: bytes, **how: bool) -> None:
            nonlocal done
            if done == writes:
                raise KeyboardInterrupt
            done += 1
            real(path, data, **how)

        with monkeypatch.context() as patched:
            for module in (sharding, files, container):  # spills, shards, and the notes of what is finished
                patched.setattr(module, "replace_file", limited)
            shard(names, out, n_shards=4, memory=5_000)
        return done

    n_writes = run(tmp_path / "whole")
    assert n_writes > 10
    for writes in range(n_writes):
        out = tmp_path / f"cut{writes}"
        with pytest.raises(KeyboardInterrupt):
            run(out, writes)
        for opened in (shards, read):
            with pytest.raises(ValueError, match=r"is a directory without data files|holds unfinished shards"):
                opened(out)
        assert run(out) <= n_writes - writes + 1  # a shard without its note is written again
        assert contents(out) == contents(tmp_path / "whole")
    assert run(tmp_path / "whole") == 0  # all is there


def test_two_runs_of_one_call_at_once_end_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run is through, and has cleared away the spills, while this one still needs them."""
    names = write(log("plain"), tmp_path / "raw")
    shard(names, tmp_path / "whole", n_shards=4)
    real = sharding._spilled

    def overtaken(*args: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(sharding, "_spilled", real)
            spills = real(*args)
            shard(names, tmp_path / "out", n_shards=4)
        return spills

    monkeypatch.setattr(sharding, "_spilled", overtaken)
    assert shard(names, tmp_path / "out", n_shards=4)["rows"] > 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_an_unfinished_or_other_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = write(log("plain"), tmp_path / "raw")
    with monkeypatch.context() as patched:
        patched.setattr(sharding, "_merged", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            shard(names, tmp_path / "out")
    with pytest.raises(ValueError, match="holds unfinished shards of other sources or settings"):
        shard(names[:1], tmp_path / "out")
    with pytest.raises(ValueError, match="is not empty"):
        shard(names, tmp_path / "raw")
    assert len(list((tmp_path / "raw").iterdir())) == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"reward": np.nan}, "`reward` must be finite, but row 4"),
        ({"step": 0}, r"`step` must differ within an episode.*Rows are counted as sorted, in shard"),
        ({"terminated": True}, r"continues the same episode.*Rows are counted as sorted, in shard"),
    ],
)
def test_a_bad_row_leaves_nothing_behind(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    columns = log("plain")
    for name, value in change.items():
        columns[name] = columns[name].astype(type(value)) if name != "terminated" else columns[name]
        columns[name][columns["episode"] == columns["episode"][4]] = value
    if "reward" in change:
        columns["reward"][:4] = 0.0
    with pytest.raises(ValueError, match=sentence):
        shard(write(columns, tmp_path / "raw"), tmp_path / "out", n_shards=2)
    assert not (tmp_path / "out").exists()


def test_an_error_names_the_file_of_the_row_and_not_an_empty_one_before_it(tmp_path: Path) -> None:
    table = pa.table({"obs_x": [1.0, np.nan], "reward": [0.0, 1.0], "terminated": [True, True]})
    pq.write_table(table.slice(0, 0), tmp_path / "z.parquet")
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"row 1 of a\.parquet holds nan"):
        shard([tmp_path / "z.parquet", tmp_path / "a.parquet"], tmp_path / "out")


def test_ids_of_two_kinds_are_text(tmp_path: Path) -> None:
    for i, kind in enumerate(("plain", "text ids")):
        pq.write_table(pa.table(log(kind)), tmp_path / f"{i}.parquet")
    shard([tmp_path / "0.parquet", tmp_path / "1.parquet"], tmp_path / "out", memory=1000)
    ids = [i for part in shards(tmp_path / "out") for i in part.read().ids()]
    both = [str(i) for k in range(2) for i in read(tmp_path / f"{k}.parquet").ids()]
    assert sorted(ids) == sorted(both)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shard(write(log("plain"), tmp_path / "raw"), tmp_path / "out", n_shards=3)
    return tmp_path / "out"


def test_a_shard_that_is_not_what_the_manifest_says_is_named(folder: Path, tmp_path: Path) -> None:
    def refused(damage: Any, sentence: str, by: tuple[Any, ...] = (shards, read)) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        damage(copy, copy / "shard-00001.parquet")
        for opened in by:
            with pytest.raises(ValueError, match=sentence):
                opened(copy)
        shutil.rmtree(copy)

    def flip(_: Path, path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[random.Random(0).randrange(len(data))] ^= 1
        path.write_bytes(data)

    refused(lambda _, path: path.unlink(), r"The shard shard-00001.parquet is in the manifest but not in .*copy")
    refused(lambda _, path: path.write_bytes(path.read_bytes()[:-9]), "The shard shard-00001.parquet was cut short")
    refused(flip, "The shard shard-00001.parquet has changed since its manifest", by=(shards,))
    refused(
        lambda f, path: shutil.copy(path, f / "more.parquet"), r"does not describe its folder \(more.parquet is not"
    )
    for text in ("{", "[]", '{"columns": 1, "shards": 2}', '{"columns": {}, "shards": [{}]}'):
        refused(lambda f, _, text=text: (f / "manifest.json").write_text(text), "is not a manifest of shards")
    refused(lambda f, _: _emptied(f / "manifest.json"), "does not describe its folder")


def _emptied(manifest: Path) -> None:
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "shards": []}))


def test_files_without_a_manifest_are_shards_if_they_share_no_episode(folder: Path, tmp_path: Path) -> None:
    expected = [part.read().ids().tolist() for part in shards(folder)]
    assert [part.read().ids().tolist() for part in shards(str(folder / "*.parquet"))] == expected
    (folder / "manifest.json").unlink()
    assert [part.read().ids().tolist() for part in shards(folder)] == expected
    with pytest.raises(ValueError, match=r"1.parquet holds an episode that 0.parquet holds too: run `sparsetd shard`"):
        shards(tmp_path / "raw")
    (folder / "shard-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"shard-00001.parquet is not a readable Parquet file"):
        shards(folder)
    pq.write_table(pa.table({"obs_a": [1.0], "reward": [1.0], "episode": [1]}), folder / "shard-00001.parquet")
    with pytest.raises(ValueError, match=r"The shard shard-00001.parquet has other columns or types"):
        shards(folder)


def test_what_is_no_folder_of_shards_is_one(tmp_path: Path) -> None:
    names = write(log("no ids"), tmp_path / "raw")
    for source in (read(names[0]), log("plain")):
        (only,) = shards(source)
        assert only.read() is only.read()
    for path in (names[0], tmp_path / "raw", str(tmp_path / "raw" / "*")):
        (only,) = shards(path)
        assert only.log is None, "a path is read when it is needed"
        assert len(only.read()) == len(read(path))
    assert len(shards(tmp_path / "raw")[0].read()) == len(log("no ids")["reward"])


def test_other_readers_take_the_columns_from_the_manifest(tmp_path: Path) -> None:
    columns = log("plain")
    columns["score"] = columns.pop("reward")
    shard(write(columns, tmp_path / "raw"), tmp_path / "out", n_shards=3, reward="score")
    whole = read(tmp_path / "out")
    assert whole.reward.sum() == pytest.approx(read(tmp_path / "raw", reward="score").reward.sum())
    assert inspect(tmp_path / "out").n_rows == len(whole) == sum(map(len, read_batches(tmp_path / "out")))


def test_rows_in_memory_are_never_taken_for_those_before(tmp_path: Path) -> None:
    columns = log("plain")
    shard([columns], tmp_path / "out", n_shards=2)
    for again in (columns, {**columns, "reward": columns["reward"] + 1}):
        with pytest.raises(ValueError, match="is not empty: name a new folder"):
            shard([again], tmp_path / "out", n_shards=2)
    assert read(tmp_path / "out").reward.sum() == pytest.approx(read(columns).reward.sum())


@pytest.mark.parametrize("bad", [False, True])
def test_a_folder_of_the_users_is_not_ours_to_delete(bad: bool, tmp_path: Path) -> None:
    columns = log("plain")
    if bad:
        columns["reward"][3] = np.nan
    out = tmp_path / "out"
    (out / "unfinished").mkdir(parents=True)
    (out / "unfinished" / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="is not empty"):
        shard(write(columns, tmp_path / "raw"), out)
    assert (out / "unfinished" / "thesis.tex").read_text() == "years of work"


def test_a_bad_log_into_a_linked_folder_says_what_is_wrong_with_the_log(tmp_path: Path) -> None:
    columns = log("plain")
    columns["reward"][3] = np.nan
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    with pytest.raises(ValueError, match="`reward` must be finite, but row 3"):
        shard(write(columns, tmp_path / "raw"), tmp_path / "out")
    assert list((tmp_path / "disk").iterdir()) == []
    columns["reward"][3] = 0.0
    shard(write(columns, tmp_path / "better"), tmp_path / "out")
    assert len(read(tmp_path / "out")) > 0


def test_sizes_are_checked_before_anything_is_allocated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name, *_) = write(log("plain"), tmp_path / "raw")
    for option in ("--shards", "--buckets", "--n-features"):
        assert main(["shard", name, "--out", str(tmp_path / "out"), option, str(2**64)]) == 2
        assert "must be at most" in capsys.readouterr().err
    with pytest.raises(ValueError, match="`n_shards` must be between 1 and 100,000"):
        shard([name], tmp_path / "out", n_shards=2**64)
    assert not (tmp_path / "out").exists()


def test_a_manifest_that_names_a_shard_twice_is_refused(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "shards": [*manifest["shards"], manifest["shards"][0]]})
    )
    with pytest.raises(ValueError, match="is not a manifest of shards"):
        shards(folder)


def test_a_file_name_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name, *_) = write(log("plain"), tmp_path / "raw", n_parts=1)
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/l\xffog.parquet")
    shutil.copy(name, odd)
    assert len(read(odd)) == len(read(name))
    assert main(["inspect", odd]) == 0
    assert main(["shard", odd, "--out", str(tmp_path / "out")]) == 0
    for ending, words in ((".parquet", "is not a readable Parquet file"), (".csv", "is empty"), (".pkl", "no reader")):
        bad = os.fsdecode(os.fsencode(tmp_path) + b"/b\xffad" + ending.encode())
        Path(bad).write_bytes(b"")
        capsys.readouterr()
        assert main(["inspect", bad]) == 2
        assert words in capsys.readouterr().err


def test_texts_kept_for_groups_go_into_shards(tmp_path):
    """A text that `prepare` keeps beside what is observed of it, gaps included, is in the shards as in the file."""
    n = 60
    ward = [("icu", "north", None)[i % 3] for i in range(n)]
    raw = {"lactate": np.arange(n) % 7, "Ward": ward, "treatment": ["A", "B"] * (n // 2), "reward": np.arange(n) % 5}
    sparsetd.logs.prepare(raw, bandit=True).save(tmp_path / "log.parquet")
    shard([tmp_path / "log.parquet"], tmp_path / "shards", n_shards=3)
    written = [pq.read_table(file).column("Ward").to_pylist() for file in (tmp_path / "shards").glob("*.parquet")]
    kept = pq.read_table(tmp_path / "log.parquet").column("Ward").to_pylist()
    assert Counter(chain.from_iterable(written)) == Counter(kept)
    assert any("(--by): 'Ward'" in told for told in sparsetd.logs.inspect(tmp_path / "shards").understood)


def test_groups_of_a_kept_text_are_those_of_the_file(tmp_path):
    """`compare` within a kept text answers on shards as on the file."""
    n = 240
    ward = ["icu" if i % 3 else "north" for i in range(n)]
    raw = {"lactate": np.arange(n) % 7, "Ward": ward, "treatment": ["A", "B"] * (n // 2), "reward": np.arange(n) % 5}
    sparsetd.logs.prepare(raw, bandit=True).save(tmp_path / "log.parquet")
    shard([tmp_path / "log.parquet"], tmp_path / "shards", n_shards=2)
    targets = {"now": "behavior", "new": "B if lactate > 2"}
    log = sparsetd.read(tmp_path / "log.parquet", group="Ward")
    whole = sparsetd.compare(log, targets, by={"Ward": log.group}).groups
    parts = sparsetd.compare(tmp_path / "shards", targets, by="Ward").groups
    assert {key: value.value for key, value in parts.items()} == pytest.approx(
        {key: value.value for key, value in whole.items()}, abs=1e-9
    )
