"""What the fuzzer found, one test each: files that were read wrongly, or refused with more than one sentence."""

from __future__ import annotations

import json
import random
import zipfile
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fuzz.oracle import check_same, check_sentence, value_or_sentence
from sparsetd.logs import concatenate, infer_schema, inspect, read, read_batches, text

OBS = {"obs_x": [1.0, 2.0, 3.0], "next_obs_x": [2.0, 3.0, 4.0], "reward": [0.0, 1.0, 2.0]}


def refused(action: Any, words: str) -> None:
    """The error is one sentence with these words."""
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        action()
    check_sentence(caught.value, (ValueError, TypeError))


@pytest.mark.parametrize("text", ["obs_x,reward\n\n", "obs_x,reward\n\n\n\n\n\n"])
def test_a_csv_file_of_blank_lines_has_no_rows(text: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    refused(lambda: read(tmp_path / "log.csv"), "has a header but no rows")


def test_a_batch_of_blank_lines_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("obs_x,reward,done\n1,0,0\n2,0,0\n3,0,1\n" + "\n" * 7 + "4,0,1\n")
    assert sum(map(len, read_batches(tmp_path / "log.csv", batch_rows=3))) == 4


@pytest.mark.parametrize("name", ["a\nb", "a\u2028b", "\ud800", "x" * 1001])
def test_names_that_would_break_a_sentence(name: str, tmp_path: Path) -> None:
    refused(lambda: read({**OBS, name: [1, 2, 3]}), "not one short line of text")
    rows = [{"obs_x": 1, "reward": 0}, {name: 1}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused(lambda: read(tmp_path / "log.jsonl"), "first appears in row 1")


def test_steps_that_begin_again_without_episodes_are_in_order() -> None:
    log = {"step": [0, 1, 0, 1], "obs_x": [1, 2, 3, 4], "reward": [0, 0, 0, 0], "terminated": [0, 1, 0, 1]}
    t = read(log)
    assert t.observation[:, 0].tolist() == [1, 2, 3, 4]
    assert t.episode.tolist() == [0, 0, 1, 1]
    refused(lambda: read({**log, "terminated": [0, 0, 0, 1]}), "row 2 repeats step 0.*add a column `episode`")
    shuffled = read({"step": [1, 0, 2], "obs_x": [2, 1, 3], "reward": [0, 0, 0], "terminated": [0, 0, 1]})
    assert shuffled.observation[:, 0].tolist() == [1, 2, 3]


def test_steps_near_the_largest_number_are_compared_not_subtracted() -> None:
    log = {**OBS, "step": [2**63 - 1, -(2**63), 0], "episode": [0, 0, 0]}
    refused(lambda: list(read_batches(log)), "`step` must increase, but row 1")


@pytest.mark.parametrize("identifier", [{"a": 1}, [1], (1, [2]), {1}])
def test_identifiers_that_are_collections(identifier: Any) -> None:
    ids = np.empty(3, dtype=object)
    ids[:] = [identifier] * 3
    refused(lambda: read({**OBS, "episode": ids}), "`episode` must be numbers or text, but row 0")


def test_a_missing_identifier_of_pandas() -> None:
    ids = np.array(["a", pd.NA, "a"], dtype=object)
    refused(lambda: read({**OBS, "episode": ids}), "`episode` must be present, but row 1")


def test_a_long_identifier_is_cut_in_the_sentence() -> None:
    log = {**OBS, "episode": ["x\ny" * 99] * 3, "step": [0, 0, 1]}
    refused(lambda: read(log), "repeats step 0")


def test_what_is_ignored_is_not_converted() -> None:
    strange = pa.array([10**15] * 3, pa.time64("us"))  # no time of day
    assert len(read(pa.table({**OBS, "comment": strange, "lists": [[1], [], None]}))) == 3
    refused(lambda: read(pa.table({**OBS, "episode": strange})), "`episode` has the Arrow type 'time64")


def test_an_empty_table_with_lists_of_views_does_not_abort() -> None:
    lists = pa.schema([("observation", pa.list_(pa.list_view(pa.float64()))), ("reward", pa.float64())])
    refused(lambda: read(lists.empty_table()), "has no rows")


def test_text_stored_as_a_dictionary(tmp_path: Path) -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1], pa.int8()), ["a", "b"])
    assert read(pa.table({**OBS, "episode": ids})).episode.tolist() == [0, 0, 1]
    full = pa.DictionaryArray.from_arrays(pa.array([0, 127, None], pa.int8()), [f"e{i}" for i in range(128)])
    refused(lambda: read(pa.table({**OBS, "episode": full})), "`episode` must be present, but row 2")
    pq.write_table(pa.table({**OBS, "episode": ["a", "a", "b"]}), tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet").n_episodes == 2


def test_actions_that_change_their_kind_in_a_later_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ["1,0,0,{}", "2,0,0,{}", "3,0,1,{}", "4,0,0,{}", "5,0,0,{}", "6,0,1,{}"]
    path = tmp_path / "log.csv"

    def write(actions: list[Any]) -> None:
        lines = [row.format(a) for row, a in zip(rows, actions, strict=True)]
        path.write_text("\n".join(["obs_x,reward,done,action", *lines]))

    write([0.5, 1, 1, 1, 0, 1])
    joined = concatenate(list(read_batches(path, batch_rows=3)))
    np.testing.assert_array_equal(joined.action, read(path).action)
    write([0, 1, 1, 1, 0, 0.5])
    monkeypatch.setattr(text, "BLOCK", 32)  # a few lines
    refused(lambda: list(read_batches(path, batch_rows=3)), "`action` holds whole numbers up to row 4 and others")


def test_a_probability_too_small_to_divide_by() -> None:
    log = {**OBS, "propensity": [0.5, 1e-310, 0.5], "target_prob": [0.5, 0.5, 0.5]}
    refused(lambda: read(log), "`propensity` must be large enough to divide by, but row 1")


def test_a_report_on_the_largest_numbers_does_not_warn() -> None:
    big = [1e100, -1e100, 1e100] * 20
    log = {"obs_x": big, "next_obs_x": big, "reward": big, "step": 2e98 * np.arange(-10, 50)}
    assert inspect(log).error is None


def episodes(**changes: Any) -> Any:
    fields = {
        "observations": np.zeros((3, 2)),
        "actions": np.zeros(2, int),
        "rewards": np.zeros(2),
        "terminations": np.array([False, True]),
        "truncations": np.zeros(2, bool),
        "infos": None,
    }
    numbered = [{**fields, "id": 0}, {**fields, "id": 1}, {**fields, "id": 2, **changes}]
    return SimpleNamespace(iterate_episodes=lambda: iter([SimpleNamespace(**episode) for episode in numbered]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": {}}, "Episode 2 of the Minari dataset cannot be read"),
        ({"observations": (np.zeros(3), np.zeros((2, 2)))}, "Episode 2 of the Minari dataset cannot be read"),
        ({"observations": np.zeros((2, 2))}, r"Episode 2 .*`observation` has the shape \(1, 2\) for 2 steps"),
        ({"terminations": np.asarray(1)}, r"Episode 2 .*`terminated` has the shape \(\) for 2 steps"),
        ({"observations": np.zeros((3, 1))}, "Episode 2 has another kind or shape of `observation`"),
        ({"observations": np.zeros((3, 2), "M8[s]")}, r"Episode 2 .*\(`observation` holds dates"),
        ({"rewards": None}, "Episode 2 of the Minari dataset cannot be read"),
    ],
)
def test_damaged_minari_episodes(changes: dict[str, Any], words: str) -> None:
    assert len(read(episodes())) == 6
    refused(lambda: read(episodes(**changes)), words)


def test_a_minari_dataset_that_fails_on_the_way() -> None:
    def fail() -> Any:
        raise KeyError("episode_7\nis gone")

    refused(lambda: read(SimpleNamespace(iterate_episodes=fail)), "The Minari dataset cannot be read")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"reward": ["a", "b"]}, "`reward` must hold numbers, but row 0 holds 'a'"),
        ({"reward": [1.0, None]}, "`reward` must be finite, but row 1"),
        ({"terminated": [[1], [2]]}, "`terminated` must be true or false"),
        ({"indices": pa.array([[10**15], []], pa.list_(pa.time64("us")))}, "its lists must hold integers"),
        ({"indices": pa.array([[2**62, None], []], pa.list_(pa.duration("s")))}, "its lists must hold integers"),
        ({"a\nb": [1, 2]}, "not one short line of text"),
    ],
)
def test_sparse_rows_of_odd_columns(columns: dict[str, Any], words: str, tmp_path: Path) -> None:
    table = pa.table({"indices": [[0], [1]], "reward": [0.0, 1.0], **columns})
    pq.write_table(table, tmp_path / "log.parquet")
    refused(lambda: list(read_batches(tmp_path / "log.parquet", n_features=2)), words)


def test_sparse_rows_of_views(tmp_path: Path) -> None:
    views = pa.array([[0], [1], []], pa.list_view(pa.int64()))
    pq.write_table(pa.table({"indices": views, "reward": [0.0, 1.0, 2.0]}), tmp_path / "log.parquet")
    refused(lambda: list(read_batches(tmp_path / "log.parquet", n_features=2)), "`indices` has the type list_view")


def test_sparse_rows_of_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"indices": [[0], [1]], "reward": [0.0, 1.0]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + random.Random(0).randbytes(9))
    refused(lambda: list(read_batches(path, n_features=2)), "is not a readable Parquet file")
    path.write_bytes(whole.replace(b"reward", b"rew\xffrd"))
    refused(lambda: list(read_batches(path, n_features=2)), "is not a readable Parquet file")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        list(read_batches(tmp_path / "absent.parquet", n_features=2))


def test_an_arrow_file_whose_footer_disagrees(tmp_path: Path) -> None:
    path = tmp_path / "log.arrow"
    for rows in (1, 3):
        with pa.ipc.new_file(path, pa.table(OBS).schema) as writer:
            writer.write_table(pa.table(OBS), max_chunksize=rows)
        if rows == 1:
            three = path.read_bytes()
    one = path.read_bytes()
    size = int.from_bytes(one[-10:-6], "little") + 10
    path.write_bytes(three[: -(int.from_bytes(three[-10:-6], "little") + 10)] + one[-size:])
    refused(lambda: read(path), "its footer does not count its record batches")


class Counted(str):
    """A name that counts how often names are looked at."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Counted.looks += 1
        return str.__hash__(self)


@pytest.mark.parametrize("prefix", ["obs_", "x"])
def test_the_roles_of_many_columns_take_time_in_proportion(prefix: str) -> None:
    n = 2000
    names = [f"{prefix}{i}" for i in range(n)] + [f"next_{prefix}{i}" for i in range(n)] + ["reward"]
    for given in ({}, {"observation": names[:n]}):
        Counted.looks = 0
        assert len(infer_schema(map(Counted, names), **given).next_observation) == n
        assert Counted.looks < 100 * n


def test_parts_of_a_folder_that_cannot_be_joined(tmp_path: Path) -> None:
    times = np.arange(3).astype("M8[s]")

    def write(name: str, first: Any) -> None:
        for i, column in enumerate((first, times)):
            log = {"obs_x": [1.0, 2.0, 3.0], "reward": [0.0] * 3, "done": [1] * 3, name: column}
            pq.write_table(pa.table(log), tmp_path / f"{i}.parquet")

    write("obs_y", [1.0, 2.0, 3.0])
    refused(lambda: read(tmp_path), "`obs_y` holds dates or durations from row 0 of 1.parquet on")
    write("episode", ["a", "b", "c"])
    assert read(tmp_path).episode.tolist() == [0, 1, 2, 3, 4, 5]
    write("episode", [1, 2, 3])
    assert sum(map(len, read_batches(tmp_path, batch_rows=3))) == 6


def test_the_least_integer_in_one_part_and_unsigned_integers_in_another(tmp_path: Path) -> None:
    for i, entries in enumerate((np.arange(3, dtype=np.uint64), np.full(3, -(2**63)))):
        pq.write_table(pa.table({"obs_x": entries, "reward": [0.0] * 3, "done": [1] * 3}), tmp_path / f"{i}.parquet")
    assert read(tmp_path).observation[:, 0].tolist() == [0, 1, 2, *[-(2**63)] * 3]
    check_same(concatenate(list(read_batches(tmp_path, batch_rows=3))), read(tmp_path))


class Huge(int):
    """A number that counts how often it is compared; multiples of 2⁶¹ - 1 all have the hash 0."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        Huge.looks += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


def test_identifiers_of_one_hash_take_time_in_proportion() -> None:
    n = 1000
    ids = np.empty(n, dtype=object)
    ids[:] = [Huge((2**61 - 1) * (i + 8)) for i in range(n)]
    log = {"obs_x": np.zeros(n), "reward": np.zeros(n), "done": np.ones(n), "episode": ids}
    assert read(log).n_episodes == sum(map(len, read_batches(log))) == n
    assert Huge.looks < 20 * n
    assert read({**log, "episode": np.array([Decimal(i) for i in range(n)])}).n_episodes == n


def test_a_damaged_footer_does_not_end_the_process(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"obs": [[1.0, 2.0], [3.0, 4.0], [5.0]], "reward": [0.0] * 3})
    pq.write_table(table, path, row_group_size=2)
    whole, rng = path.read_bytes(), random.Random(0)
    length = int.from_bytes(whole[-8:-4], "little")
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[-9 - rng.randrange(length)] = rng.randrange(256)
        path.write_bytes(damaged)
        value_or_sentence(lambda: read(path))


def test_a_row_group_that_claims_more_rows_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"obs_x": [1.0] * 50, "reward": [0.0] * 50}), path, store_schema=False)
    whole = path.read_bytes()
    rows = (100).to_bytes()  # 50, as Thrift writes it: once for the file, once for its row group
    at = whole.rindex(b"\x16" + rows) + 1
    path.write_bytes(whole[:at] + b"\x7e" + whole[at + 1 :])
    assert [pq.read_metadata(path).num_rows, pq.read_metadata(path).row_group(0).num_rows] == [50, 63]
    refused(lambda: read(path), "its rows do not add up")
    refused(lambda: list(read_batches(path, n_features=9)), "its rows do not add up")


def test_a_successor_beyond_the_integers() -> None:
    log = {"obs_x": [1, 2, 3], "next_obs_x": [2.0, 3e19, 4.0], "reward": [0.0] * 3}
    assert read(log).next_observation[:, 0].tolist() == [2.0, 3e19, 4.0]


def test_a_member_of_an_archive_with_a_strange_name(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}\n"
    with zipfile.ZipFile(tmp_path / "log.npz", "w") as archive:
        archive.writestr("a\nb.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    refused(lambda: read(tmp_path / "log.npz"), "claims more data than it holds")


def test_kinds_of_minari_actions_are_compared_across_batches() -> None:
    dataset = episodes(actions=np.zeros((2, 1), int))
    refused(lambda: read(dataset), "Episode 2 has another kind or shape of `action`")
    refused(lambda: list(read_batches(dataset, batch_rows=3)), "Episode 2 has another kind or shape of `action`")


def test_minari_episodes_without_rows_are_left_out() -> None:
    empty = {"observations": np.zeros((1, 2)), "actions": np.zeros(0), "rewards": np.zeros(0)}
    empty |= {"terminations": np.zeros(0, bool), "truncations": np.zeros(0, bool)}
    t = read(episodes(**empty))
    assert (len(t), t.action.dtype) == (4, np.int64)


def test_rows_of_nothing_stored_as_objects() -> None:
    refused(lambda: read({**OBS, "obs_x": np.zeros((3, 0, 2), object)}), "`obs_x` must have at least one column")


def test_signed_and_unsigned_integers_stay_integers(tmp_path: Path) -> None:
    t = read(episodes(actions=np.array([0, 1], np.uint64)))
    assert (t.action.shape, t.action.dtype) == ((6,), np.int64)
    for i, kind in enumerate((pa.int64(), pa.uint64())):
        column = pa.array([2**62 + 1 + i], kind)
        pq.write_table(pa.table({"obs": column, "reward": [0.0], "done": [1]}), tmp_path / f"{i}.parquet")
    assert read(tmp_path).observation[:, 0].tolist() == [2**62 + 1, 2**62 + 2]


def test_numbers_in_one_part_and_lists_of_one_number_in_another(tmp_path: Path) -> None:
    for i, column in enumerate(([1.0], [[2.0]])):
        pq.write_table(pa.table({"obs": column, "reward": [0.0], "done": [1]}), tmp_path / f"{i}.parquet")
    assert read(tmp_path).observation.tolist() == [[1.0], [2.0]]


def test_numbers_in_one_part_and_views_of_lists_in_another(tmp_path: Path) -> None:
    for i, column in enumerate((pa.array([[2.0]], pa.list_view(pa.float64())), pa.array([1.0]))):
        table = pa.table({"obs": column, "reward": [0.0], "done": [1]})
        with pa.OSFile(str(tmp_path / f"{i}.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    assert read(tmp_path).observation.tolist() == [[2.0], [1.0]]


def test_a_long_identifier_is_the_same_in_every_batch() -> None:
    """2⁶³ is an object beside a negative or signed number, and unsigned alone."""
    long = np.asarray(2**63, dtype=np.uint64)
    dataset = episodes(id=long)
    first = next(dataset.iterate_episodes())
    first.id = long
    twice = SimpleNamespace(iterate_episodes=lambda: iter([first, *list(dataset.iterate_episodes())[1:]]))
    for reader in (read, lambda source: list(read_batches(source, batch_rows=3))):
        refused(lambda reader=reader: reader(twice), "Episode 1 has another kind or shape of `episode`")
    long_ones = [*dataset.iterate_episodes()]
    for i, one in enumerate(long_ones):
        one.id = np.asarray(2**63 + i % 2, dtype=np.uint64)
    again = SimpleNamespace(iterate_episodes=lambda: iter(long_ones))
    refused(lambda: list(read_batches(again, batch_rows=3)), "`episode` must keep the rows of an episode together")


@pytest.mark.parametrize("odd", ["x", "2", 2.0, 2.5, 2**63])
def test_minari_ids_of_two_kinds_are_refused_however_they_are_read(odd: Any) -> None:
    """In one batch they were all text, in several some were numbers."""
    dataset = episodes(id=odd)
    refused(lambda: read(dataset), "Episode 2 has another kind or shape of `episode`, unlike the first")
    refused(lambda: list(read_batches(dataset, batch_rows=3)), "Episode 2 has another kind or shape of `episode`")


def test_real_numbers_stored_as_complex_ones_are_read_beside_objects() -> None:
    mixed = {**OBS, "action": np.array([1, 2 + 0j, 3.0], dtype=object)}
    assert read(mixed).action.tolist() == [[1.0], [2.0], [3.0]]
    refused(lambda: read({**mixed, "action": np.array([1, 2 + 1j, 3.0], dtype=object)}), "row 1 holds \\(2\\+1j\\)")


def test_ids_in_half_precision() -> None:
    assert read({**OBS, "episode": np.array([1.0, 2.0, 3.0], np.float16)}).ids().tolist() == [1, 2, 3]
    assert read({**OBS, "episode": np.array([1.5, np.inf, 3.0], np.float16)}).ids().tolist() == ["1.5", "inf", "3"]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("role", ["obs_x", "reward"])
def test_infinity_is_refused_in_every_precision(kind: type, role: str) -> None:
    """Beside an array of float32, NumPy rounds a limit of 1e100 to infinity, and infinity is not above that."""
    refused(lambda: read({**OBS, role: np.array([1.0, np.inf, 2.0], kind)}), f"`{role}` must be finite, but row 1")


def test_a_series_that_pandas_cannot_turn_into_an_array_is_refused() -> None:
    column = pa.array([[[]], [[]], [[]]], pa.list_view(pa.list_(pa.float64(), 0)))
    frame = pd.DataFrame(OBS | {"reward": pd.Series(pd.arrays.ArrowExtensionArray(column))})
    refused(lambda: read(frame), "`reward` cannot be read as an array")


def test_lists_of_dates_are_refused_as_dates() -> None:
    dates = pa.array([[np.datetime64("2020-01-01", "ns")]] * 3, type=pa.list_(pa.timestamp("ns")))
    refused(lambda: read(pa.table(OBS | {"reward": dates})), "`reward` holds dates or durations")
