"""Where rows come from: files, frames, mappings of arrays and Minari datasets, all as chunks of named columns."""

from __future__ import annotations

import glob
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs.arrow import columns_of, ipc_chunks, parquet_chunks
from sparsetd.logs.checks import Array, objects, reason, show
from sparsetd.logs.lazy import LazyColumns
from sparsetd.logs.minari import minari_chunks
from sparsetd.logs.schema import MAX_COLUMNS, Schema, check_names
from sparsetd.logs.text import csv_chunks, jsonl_chunks

MAX_BYTES = 8 * 2**30

MANIFEST = "manifest.json"
LONGEST_HEADER = 2**14  # of an array in an .npz archive; NumPy itself reads no more than 10,000 bytes

Chunks = Iterator[Mapping[str, Array]]

FILES: dict[str, Callable[[Path, int], Chunks]] = {
    ".parquet": parquet_chunks,
    ".pq": parquet_chunks,
    ".arrow": ipc_chunks,
    ".feather": ipc_chunks,
    ".ipc": ipc_chunks,
    ".csv": csv_chunks,
    ".tsv": csv_chunks,
    ".jsonl": jsonl_chunks,
    ".ndjson": jsonl_chunks,
}


def chunks(source: Any, batch_rows: int = 65_536, max_bytes: int = MAX_BYTES) -> Chunks:
    """Columns of `source` in chunks of at most `batch_rows` rows (arrays, frames and archives come whole)."""
    if isinstance(source, str) and source.startswith("minari:"):
        return minari_chunks(source.removeprefix("minari:"), batch_rows)
    if isinstance(source, str) and not source.strip():
        raise ValueError("the path of the log is empty: name a file or a folder.")
    if isinstance(source, (str, Path)):
        return (chunk for file in files_of(source) for chunk in _file(file, batch_rows, max_bytes))
    if hasattr(source, "iterate_episodes"):
        return minari_chunks(source, batch_rows)
    return iter([_in_memory(source)])


def files_of(source: Any) -> list[Path]:
    """The files of a path in the order of their names: itself, those of a folder, or those that match a pattern."""
    if not isinstance(source, (str, Path)) or str(source).startswith("minari:"):
        return []
    path = Path(source)
    if path.is_dir():
        parts = sorted(p for p in path.iterdir() if p.suffix.lower() in FILES)
        if not parts:
            raise ValueError(f"{path} is a directory without data files: it needs files such as part-0.parquet.")
        return parts
    found = [path] if path.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        raise FileNotFoundError(f"{path} does not exist: check the path.")
    return found


def manifest_of(source: Any) -> dict[str, Any]:
    """The manifest of a folder of shards; that of another source names no columns and no shards."""
    path = Path(source, MANIFEST) if isinstance(source, (str, Path)) else None
    if path is None or not path.is_file():
        return {"columns": {}, "shards": []}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(manifest, ensure_ascii=False).encode()  # halves of characters, which no file or terminal takes
        Schema(**manifest["columns"])
        return {"columns": manifest["columns"], "shards": [{**entry} for entry in manifest["shards"]]}
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{path} is not a manifest of shards: run `sparsetd shard` again.") from None


def _file(path: Path, batch_rows: int, max_bytes: int) -> Chunks:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return iter([read_npz(path, max_bytes)])
    if suffix not in FILES:
        known = ", ".join([*FILES, ".npz"])
        raise ValueError(f"{path.name} has the ending {suffix!r}, which no reader knows: use one of {known}.")
    return _decoded(path, FILES[suffix](path, batch_rows))


def _decoded(path: Path, source: Chunks) -> Chunks:
    """Chunks of a text file, with the errors of decoding and of the csv module as one sentence."""
    import csv

    try:
        yield from source
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text (byte {error.start}): save it as UTF-8.") from None
    except csv.Error as error:
        raise ValueError(f"{path.name} is not a valid CSV file ({error}): write it again.") from None


def _in_memory(source: Any) -> Mapping[str, Array]:
    if isinstance(source, Mapping):
        named = {str(name): values for name, values in source.items()}
        return LazyColumns(named, lambda name: _converted(name, lambda: named[name]))
    if hasattr(source, "schema") and hasattr(source, "num_rows"):
        check_names(source.schema.names)
        return columns_of(source)
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        names = {str(name): name for name in source.columns}
        check_names([str(name) for name in source.columns])
        return LazyColumns(names, lambda name: _converted(name, lambda: source[names[name]].to_numpy()))
    raise TypeError(
        f"A {type(source).__name__} is not a source of transitions: pass a path, a frame, a mapping of arrays or a "
        "Minari dataset, or make a log of arrays with `Transitions.from_arrays`."
    )


def _converted(name: str, values: Callable[[], Any]) -> Array:
    try:
        return _column(values())
    except MemoryError:
        raise
    except Exception as error:  # pandas, Polars and NumPy, each with its own types that are no numbers
        raise ValueError(f"`{name}` cannot be read as an array ({reason(error)}): make it numbers.") from None


def _column(values: Any) -> Array:
    """An array as it is; lists that are mixed or of different lengths stay lists, to be named in an error."""
    try:
        array = np.asarray(values)
    except ValueError:
        return objects(values)
    return objects(values) if array.dtype.kind in "UST" and array.ndim == 1 else array


def read_npz(path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Array]:
    """Arrays of an .npz archive, without pickles; sizes are checked against the headers before anything is unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            _refuse_bomb(path, archive, max_bytes)
        with np.load(path, allow_pickle=False) as arrays:  # noqa: TID251 (without pickles)
            return {name: _column(arrays[name]) for name in arrays.files}
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive fails in zipfile, zlib and NumPy, each in its own ways
        if isinstance(error, ValueError) and str(error).startswith(path.name):
            raise
        why = "it holds Python objects" if "pickle" in str(error).lower() else reason(error)
        raise ValueError(
            f"{path.name} is not a readable .npz archive ({why}): save plain arrays with np.savez."
        ) from None


def _refuse_bomb(path: Path, archive: zipfile.ZipFile, max_bytes: int) -> None:
    members = archive.infolist()
    if len(members) > MAX_COLUMNS:
        raise ValueError(
            f"{path.name} holds {len(members):,} arrays, more than {MAX_COLUMNS:,}: use one matrix instead."
        )
    total = 0
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without a limit
            raise ValueError(f"{path.name} is compressed in a way that NumPy does not use: save it with np.savez.")
        with archive.open(member) as packed:
            file = io.BytesIO(packed.read(LONGEST_HEADER))
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        size = math.prod((*shape, dtype.itemsize))
        if size > member.file_size or not dtype.itemsize:
            raise ValueError(
                f"{path.name} is damaged: {show(member.filename)} claims more data than it holds; save it again."
            )
        total += member.file_size
    if total > max_bytes:
        raise ValueError(
            f"{path.name} would unpack to {total / 2**30:.1f} GiB, beyond {max_bytes / 2**30:.1f}: use Parquet."
        )
