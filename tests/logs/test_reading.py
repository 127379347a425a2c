"""Every form of the same log gives the same transitions; batches join to the whole; what is missing is inferred."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sparsetd.logs import Transitions, concatenate, infer_schema, inspect, read, read_batches
from sparsetd.logs.files import read_npz

N = 60
ENDS = [7, 8, 21, 40, 59]


def table(*, successors: bool = True, seed: int = 0) -> dict[str, np.ndarray]:
    """Five episodes that end in the rows ENDS: terminated, truncated, terminated, truncated, terminated."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2)).round(6)
    terminated, truncated = np.zeros(N, bool), np.zeros(N, bool)
    terminated[ENDS[::2]], truncated[ENDS[1::2]] = True, True
    start = np.concatenate([[0], np.array(ENDS[:-1]) + 1])
    episode = np.zeros(N, np.int64)
    episode[start[1:]] = 1
    number = np.cumsum(episode)
    successor = np.roll(x, -1, axis=0)
    successor[ENDS] = rng.normal(size=(5, 2)).round(6)
    columns = {
        "obs_position": x[:, 0],
        "obs_velocity": x[:, 1],
        "action": rng.integers(3, size=N),
        "reward": rng.normal(size=N).round(6),
        "terminated": terminated,
        "truncated": truncated,
        "episode": number,
        "step": np.arange(N) - start[number],
        "behavior_prob": rng.uniform(0.1, 1, N).round(6),
        "target_prob": rng.uniform(0, 1, N).round(6),
        "comment": np.array(["ä"] * N, dtype=object),
    }
    if successors:
        columns |= {"next_obs_position": successor[:, 0], "next_obs_velocity": successor[:, 1]}
    return columns


def write(columns: dict[str, np.ndarray], path: Path) -> Path:
    frame = pd.DataFrame(columns)
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.Table.from_pandas(frame), path, row_group_size=13)
        case ".feather" | ".arrow":
            pa.feather.write_feather(frame, str(path), chunksize=11)
        case ".csv":
            frame.to_csv(path, index=False)
        case ".tsv":
            frame.to_csv(path, index=False, sep="\t")
        case ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        case ".npz":
            np.savez(path, **{k: v for k, v in columns.items() if k != "comment"})
    return path


def assert_same(a: Transitions, b: Transitions) -> None:
    for name in vars(a):
        left, right = getattr(a, name), getattr(b, name)
        if left is None or isinstance(left, tuple):
            assert left == right, name
        elif name == "episode_id":  # text where the source has no types
            assert list(map(str, left)) == list(map(str, right))
        else:
            np.testing.assert_array_equal(left, right, err_msg=name)


def expected() -> Transitions:
    c = table()
    return Transitions.from_arrays(
        np.column_stack([c["obs_position"], c["obs_velocity"]]),
        c["reward"],
        np.column_stack([c["next_obs_position"], c["next_obs_velocity"]]),
        **{k: c[k] for k in ("action", "terminated", "truncated", "episode", "behavior_prob", "target_prob")},
        names=["position", "velocity"],
    )


FORMATS = [".parquet", ".feather", ".arrow", ".csv", ".tsv", ".jsonl", ".npz"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_files(suffix: str, tmp_path: Path) -> None:
    assert_same(read(write(table(), tmp_path / f"log{suffix}")), expected())


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_frames(make: Any) -> None:
    assert_same(read(make(table())), expected())


def test_arrow_stream(tmp_path: Path) -> None:
    path = tmp_path / "log.arrow"
    rows = pa.table(table())
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=17)
    assert_same(read(path), expected())


def test_a_directory_of_parts(tmp_path: Path) -> None:
    frame = pd.DataFrame(table())
    for i in range(3):
        frame.iloc[20 * i : 20 * (i + 1)].to_parquet(tmp_path / f"part-{i}.parquet")
    assert_same(read(tmp_path), expected())


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".feather"])
@pytest.mark.parametrize("successors", [True, False])
@pytest.mark.parametrize("batch_rows", [3, 7, 8, 1000])
def test_batches_join_to_the_whole(suffix: str, successors: bool, batch_rows: int, tmp_path: Path) -> None:
    path = write(table(successors=successors), tmp_path / f"log{suffix}")
    parts = list(read_batches(path, batch_rows=batch_rows))
    assert_same(concatenate(parts), read(path))
    assert all(len(part) <= batch_rows + 2 for part in parts)


@pytest.mark.parametrize("batch_rows", [3, 5, 10])
def test_batches_without_an_episode_column(batch_rows: int, tmp_path: Path) -> None:
    columns = table(successors=False)
    del columns["episode"], columns["step"]
    path = write(columns, tmp_path / "log.csv")
    assert_same(concatenate(list(read_batches(path, batch_rows=batch_rows))), read(path))


def test_steps_alone_order_one_episode_and_must_differ() -> None:
    columns = {"obs_x": [0.0, 2.0, 1.0, 3.0], "reward": [0.0] * 4, "terminated": [0, 0, 0, 1], "step": [0, 2, 1, 3]}
    assert read(columns).observation[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert "The rows were sorted" in str(inspect(columns))
    assert "The rows were sorted" not in str(inspect(table()))
    with pytest.raises(ValueError, match="row 2 repeats step 2: remove"):
        read(columns | {"step": [0, 2, 2, 3]})


def test_successors_from_the_next_row() -> None:
    t, full = read(table(successors=False)), expected()
    keep = np.setdiff1d(np.arange(N), ENDS[1::2])  # the last row of a truncated episode has no successor
    assert len(t) == len(keep)
    np.testing.assert_array_equal(t.observation, full.observation[keep])
    alive = ~t.terminated
    np.testing.assert_array_equal(t.next_observation[alive], np.roll(full.observation, -1, axis=0)[keep][alive])
    assert t.truncated.nonzero()[0].tolist() == [np.flatnonzero(keep == ENDS[3] - 1)[0]]
    assert t.n_episodes == 4  # the truncated episode of one row is gone


def test_rows_in_any_order_are_sorted() -> None:
    columns = table()
    order = np.concatenate([[0], 1 + np.random.default_rng(5).permutation(N - 1)])
    shuffled = read({k: v[order] for k, v in columns.items()})
    episodes = {float(e.observation[0, 0]): e for e in shuffled.episodes()}
    for episode in expected().episodes():
        found = episodes[float(episode.observation[0, 0])]
        np.testing.assert_array_equal(found.observation, episode.observation)
        np.testing.assert_array_equal(found.reward, episode.reward)


def test_list_columns() -> None:
    c = table()
    s = np.column_stack([c["obs_position"], c["obs_velocity"]]).tolist()
    successor = np.column_stack([c["next_obs_position"], c["next_obs_velocity"]]).tolist()
    rest = {k: v for k, v in c.items() if "obs_" not in k}
    full = expected()
    for make in (pa.table, pl.DataFrame, pd.DataFrame, dict):
        t = read(make({**rest, "observation": s, "next_observation": successor}))
        np.testing.assert_array_equal(t.observation, full.observation)
        np.testing.assert_array_equal(t.next_observation, full.next_observation)
        assert t.names is None


def test_list_columns_in_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('obs,reward,terminated\n"[1, 2.5]",1,false\n"[3, 4]",2,true\n')
    lines = [{"obs": [1, 2.5], "reward": 1, "terminated": False}, {"obs": [3, 4], "reward": 2, "terminated": True}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for name in ("a.csv", "a.jsonl"):
        t = read(tmp_path / name)
        np.testing.assert_array_equal(t.observation, [[1, 2.5], [3, 4]])
        np.testing.assert_array_equal(t.next_observation[0], [3, 4])


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow", "pandas", "polars", "dict"])
def test_the_successor_of_a_terminal_row_may_be_missing_in_a_list_column(form: str, tmp_path: Path) -> None:
    log = {"obs": [[1, 2], [3, 4], [5, 6]], "next_obs": [[3, 4], None, [7, 8]], "reward": [0.0] * 3, "done": [0, 1, 1]}
    path = tmp_path / f"log.{form}"
    if form == "jsonl":
        rows = [dict(zip(log, row, strict=True)) for row in zip(*log.values(), strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)))
    elif form == "csv":
        pd.DataFrame(log).to_csv(path, index=False)
    elif form == "parquet":
        pq.write_table(pa.table(log), path)
    makers = {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame, "dict": dict}
    t = read(makers[form](log) if form in makers else path)
    assert t.next_observation[[0, 2]].tolist() == [[3, 4], [7, 8]]
    log["done"] = [0, 0, 1]
    if form in makers:
        with pytest.raises(ValueError, match="`next_obs` must be finite, but row 1 holds"):
            read(makers[form](log))


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_semicolons_and_tabs_may_separate_columns(delimiter: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(table())
    frame.to_csv(tmp_path / "log.csv", sep=delimiter, index=False)
    assert_same(read(tmp_path / "log.csv"), read(frame))


def test_nested_and_fixed_size_lists() -> None:
    images = np.arange(24.0).reshape(3, 2, 4)
    nested = pa.array(images.tolist())
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(images.ravel()), 8)
    for column in (nested, fixed):
        t = read(pa.table({"obs": column, "reward": [0.0, 0, 0], "done": [False, False, True]}))
        np.testing.assert_array_equal(t.observation, images.reshape(3, 8))


def test_named_columns_and_their_successors() -> None:
    frame = pd.DataFrame({"age": [1, 2], "next_age": [2, 3], "HR": [5.0, 6], "next_HR": [6.0, 7], "score": [0, 1]})
    t = read(frame, reward="score")
    assert t.names == ("age", "HR")
    np.testing.assert_array_equal(t.next_observation, [[2, 6], [3, 7]])
    chosen = read(frame, reward="score", observation="HR")
    assert chosen.names == ("HR",)
    np.testing.assert_array_equal(chosen.next_observation, [[6], [7]])


def test_the_usual_other_names() -> None:
    schema = infer_schema(["state", "a", "r", "done", "timeout", "trajectory_id", "t", "pscore", "next_state"])
    assert schema.observation == ("state",)
    assert schema.next_observation == ("next_state",)
    assert (schema.action, schema.reward, schema.terminated) == (("a",), "r", "done")
    assert (schema.truncated, schema.episode, schema.step) == ("timeout", "trajectory_id", "t")
    assert schema.behavior_prob == "pscore"


def test_one_letter_names_with_successors_are_observations() -> None:
    schema = infer_schema(["a", "next_a", "t", "next_t", "action", "next_action", "reward"])
    assert schema.observation == ("a", "t")
    assert schema.action == ("action",)
    assert schema.step is None


def test_several_action_columns() -> None:
    t = read({"obs": [0.0, 1], "reward": [0, 0], "action_0": [0.1, 0.2], "action_1": [1.0, 2], "done": [0, 1]})
    np.testing.assert_array_equal(t.action, [[0.1, 1], [0.2, 2]])


def test_a_role_can_be_switched_off() -> None:
    t = read(table(), target_prob=None, action=None)
    assert t.target_prob is None
    assert t.action is None


def test_missing_values_of_terminal_successors(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("obs_x,next_obs_x,reward,terminated\n1,2,0,False\n2,,1,True\n")
    t = read(tmp_path / "a.csv")
    assert t.terminated.tolist() == [False, True]
    assert t.observation.dtype == t.next_observation.dtype == np.int64


def test_text_episodes_and_nullable_frames() -> None:
    frame = pd.DataFrame({"obs_x": [1.0, 2, 3], "reward": [0, 1, 2], "episode": ["p1", "p1", "p2"], "done": [0, 1, 1]})
    for converted in (frame, frame.convert_dtypes(), pl.from_pandas(frame)):
        t = read(converted)
        assert t.episode.tolist() == [0, 0, 1]


def test_byte_order_mark_blank_lines_and_crlf(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfobs_x,reward,terminated\r\n1,0,0\r\n2,1,1\r\n\r\n")
    assert len(read(tmp_path / "a.csv")) == 2


def test_the_index_that_pandas_writes_without_a_name_is_ignored(tmp_path: Path) -> None:
    pd.DataFrame(table()).to_csv(tmp_path / "a.csv")
    assert_same(read(tmp_path / "a.csv"), expected())
    assert "'Unnamed: 0'" in str(inspect(tmp_path / "a.csv"))


def test_ignored_columns_do_not_matter() -> None:
    c = table()
    assert "comment" in infer_schema(c).ignored
    c["comment"] = np.array([None] * N, dtype=object)
    assert_same(read(c), expected())


def test_memory_is_bounded(tmp_path: Path) -> None:
    path = write(table(), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="read_batches"):
        read(path, max_bytes=1000)


def test_a_parquet_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    n = 4_000_000
    zeros = pa.table({"obs_x": np.zeros(n), "reward": np.zeros(n)})
    pq.write_table(zeros, tmp_path / "bomb.parquet", compression="zstd")
    assert (tmp_path / "bomb.parquet").stat().st_size < 100_000
    with pytest.raises(ValueError, match="more than"):
        read(tmp_path / "bomb.parquet", max_bytes=10 * 2**20)


def test_an_npz_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, obs=np.zeros(2_000_000), reward=np.zeros(2_000_000))
    with pytest.raises(ValueError, match="would unpack to"):
        read_npz(path, max_bytes=2**20)


def test_an_npz_whose_header_lies(tmp_path: Path) -> None:
    path = tmp_path / "lie.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("obs.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)
    with pytest.raises(ValueError, match="claims more data than it holds"):
        read(path)


def test_no_pickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", obs=np.array([{"a": 1}], dtype=object), reward=[0.0])
    with pytest.raises(ValueError, match="it holds Python objects"):
        read(tmp_path / "p.npz")


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_truncation_of_a_file_reads_or_is_one_sentence(suffix: str, tmp_path: Path) -> None:
    whole = write({k: v[:6] for k, v in table().items()}, tmp_path / f"log{suffix}").read_bytes()
    path = tmp_path / f"cut{suffix}"
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:size])
        error = inspect(path).error  # anything but ValueError, TypeError and OSError would come through
        assert error is None or "\n" not in error


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r"minari\[hdf5\]"):
        read("minari:some/data-v0")


class Episode:
    """The fields of `minari.EpisodeData`."""

    def __init__(self, i: int, n: int, observations: Any, ended: bool, infos: dict[str, Any] | None) -> None:
        self.id, self.observations, self.infos = i, observations, infos
        self.actions, self.rewards = np.arange(n) % 2, np.arange(n) * 1.0
        self.terminations, self.truncations = np.zeros(n, bool), np.zeros(n, bool)
        (self.terminations if ended else self.truncations)[-1] = True


class Dataset:
    def __init__(self, episodes: list[Episode]) -> None:
        self.episodes = episodes

    def iterate_episodes(self) -> Any:
        return iter(self.episodes)


def test_minari_episodes_have_one_observation_more() -> None:
    x = np.random.default_rng(0).normal(size=(9, 3))
    infos = {"behavior_prob": np.full(4, 0.5)}
    dataset = Dataset([Episode(0, 4, x[:5], True, infos), Episode(1, 3, x[5:], False, {"behavior_prob": np.ones(4)})])
    t = read(dataset)
    assert t.n_episodes == 2
    np.testing.assert_array_equal(t.next_observation, np.vstack([x[1:5], x[6:9]]))
    assert t.terminated.nonzero()[0].tolist() == [3]
    assert t.truncated.nonzero()[0].tolist() == [6]
    np.testing.assert_array_equal(t.behavior_prob, [0.5] * 4 + [1.0] * 3)
    assert_same(concatenate(list(read_batches(dataset, batch_rows=3))), t)


def test_minari_dictionaries_are_laid_side_by_side() -> None:
    observations = {"a": np.arange(5), "b": {"c": np.ones((5, 2))}, "d": (np.zeros(5), np.ones((5, 1)))}
    t = read(Dataset([Episode(0, 4, observations, True, None)]))
    np.testing.assert_array_equal(t.observation[2], [2, 1, 1, 0, 1])


@pytest.mark.filterwarnings("ignore")  # Minari warns of metadata that was left out
def test_minari_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    gym = pytest.importorskip("gymnasium")
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    x = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    buffers = [
        EpisodeBuffer(
            id=i,
            observations=list(rows),
            actions=[0, 1, 1][: len(rows) - 1],
            rewards=[1.0, 2.0, 3.0][: len(rows) - 1],
            terminations=[False, False, i == 0][-(len(rows) - 1) :],
            truncations=[False, False, i == 1][-(len(rows) - 1) :],
        )
        for i, rows in enumerate([x[:4], x[4:8]])
    ]
    minari.create_dataset_from_buffers(
        "logged/test-v0",
        buffers,
        observation_space=gym.spaces.Box(-np.inf, np.inf, (2,), np.float32),
        action_space=gym.spaces.Discrete(2),
        author="a",
        author_email="a@example.org",
        code_permalink="https://example.org",
        algorithm_name="none",
        description="rows without an environment",
    )
    t = read("minari:logged/test-v0")
    np.testing.assert_array_equal(t.observation, np.vstack([x[:3], x[4:7]]))
    np.testing.assert_array_equal(t.next_observation, np.vstack([x[1:4], x[5:8]]))
    assert t.terminated.nonzero()[0].tolist() == [2]
    assert t.truncated.nonzero()[0].tolist() == [5]
    with pytest.raises(ValueError, match="no local Minari dataset"):
        read("minari:absent/data-v0")


def test_what_a_spreadsheet_calls_missing_is_missing_in_a_log_of_text_too(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("obs_x,next_obs_x,reward,terminated\n1,#N/A,0,1\n2,NIL,1,1\n")
    assert read(path).next_observation.tolist() == [[1.0], [2.0]]
