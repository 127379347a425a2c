"""`shards`: a log as parts of whole episodes, each small enough for memory. A log in memory is one such part.

A folder made by `sparsetd shard` has a manifest: the roles of the columns, and for every file its rows, episodes, size
and SHA-256. All of it is checked before any work. Parquet files without a manifest are surveyed instead: they must
have the same columns, and no two of them may share an episode.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.arrays import array_of, ids_of, lists_of
from sparsetd.logs.checks import Array
from sparsetd.logs.door import BATCH, MANIFEST, files_of, manifest_of
from sparsetd.logs.files import PARQUET, action_names, footer_of, open_parquet
from sparsetd.logs.partition import cuts, hashed, parts_between
from sparsetd.logs.reading import read
from sparsetd.logs.schema import infer_schema, joined_names
from sparsetd.logs.transitions import Transitions

UNFINISHED = "unfinished"
DENSE = 2_048  # columns of sparse rows that are still few
FEW = (
    f"The log has sparse rows of more than {DENSE:,} columns, and this needs all pairs of them: fold them, for example "
    "with `buckets=512` (--buckets 512 on the command line)."
)
REMEDY = "restore it, or run `sparsetd shard` again"


@dataclass(frozen=True, eq=False)
class Shard:
    """Hold whole episodes: a log in memory, or a file with the roles of its columns and its SHA-256.

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
    part: tuple[Array, int] | None = None  # where the parts of a log begin (see `partition`), and which of them it is

    def read(self, sparse: bool = False) -> Transitions:
        log = read(self.path, **self.columns) if self.log is None else self.log
        log = log if sparse else dense(log)
        return log if self.part is None else log[np.isin(log.episode, log.episode[log.start][self._mine(log.ids())])]

    def _mine(self, ids: Array) -> Array:
        """Return which episodes belong to the part."""
        assert self.part is not None
        begins, k = self.part
        return np.asarray(parts_between(begins, hashed(ids, "part")) == k)

    def ids(self) -> Array:
        """The ids of the episodes; of a shard that a manifest describes, from that column alone."""
        if not self.listed:
            return self.read(sparse=True).ids()
        ids = _ids_in(Path(self.path), self.columns["episode"])
        ids = ids[np.append(True, ids[1:] != ids[:-1])]
        return ids if self.part is None else ids[self._mine(ids)]


def dense(log: Transitions) -> Transitions:
    """The log with dense rows, which sparse ones of few columns become."""
    if not sp.issparse(log.observation):
        return log
    if log.observation.shape[1] > DENSE:
        raise ValueError(FEW)
    rows: tuple[Any, Any] = (log.observation, log.next_observation)
    s, after = (some.toarray() for some in rows)
    return replace(log, observation=s, next_observation=after)


def _ids_in(path: Path, name: str) -> Array:
    """The column of ids of a Parquet file."""
    opened = open_parquet(path)
    parts = [ids_of(name, raw[name], len(raw[name])) for raw in opened.batches([name], BATCH, ())]
    return np.concatenate([array_of(name, part) for part in parts])


def _width_of(path: Path, names: Sequence[str]) -> int:
    """Columns that the sparse rows of a Parquet file need: one more than their largest index."""
    batches = open_parquet(path).batches(names, BATCH, ())
    return 1 + max(int(lists_of(name, raw[name], "iu")[1].max(initial=0)) for raw in batches for name in names)


def shards(source: Any, **columns: Any) -> tuple[Shard, ...]:
    """Divide a log into parts of whole episodes that are read when needed, for logs larger than memory.

    Only the files' names decide the order of the parts.

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
        return _listed(Path(source), files, columns)
    if any(Path(file.parent, UNFINISHED).is_dir() for file in files):
        raise ValueError(f"{source} holds unfinished shards: run the same `sparsetd shard` again to complete them.")
    if len(files) > 1 and all(file.suffix.lower() in PARQUET for file in files):
        surveyed = _surveyed(files, columns)
        if surveyed is not None:
            return surveyed
    return (Shard(None, str(source), "", columns),) if files else (Shard(read(source, **columns)),)


def part_of(parts: Sequence[Shard], k: int, n: int) -> tuple[Shard, ...]:
    """The k-th of n parts of the episodes of all shards, as `Transitions.part` of the whole log has it."""
    if len(parts) == 1:
        return (Shard(parts[0].read(sparse=True).part(k, n)),)
    hashes = [hashed(shard.ids(), "part") for shard in parts]
    begins = cuts(np.concatenate(hashes), n)
    mine = [replace(shard, part=(begins, k - 1)) for shard in parts]
    return tuple(s for s, own in zip(mine, hashes, strict=True) if (parts_between(begins, own) == k - 1).any())


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listed(folder: Path, files: Sequence[Path], columns: Mapping[str, Any]) -> tuple[Shard, ...]:
    """The shards of a manifest, which are what it says and all there is."""
    manifest = manifest_of(folder)
    roles, entries = {**manifest["columns"], **columns}, manifest["shards"]
    try:
        if not all(re.fullmatch(r"[\w.-]+", entry["file"], re.ASCII) for entry in entries):
            raise TypeError("not the name of a file beside it")
        if len({entry["file"] for entry in entries}) < len(entries):
            raise TypeError("a shard is named twice")
        with ThreadPoolExecutor() as pool:  # a digest is taken without Python's lock
            paths = list(pool.map(lambda entry: _unchanged(folder / entry["file"], entry), entries))
    except (KeyError, TypeError):
        raise ValueError(f"{folder / MANIFEST} is not a manifest of shards: {REMEDY}.") from None
    stray = sorted({file.name for file in files} - {path.name for path in paths})
    if stray or not paths:
        what = f"{stray[0]} is not in it" if stray else "it lists no shard"
        raise ValueError(f"{folder / MANIFEST} does not describe its folder ({what}): {REMEDY}.")
    return tuple(
        Shard(None, str(path), e["sha256"], roles, listed=True) for path, e in zip(paths, entries, strict=True)
    )


def _unchanged(path: Path, entry: Mapping[str, Any]) -> Path:
    if not path.is_file():
        raise ValueError(f"The shard {path.name} is in the manifest but not in {path.parent}: {REMEDY}.")
    if path.stat().st_size != entry["bytes"]:
        size = f"{path.stat().st_size:,} bytes instead of {entry['bytes']:,}"
        raise ValueError(f"The shard {path.name} was cut short or replaced ({size}): {REMEDY}.")
    if digest_of(path) != entry["sha256"]:
        raise ValueError(f"The shard {path.name} has changed since its manifest was written: {REMEDY}.")
    return path


def _surveyed(files: Sequence[Path], columns: Mapping[str, Any]) -> tuple[Shard, ...] | None:
    """The files as shards, if they have a column of episodes and none is in two files."""
    first, hashes, widths = None, [], list[int]()
    for file in files:
        found = footer_of(file).schema.to_arrow_schema()
        schema = infer_schema(found.names, **columns)
        if schema.episode is None:
            return None
        if first is not None and not found.equals(first):
            raise ValueError(f"The shard {file.name} has other columns or types than {files[0].name}: {REMEDY}.")
        first = found
        hashes.append(_distinct(_ids_in(file, schema.episode)))
        if schema.indices is not None and not (schema.n_features or schema.buckets):
            widths.append(_width_of(file, [name for name in (schema.indices, schema.next_indices) if name]))
    _refuse_shared(files, hashes)
    roles = {**columns, "n_features": max(widths)} if widths else dict(columns)
    names = [found for file in files if (found := action_names(file)) is not None]
    if len(set(names)) > 1:
        roles["action_names"] = joined_names(names)
    return tuple(Shard(None, str(file), digest_of(file), roles) for file in files)


def _distinct(ids: Array) -> Array:
    return np.unique(hashed(ids[np.append(True, ids[1:] != ids[:-1])]))


def _refuse_shared(files: Sequence[Path], hashes: Sequence[Array]) -> None:
    every, of = np.concatenate(hashes), np.repeat(np.arange(len(files)), [len(part) for part in hashes])
    order = np.argsort(every, kind="stable")
    same = np.flatnonzero(np.diff(every[order]) == 0)
    if len(same):
        one, other = (files[of[order[i]]].name for i in (same[0], same[0] + 1))
        raise ValueError(f"{other} holds an episode that {one} holds too: run `sparsetd shard` on these files first.")
