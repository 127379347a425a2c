"""Small files that would unpack to gigabytes are refused, or take no more memory than they must."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fuzz.test_findings import refused
from sparsetd import LSTD, Transitions, ValueFunction
from sparsetd.estimators import model_file
from sparsetd.features import Fourier, Polynomial, RBFGrid, Tabular, TileCoding
from sparsetd.logs import checks, files, inspect, read, read_batches, text
from sparsetd.logs.sharding import shard
from sparsetd.storage import container
from sparsetd.storage.container import CorruptFileError

MIB = 2**20


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """What happens inside takes no more memory than this, neither NumPy's and Python's nor Arrow's."""
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    tracemalloc.start()
    yield
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert traced < size
    assert pool.max_memory() <= max(before, size)


def small(path: Path) -> Path:
    assert path.stat().st_size < MIB // 2
    return path


def test_a_long_id_in_many_rows_of_parquet_is_refused_while_it_is_in_memory_once(tmp_path: Path) -> None:
    n = 400  # a mebibyte each, if every row had its own
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), ["z" * MIB])
    table = pa.table({"obs_x": np.zeros(n), "reward": np.zeros(n), "episode": names})
    pq.write_table(table, tmp_path / "log.parquet", compression="zstd", store_schema=False)
    with at_most(50 * MIB):
        refused(lambda: read(small(tmp_path / "log.parquet")), "`episode` must have ids of at most 1,000 bytes")


def test_ten_thousand_rows_of_one_long_id_are_refused_by_shard(tmp_path: Path) -> None:
    n = 10_000
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), ["z" * MIB])
    table = pa.table({"obs_x": np.zeros(n), "reward": np.zeros(n), "episode": names})
    pq.write_table(table, tmp_path / "log.parquet", compression="zstd", store_schema=False)
    with at_most(50 * MIB):
        refused(lambda: shard([small(tmp_path / "log.parquet")], tmp_path / "out"), "ids of at most 1,000 bytes")


def test_a_list_of_very_many_numbers_is_refused_by_its_footer(tmp_path: Path) -> None:
    n = 2**26
    lists = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), pa.array(np.zeros(n, np.int8)))
    pq.write_table(pa.table({"obs": lists, "reward": [0.0]}), tmp_path / "log.parquet", compression="zstd")
    del lists
    with at_most(10 * MIB):
        refused(lambda: read(small(tmp_path / "log.parquet")), "would unpack to 0.5 GiB in one row group")
        assert "would unpack to" in str(inspect(tmp_path / "log.parquet").error)


def test_long_lists_of_parquet_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MOST", MIB // 2)
    lists = pa.ListArray.from_arrays([0, MIB], pa.array(np.zeros(MIB, np.int8)))
    table = pa.table({"obs": lists, "indices": lists, "reward": [0.0]})
    pq.write_table(table, tmp_path / "log.parquet", data_page_size=2**30, use_dictionary=False, compression="zstd")
    refused(lambda: read(small(tmp_path / "log.parquet")), "would unpack to .* in one row group")
    sparse = {"indices": "indices", "n_features": 9}
    refused(lambda: list(read_batches(tmp_path / "log.parquet", **sparse)), "would unpack to .* in one row group")


def test_row_groups_that_fit_only_one_by_one_are_read_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [[0] * 1000] * 20
    table = pa.table({"obs": lists, "indices": lists, "reward": [0.0] * 20})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=1, use_dictionary=False)
    monkeypatch.setattr(checks, "MOST", 40_000)
    assert max(map(len, read_batches(tmp_path / "log.parquet"))) <= 2
    assert len(read(tmp_path / "log.parquet")) == 19
    assert max(map(len, read_batches(tmp_path / "log.parquet", indices="indices", n_features=1))) <= 2


def test_lists_of_nothing_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.arrow"
    n = 2 * 10**9
    lists = pa.Array.from_buffers(pa.list_(pa.null(), n), 1, [None], children=[pa.nulls(n)])
    table = pa.table({"obs": lists, "reward": [0.0]})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    with at_most(MIB):
        refused(lambda: read(small(path)), "`obs` has lists of 2000000000 entries")


def test_very_many_columns_are_read_fewer_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 400
    table = pa.table({**{f"obs_{i}": np.zeros(n) for i in range(100)}, "reward": np.zeros(n), "done": np.ones(n)})
    pq.write_table(table, tmp_path / "log.parquet")
    monkeypatch.setattr(checks, "MOST", 102 * 8 * 100)
    sizes = [len(part) for part in read_batches(tmp_path / "log.parquet")]
    assert sizes == [98, 100, 100, 100, 2]  # two rows wait for their successors


def test_rows_of_json_that_lack_most_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    columns = ", ".join(f'"c{i}": 0' for i in range(98))
    path.write_text(f'{{"obs_x": 1, "reward": 0, {columns}}}\n' + '{"obs_x": 1, "reward": 0}\n' * 99)
    monkeypatch.setattr(text, "MAX_CELLS", 1000)
    opened = text.open_jsonl(path)
    sizes = [len(raw["reward"]) for raw in opened.batches(opened.names, 65_536, ())]
    assert sizes == [10] * 10


def archive(path: Path, member: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("obs.npy", member)
    return small(path)


def npy(header: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def test_a_long_header_in_an_npz_archive_is_not_read(tmp_path: Path) -> None:
    size = 32 * MIB
    path = archive(tmp_path / "log.npz", b"\x93NUMPY\x02\x00" + size.to_bytes(4, "little") + b" " * size)
    with at_most(10 * MIB):
        refused(lambda: read(path), "is not a readable .npz archive")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_without_a_limit_are_refused(method: int, tmp_path: Path) -> None:
    header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (1000000,)}\n"
    path = archive(tmp_path / "log.npz", npy(header, bytes(1_000_000)), method)
    refused(lambda: read(path), "compressed in a way that NumPy does not use")


@pytest.mark.parametrize("kind", [b"<U0", b"|S0", b"|V0"])
def test_a_million_million_empty_texts(kind: bytes, tmp_path: Path) -> None:
    header = b"{'descr': '%s', 'fortran_order': False, 'shape': (1000000000000,)}\n" % kind
    refused(lambda: read(archive(tmp_path / "log.npz", npy(header))), "claims more data than it holds")


def test_the_limit_of_read_is_that_of_an_archive(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "log.npz", obs=np.zeros(4 * MIB), reward=np.zeros(4 * MIB))
    with at_most(10 * MIB):
        refused(lambda: read(small(tmp_path / "log.npz"), max_bytes=MIB), "would unpack to")


def model_of(features: Any, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """The header and the arrays of a model file with this feature map, ready to be changed."""
    rng = np.random.default_rng(0)
    s = rng.integers(4, size=(12, 2)) if isinstance(features, Tabular) else rng.normal(size=(12, 2))
    log = Transitions.from_arrays(s, rng.normal(size=12), terminated=np.arange(12) % 4 == 3)
    path = tmp_path / "model"
    model_file.save(ValueFunction(features, LSTD(alpha=1.0)).fit(log), path)
    return *container.read(path, model_file.KIND), path


HUGE = [2 * 10**8, 6 * 10**8, 3161, 2**31, 2**63, 10**30, 0, -1, 1e300, 0.5, True, "x", None, [10**9, 2], [2**40] * 2]
MAPS = {
    "n_tilings": TileCoding(2, 3),
    "n_tiles": TileCoding(2, 3),
    "hash_size": TileCoding(2, 3, hash_size=32),
    "order": Fourier(2),
    "coupling": Fourier(2, coupling=1),
    "grids": RBFGrid((2, 3)),
    "degree": Polynomial(2),
    "n_features_in_": TileCoding(2, 3),
    "low_": RBFGrid((2, 3)),
    "n_states_": Tabular(),
}


@pytest.mark.parametrize("name", MAPS)
def test_no_parameter_in_a_model_file_is_a_bomb(name: str, tmp_path: Path) -> None:
    meta, arrays, path = model_of(MAPS[name], tmp_path)
    for part in ("features", "features_"):
        node = meta["model"]["params" if part == "features" else "fitted"][part]
        assert name in node["params"] or name in node["fitted"] or part == "features"
    opened, refusals = 0, []
    for value in HUGE:
        (node["fitted"] if name.endswith("_") else node["params"])[name] = value
        container.write(path, model_file.KIND, meta, arrays)
        with at_most(100 * MIB):
            try:
                opened += model_file.load(small(path)) is not None
            except CorruptFileError as error:
                refusals.append(str(error))
    assert opened < len(HUGE)
    assert all(refusal.startswith(f"{path}: ") for refusal in refusals)


def forged(tmp_path: Path, notes: Any, arrays: dict[str, Any]) -> Path:
    """A model file with valid checksums whose notes are this node."""
    meta, own, path = model_of(None, tmp_path)
    container.write(path, model_file.KIND, {**meta, "notes": notes}, {**own, **arrays})
    return path


def test_arrays_that_lie_on_one_another_are_refused(tmp_path: Path) -> None:
    path = forged(tmp_path, {}, {f"a{i}": np.zeros(1) for i in range(2000)} | {"b": np.zeros(2**17)})
    data = path.read_bytes()
    length = int.from_bytes(data[8:16], "little")
    header = json.loads(data[16 : 16 + length])
    for i in range(2000):
        header["arrays"][f"a{i}"] = header["arrays"]["b"]
    new = json.dumps(header).encode()
    body = container.MAGIC + len(new).to_bytes(8, "little") + new + data[16 + length : -container.DIGEST]
    path.write_bytes(body + hashlib.sha256(body).digest())
    with at_most(20 * MIB), pytest.raises(CorruptFileError, match="reaches beyond its place in the file"):
        model_file.load(path)


def strings(text: str, ends: list[int], dtype: str, n: int = 0) -> tuple[Any, dict[str, Any]]:
    node = {"~": "strings", "text": "t", "ends": "e", "shape": [n or len(ends)], "dtype": dtype}
    return node, {"t": np.frombuffer(text.encode(), np.uint8), "e": np.array(ends)}


@pytest.mark.parametrize(
    ("node", "arrays", "message"),
    [
        (*strings("z" * 60_000, [0] * 29_999 + [60_000], "<U60000"), "claim more memory"),
        (*strings("z" * 9_000, [9_000, 0] * 15_000 + [9_000], "O"), "do not follow one another"),
        (*strings("z", [0] * 2_000_000 + [1], "O"), "claim more memory"),
        ([{"~": "floats", "name": "a"}] * 20_000, {"a": np.ones(20_000)}, "names an array twice"),
        ({"~": "ints", "name": "a"}, {"a": np.ones(2**22, np.int8)}, "claim more memory"),
        ({"~": "nonzeros", "at": "a", "v": "v", "shape": [2**27]},
         {"a": np.zeros(1, np.int32), "v": np.ones(1)}, "claim more memory"),
    ],
    ids=["wide text", "back and forth", "many texts", "one array often", "a list", "zeros"],
)  # fmt: skip
def test_what_takes_more_memory_than_its_file_is_counted_first(
    node: Any, arrays: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = forged(tmp_path, node, arrays)
    with at_most(100 * MIB + path.stat().st_size), pytest.raises(CorruptFileError, match=message):
        model_file.read_notes(path)


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    model = LSTD(alpha=1.0).fit(np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match=r"notes\.ids takes more memory than a file may ask for"):
        model_file.save(model, tmp_path / "m", notes={"ids": np.array(["x"] * 2_000_000, dtype=object)})
    assert not list(tmp_path.iterdir())


def test_names_that_stand_twice_in_a_header_are_refused(tmp_path: Path) -> None:
    path = forged(tmp_path, {"zz": 1}, {})
    data = path.read_bytes()
    length = int.from_bytes(data[8:16], "little")
    header = data[16 : 16 + length].replace(b'{"zz":1}', b'{"z":1,"z":2}')
    body = container.MAGIC + len(header).to_bytes(8, "little") + header + data[16 + length : -container.DIGEST]
    path.write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(CorruptFileError, match="the header says something twice"):
        model_file.read_notes(path)


def test_columns_that_a_model_file_only_claims_are_refused(tmp_path: Path) -> None:
    """Two arrays of zeros are written by their length alone: 10⁷ columns are as small as two."""
    meta, arrays, path = model_of(TileCoding(1, 3, hash_size=32), tmp_path)
    for part in ("features", "features_"):
        node = meta["model"]["params" if part == "features" else "fitted"][part]
    node["fitted"]["n_features_in_"] = 10**7
    for name in ("low_", "high_"):
        arrays |= {f"{name}at": np.zeros(1, np.int32), f"{name}v": np.zeros(1)}
        node["fitted"][name] = {"~": "nonzeros", "at": f"{name}at", "v": f"{name}v", "shape": [10**7]}
    container.write(path, model_file.KIND, meta, arrays)
    with at_most(100 * MIB), pytest.raises(CorruptFileError, match="claim more memory"):
        model_file.load(small(path))


def test_a_page_that_claims_to_unpack_to_much_is_refused_before_room_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"obs_x": [1.0, 2.0], "reward": [0.0, 1.0], "terminated": [True, True]}), path)
    assert len(read(path)) == 2
    monkeypatch.setattr(files, "HARMLESS_PAGE", 1)
    monkeypatch.setattr(files, "SHRUNK", 0)
    with pytest.raises(ValueError, match="in one page: it is damaged"):
        read(path)


def test_a_page_that_claims_more_bytes_than_the_file_has_is_refused_before_room_is_made(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    columns = {"obs_x": np.arange(500.0), "reward": np.ones(500), "terminated": np.ones(500, bool)}
    pq.write_table(pa.table(columns), path, use_dictionary=False, compression="none")
    data = bytearray(path.read_bytes())
    at = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    claimed = bytes([0x80, 0x80, 0x80, 0x80, 0x05])  # 670 million, in the number format of Thrift
    header = b"\x15\x00" + b"\x15\xc8\x01" + b"\x15" + claimed + b"\x2c\x15\xe8\x07\x15\x00\x15\x06\x15\x06\x00\x00"
    data[at : at + len(header)] = header
    path.write_bytes(data)
    with at_most(50 * MIB):
        refused(lambda: read(path), "the header of a page is damaged")
