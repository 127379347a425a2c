"""`shard` sorts any number of rows, in any order, into files of whole episodes; `shards` opens a log as parts.

    1. read      checked rows, as many as `memory` holds, go to one spill file, grouped by shard = ⌊n · hash(episode)⌋
    2. merge     the k-th group of every spill is the k-th shard: episodes in the order of their hashes, rows by step

Rows stay in Arrow all the way. Neither the order of the rows nor that of the files matters, unless the log has no
steps: then the rows of an episode keep their order. Spills and the notes of finished shards are entries of a `Cache`,
so a run that was killed continues with what is missing, and the bytes of the shards are the same.

A folder of shards has a manifest: the roles of the columns, and for every file its rows, episodes, size and SHA-256.
All of it is checked before any work. Parquet files without a manifest are surveyed instead: they must have the same
columns, and no two of them may share an episode. A log in memory is one part.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from sparsetd._tools.progress import track
from sparsetd.logs import reading
from sparsetd.logs.checks import Array, array_of, ids_of, lists_of
from sparsetd.logs.door import BATCH, MANIFEST, REMEDY, UNFINISHED, Log, files_of, manifest_of, source_name
from sparsetd.logs.files import PARQUET, footer_of, notes_of, open_parquet, portions, write_parquet
from sparsetd.logs.partition import cuts, hashed, parts_between, ranges
from sparsetd.logs.reading import TEXTS, hashes, read
from sparsetd.logs.schema import Schema, infer_schema, joined_actions
from sparsetd.logs.transitions import Transitions
from sparsetd.storage.atomic import replace_file
from sparsetd.storage.cache import Cache, key_of

__all__ = ["Shard", "part_of", "shard", "shards"]

SHARD_BYTES = 64 * 2**20  # bytes of the sources for each shard: several of them fit in the memory of a worker
MOST_SHARDS = 100_000
DENSE = 2_048  # sparse rows with no more columns than this become dense, which is faster


def shard(
    sources: Sequence[Any], out: str | Path, *, n_shards: int | None = None, memory: int = 2**26, **columns: Any
) -> dict[str, Any]:
    """Sort a log of any size into Parquet files of whole episodes, for logs larger than memory; return the manifest.

    Parameters
    ----------
    sources : sequence
        Anything that `read` takes; files, folders, patterns and streams may be larger than memory.
    out : path
        A new folder, or the folder of the same call after an interruption.
    n_shards : int, optional
        The number of files; by default one for every 64 MiB of the sources.
    memory : int
        Bytes of rows that are sorted at a time.
    **columns
        Names of columns by role, as in `read`.
    """
    files = [file for source in sources for file in files_of(source)]
    n = n_shards or max(1, sum(file.stat().st_size for file in files) // SHARD_BYTES)
    if not 1 <= n <= MOST_SHARDS:
        raise ValueError(f"`n_shards` must be between 1 and {MOST_SHARDS:,}, not {n:,}.")
    only_files = all(files_of(source) for source in sources)
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    # A stream has no size or date to recognise it by, so its plan is random, and no later run continues it.
    plan = key_of(json.dumps([states, columns, n, memory], default=str)) if only_files else secrets.token_hex(32)
    folder = Path(out)
    if done := _finished(folder, plan):
        return done
    kept = Cache(folder / UNFINISHED, tidy=True)
    made = _begun(folder, kept, plan)
    try:
        with _system_memory():
            manifest = _written(Log(*sources, batch_rows=2**15, **columns), folder, kept, plan, n, memory)
    except FileNotFoundError:
        if done := _finished(folder, plan):  # another run of the same call has cleared away the spills
            return done
        raise
    except (ValueError, TypeError):  # the rows are wrong, so no later run could finish this one
        for path in folder.glob("shard-*.parquet"):
            path.unlink()
        kept.clear()
        if made:  # a folder or a link that was there before stays
            folder.rmdir()
        raise
    # The manifest comes before the spills go: a run that is killed between the two is finished already.
    replace_file(folder / MANIFEST, json.dumps({"plan": plan, **manifest}, indent=1))
    kept.clear()
    return _finished(folder, plan)


@contextmanager
def _system_memory() -> Iterator[None]:
    """Use the system's allocator: Arrow's own spends a quarter of all the time on returning and fetching pages."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _finished(folder: Path, plan: str) -> dict[str, Any]:
    """The manifest of this plan, if its shards are complete; else nothing."""
    path = folder / MANIFEST
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return dict(json.loads(text)) if f'"plan": "{plan}"' in text else {}


def _begun(folder: Path, kept: Cache, plan: str) -> bool:
    """Take a folder that is new, empty or of the same plan, and refuse any other; return whether it was made here."""
    if kept.get(plan) is not None:
        return False
    if any(path.suffix != ".tmp" for path in kept.entries()):
        raise ValueError(f"{folder} holds unfinished shards of other sources or settings: remove it, or name another.")
    # A run that was stopped before it wrote its plan may have left entries, which are no files of the user.
    ours = set() if kept.folder is None or kept.folder.is_symlink() else {kept.folder, *kept.entries()}
    if any(path not in ours for path in folder.rglob("*")):
        raise ValueError(f"{folder} is not empty: name a new folder for the shards.")
    made = not folder.exists()
    kept.put(plan, "begun")
    return made


def _written(log: Log, folder: Path, kept: Cache, plan: str, n: int, memory: int) -> dict[str, Any]:
    """Write the shards that are missing, and return the manifest of all."""
    log.schema = log.schema.keeping_texts()
    spills = _spilled(log, kept, plan, n, memory)
    kinds = reading.common([_opened(spill).schema for spill in spills])  # so that all shards have the same types
    schema = _written_as(log.schema, spills, n)
    # `prepare(new, like=folder)` reads these notes.
    names = {} if log.action_names is None else {"action_names": log.action_names}
    notes = names | ({"learnt": {**log.learnt, **names}} if log.learnt else {})
    entries = []
    for k in track(range(n), "writing shards"):
        key = key_of(plan, "shard", k)
        entry = kept.get(key)
        if entry is None:
            path, groups = folder / f"shard-{k:05d}.parquet", _groups(spills, k, n)
            entry = _merged(path, groups, k, schema, kinds, notes)
            kept.put(key, entry)
        entries += entry
    roles = {role: value for role, value in asdict(schema).items() if role not in ("kept", "ignored")}
    counts = {what: sum(entry[what] for entry in entries) for what in ("rows", "episodes")}
    return {**counts, "columns": roles, "shards": entries}


def _spilled(log: Log, kept: Cache, plan: str, n: int, memory: int) -> list[Path]:
    """Write all rows to files of n record batches, the k-th for the k-th shard; keep the spills that are there."""
    spills: list[Path] = []
    for tables in portions(_with_ids(track(log, "reading")), lambda table: int(table.nbytes), memory):
        spills.append(kept.file(key_of(plan, "spill", len(spills)), ".arrow"))
        if not spills[-1].exists():
            replace_file(spills[-1], partial(_write_grouped, tables, n), tidy=False)
    return spills


def _with_ids(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables with ids of their episodes; where the log has none, episodes are numbered as they end."""
    number = 0
    for table in tables:
        if "episode" not in table.column_names:
            ended = np.cumsum(reading.over(table))
            table = table.append_column("episode", pa.array(number + np.append(0, ended[:-1])))
            number += int(ended[-1])
        yield table


def _write_grouped(tables: list[pa.Table], n: int, sink: Any) -> None:
    """Write an Arrow file: first the rows of every table for the first shard, then for the second, and so on.

    Each table is grouped alone, while it is in the processor's cache.
    """
    batches = reading.joined(tables).to_batches()
    tables.clear()
    grouped = []
    while batches:
        table = pa.Table.from_batches([batches.pop(0)])  # popped, so that its memory is free once it is grouped
        part = parts_between(ranges(n), hashes(table))
        (rows,) = table.take(pa.array(np.argsort(part, kind="stable"))).combine_chunks().to_batches()
        grouped.append((rows, np.append(0, np.cumsum(np.bincount(part, minlength=n)))))
    with pa.ipc.new_file(sink, grouped[0][0].schema) as writer:
        for k in range(n):
            for rows, ends in grouped:
                writer.write_batch(rows.slice(ends[k], ends[k + 1] - ends[k]))


def _opened(spill: Path) -> Any:
    return pa.ipc.open_file(pa.memory_map(os.fsencode(spill)))


def _groups(spills: Sequence[Path], k: int, n: int) -> list[pa.Table]:
    """The k-th of n groups of every spill, memory-mapped from the files; empty ones are left out."""
    found: list[pa.Table] = []
    for file in map(_opened, spills):
        size = file.num_record_batches // n
        found.append(pa.Table.from_batches([file.get_batch(i) for i in range(k * size, (k + 1) * size)]))
    return [table for table in found if len(table)]


def _written_as(schema: Schema, spills: Sequence[Path], n: int) -> Schema:
    """The schema of the shards: that of the source, with ids; all sparse rows get the width of the widest."""
    free = next(name for name in ("episode", "trajectory", "episode_id") if name not in schema.used())
    schema = replace(schema, episode=schema.episode or free)
    if schema.indices is None or schema.n_features or schema.buckets:
        return schema
    tables = (table for k in range(n) for table in _groups(spills, k, n))
    lists = (table.column(role) for table in tables for role in table.column_names if role.endswith("indices"))
    return replace(schema, n_features=1 + max(pc.max(pc.list_flatten(column)).as_py() or 0 for column in lists))


def _merged(
    path: Path, groups: list[pa.Table], k: int, schema: Schema, kinds: pa.Schema, notes: dict[str, Any]
) -> list[dict[str, Any]]:
    """Write the k-th shard, episodes in the order of their hashes, and return its entry in the manifest.

    There is no entry if the shard has no rows.
    """
    if not groups:
        return []
    table = reading.stacked(groups)
    number, ids = reading.codes(table)
    place = np.argsort(np.argsort(hashed(ids.to_numpy(zero_copy_only=False)), kind="stable"))
    try:
        table, _ = reading.by_number(table, place[number], schema)
        start = reading.whole_episodes(table)
    except ValueError as error:
        raise ValueError(f"{error} Rows are counted as sorted, in shard {k}.") from None
    known = np.logical_or.reduceat(reading.with_successors(table, start, schema), np.flatnonzero(start))
    if not known.all():  # an episode of one row that did not end holds no transition
        table = table.filter(known[np.cumsum(start) - 1])
    if not len(table):
        return []
    _write(path, table, schema, kinds, notes)
    counts = {"rows": len(table), "episodes": int(known.sum())}
    return [{"file": path.name, **counts, "bytes": path.stat().st_size, "sha256": digest_of(path)}]


def _write(path: Path, table: pa.Table, schema: Schema, kinds: pa.Schema, notes: dict[str, Any]) -> None:
    columns: dict[str, Any] = {}
    for kind in kinds:
        name = source_name(schema, kind.name)
        if name is not None:  # a column that is observed and also a group is written once, as observed
            plain = pa.string() if kind.type == TEXTS else kind.type
            columns.setdefault(name, table.column(kind.name).cast(plain))
    # Dictionaries pay for texts, which repeat; for numbers they cost time and save nothing. Nobody asks for statistics.
    texts = [name for name, column in columns.items() if pa.types.is_string(column.type)]
    write_parquet(path, columns, notes, use_dictionary=texts or False, compression="lz4", write_statistics=False)


@dataclass(frozen=True, eq=False)
class Shard:
    """Hold a part of a log, whole episodes in memory or in a file, which is read when it is needed.

    Examples
    --------
    >>> from sparsetd.logs import Shard, read
    >>> columns = {"episode": ["a", "a", "b"], "obs_x": [1.0, 2.0, 5.0], "reward": [0.0, 1.0, 3.0]}
    >>> columns["terminated"] = [False, True, True]
    >>> shard = Shard(read(columns))
    >>> shard.read()
    Transitions(3 rows, 2 episodes, 1 observed columns, 2 terminated, 0 truncated)
    >>> shard.ids().tolist()
    ['a', 'b']
    """

    log: Transitions | None = None
    path: str = ""
    digest: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    listed: bool = False  # in a manifest: `sparsetd shard` wrote whole, sorted episodes
    part: tuple[Array, int] | None = None  # where the parts of a log begin (see `partition`), and which this is

    def read(self, sparse: bool = False) -> Transitions:
        log = read(self.path, **self.columns) if self.log is None else self.log
        log = (log if sparse else dense(log)).with_codes()
        return log if self.part is None else log[np.isin(log.episode, log.episode[log.start][self._mine(log.ids())])]

    def _mine(self, ids: Array) -> Array:
        """A mask of the episodes that belong to the part."""
        assert self.part is not None
        begins, k = self.part
        return np.asarray(parts_between(begins, hashed(ids, "part")) == k)

    def ids(self) -> Array:
        """The ids of the episodes; for a shard with a manifest, only that column is read."""
        if not self.listed:
            return self.read(sparse=True).ids()
        ids = _ids_in(Path(self.path), self.columns["episode"])
        return ids if self.part is None else ids[self._mine(ids)]


def dense(log: Transitions) -> Transitions:
    """The log with dense rows; sparse rows of more than `DENSE` columns are refused."""
    if not sp.issparse(log.observation):
        return log
    if log.observation.shape[1] > DENSE:
        many = f"The log has sparse rows of more than {DENSE:,} columns, and this needs all pairs of them"
        fold = "fold them with `read(log, buckets=512)`, or `shards(folder, buckets=512)` of a folder (--buckets 512)"
        raise ValueError(f"{many}: {fold}. To learn row by row, take them as they are from `read_batches(log)`.")
    rows: tuple[Any, Any] = (log.observation, log.next_observation)
    s, after = (some.toarray() for some in rows)
    return replace(log, observation=s, next_observation=after)


def _read_columns(path: Path, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Pieces of some columns of a Parquet file, each with its name."""
    for raw in open_parquet(path).batches(names, BATCH, ()):
        yield from raw.items()


def _ids_in(path: Path, name: str) -> Array:
    """The ids of a Parquet file, with repeats in neighbouring rows dropped."""
    parts = [ids_of(name, column, len(column)) for _, column in _read_columns(path, [name])]
    ids = np.concatenate([array_of(name, part) for part in parts])
    return np.asarray(ids[np.append(True, ids[1:] != ids[:-1])])


def shards(source: Any, **columns: Any) -> tuple[Shard, ...]:
    """Divide a log into parts of whole episodes that are read when needed, for logs larger than memory.

    The names of the files alone decide the order of the parts.

    Parameters
    ----------
    source : Transitions, shards, or any source of `read`
        A folder with a manifest, or a folder or pattern ("log/*.parquet") of Parquet files with a column of episodes,
        is read file by file whenever it is needed; any other path is one part. Everything else is kept in memory.
    **columns
        Names of columns by role, as in `read`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sparsetd.logs import shards
    >>> from sparsetd.logs.sharding import shard
    >>> columns = {"episode": np.arange(50), "obs_x": np.ones(50), "reward": np.ones(50)}
    >>> columns["terminated"] = np.ones(50, dtype=bool)
    >>> folder = tempfile.TemporaryDirectory()
    >>> manifest = shard([columns], folder.name + "/log", n_shards=2)
    >>> parts = shards(folder.name + "/log")
    >>> len(parts), sum(len(part.read()) for part in parts)
    (2, 50)
    >>> folder.cleanup()
    """
    if isinstance(source, Transitions):
        return (Shard(source),)
    if isinstance(source, (list, tuple)) and source and all(isinstance(part, Shard) for part in source):
        return tuple(source)
    files = files_of(source)
    if files and Path(source, MANIFEST).is_file():
        return _listed(Path(source), columns)
    if len(files) > 1 and all(file.suffix.lower() in PARQUET for file in files):
        surveyed = _surveyed(files, columns)
        if surveyed is not None:
            return surveyed
    return (Shard(None, str(source), "", columns),) if files else (Shard(read(source, **columns)),)


def part_of(parts: Sequence[Shard], k: int, n: int) -> tuple[Shard, ...]:
    """The k-th of n parts of the episodes: the same episodes that `Transitions.part` of the whole log gives."""
    if len(parts) == 1:
        return (Shard(parts[0].read(sparse=True).part(k, n)),)
    hashes = [hashed(shard.ids(), "part") for shard in parts]
    begins = cuts(np.concatenate(hashes), n)
    mine = [replace(shard, part=(begins, k - 1)) for shard in parts]
    return tuple(s for s, own in zip(mine, hashes, strict=True) if (parts_between(begins, own) == k - 1).any())


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listed(folder: Path, columns: Mapping[str, Any]) -> tuple[Shard, ...]:
    """The shards of a manifest; files that it does not describe exactly are refused."""
    manifest = manifest_of(folder)
    roles, entries = {**manifest["columns"], **columns}, manifest["shards"]
    with ThreadPoolExecutor() as pool:  # hashing does not hold Python's lock
        digests = list(pool.map(lambda entry: digest_of(folder / entry["file"]), entries))
    for entry, digest in zip(entries, digests, strict=True):
        if digest != entry["sha256"]:
            raise ValueError(f"The shard {entry['file']} has changed since its manifest was written: {REMEDY}.")
    return tuple(Shard(None, str(folder / e["file"]), e["sha256"], roles, listed=True) for e in entries)


def _surveyed(files: Sequence[Path], columns: Mapping[str, Any]) -> tuple[Shard, ...] | None:
    """The files as shards, or None if they have no column of episodes; an episode in two files is refused."""
    first, hashes, widths = None, [], list[int]()
    for file in files:
        found = footer_of(file).schema.to_arrow_schema()
        schema = infer_schema(found.names, **columns)
        if schema.episode is None:
            return None
        if first is not None and not found.equals(first):
            raise ValueError(f"The shard {file.name} has other columns or types than {files[0].name}: {REMEDY}.")
        first = found
        hashes.append(np.unique(hashed(_ids_in(file, schema.episode))))
        if schema.indices is not None and not (schema.n_features or schema.buckets):
            lists = _read_columns(file, [name for name in (schema.indices, schema.next_indices) if name])
            widths.append(1 + max(int(lists_of(name, column, "iu")[1].max(initial=0)) for name, column in lists))
    every, of = np.concatenate(hashes), np.repeat(np.arange(len(files)), [len(part) for part in hashes])
    order = np.argsort(every, kind="stable")
    same = np.flatnonzero(np.diff(every[order]) == 0)
    if len(same):
        one, other = (files[of[order[i]]].name for i in (same[0], same[0] + 1))
        raise ValueError(f"{other} holds an episode that {one} holds too: run `sparsetd shard` on these files first.")
    roles = {**columns, "n_features": max(widths)} if widths else dict(columns)
    names, codes = joined_actions({file: notes_of(file).get("action_names") for file in files})
    if codes:
        roles["action_names"] = names
    return tuple(Shard(None, str(file), digest_of(file), roles) for file in files)
