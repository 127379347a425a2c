"""`shard`: rows in any order and of any number become files of whole, sorted episodes.

    1. read      checked rows, as many as `memory` holds, go to one spill file, grouped by shard = ⌊n · hash(episode)⌋
    2. merge     the k-th group of every spill is the k-th shard: episodes in the order of their hashes, rows by step

Neither the order of the rows nor that of the files matters, unless the log has no steps: then rows of an episode keep
theirs. Every file is put in place whole, so a run that was killed continues with what is missing, and the bytes of the
shards are the same.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd._tools.progress import track
from sparsetd.logs.arrow import columns_of, require_pyarrow
from sparsetd.logs.assemble import Rows, check_rows, in_order, stack, starts, with_successors
from sparsetd.logs.checks import reason
from sparsetd.logs.columns import refuse_rows_after_the_end
from sparsetd.logs.partition import hashed, parts_between, ranges
from sparsetd.logs.parts import Parts
from sparsetd.logs.schema import Schema
from sparsetd.logs.shards import UNFINISHED, digest_of
from sparsetd.logs.sources import MANIFEST, chunks, files_of
from sparsetd.storage.atomic import replace_file
from sparsetd.system import Array

__all__ = ["shard"]

SHARD_BYTES = 64 * 2**20  # of the sources, for each shard


def shard(
    sources: Sequence[Any], out: str | Path, *, n_shards: int | None = None, memory: int = 2**28, **columns: Any
) -> dict[str, Any]:
    """Write the rows of `sources` to `out` as Parquet shards of whole, sorted episodes; the manifest is returned.

    Parameters
    ----------
    sources : sequence
        What `read` takes; files, folders and patterns may be larger than memory.
    out : path
        A new folder, or that of the same call that was interrupted.
    n_shards : int, optional
        One for every 64 MiB of the sources by default.
    memory : int
        Bytes of rows that are sorted at a time.
    **columns
        Names of columns by role, as in `read`.
    """
    files = [file for source in sources for file in files_of(source)]
    n = n_shards or max(1, sum(file.stat().st_size for file in files) // SHARD_BYTES)
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    plan = hashlib.sha256(json.dumps([states, columns, n, memory], default=str).encode()).hexdigest()
    folder = Path(out)
    if not _is_done(folder, plan):
        try:
            manifest = _written(sources, folder, n, memory, columns)
        except (ValueError, TypeError, require_pyarrow().ArrowException) as error:
            shutil.rmtree(folder)  # a run with these rows can never be finished
            if isinstance(error, require_pyarrow().ArrowException):
                raise ValueError(f"The sources are not one table ({reason(error)}): write all parts alike.") from None
            raise
        replace_file(folder / MANIFEST, json.dumps({"plan": plan, **manifest}, indent=1))
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))


def _is_done(folder: Path, plan: str) -> bool:
    """Whether the shards of this plan are complete; if not, the folder is new, or that of the same plan."""
    manifest, started = folder / MANIFEST, folder / UNFINISHED / "plan"
    if manifest.exists() and f'"plan": "{plan}"' in manifest.read_text(encoding="utf-8"):
        return True
    if started.exists() and started.read_text(encoding="utf-8") != plan:
        raise ValueError(f"{folder} holds unfinished shards of other sources or settings: remove it, or name another.")
    if not started.exists():
        if folder.exists() and any(file.name != UNFINISHED for file in folder.iterdir()):
            raise ValueError(f"{folder} is not empty: name a new folder for the shards.")
        started.parent.mkdir(parents=True, exist_ok=True)
        replace_file(started, plan)
    return False


def _written(sources: Sequence[Any], folder: Path, n: int, memory: int, columns: dict[str, Any]) -> dict[str, Any]:
    """Write what is missing of the shards; their manifest."""
    spills, schema = _spilled(sources, folder / UNFINISHED, n, memory, columns)
    entries = []
    for k in track(range(n), "writing shards"):
        entries += _merged(folder, spills, k, schema)
    roles = {role: value for role, value in asdict(schema).items() if role != "ignored"}
    counts = {what: sum(entry[what] for entry in entries) for what in ("rows", "episodes")}
    return {**counts, "columns": roles, "shards": entries}


def _spilled(
    sources: Sequence[Any], work: Path, n: int, memory: int, columns: dict[str, Any]
) -> tuple[list[Path], Schema]:
    """All rows in files of n record batches, the k-th for the k-th shard; a spill that is there is kept."""
    parts = Parts(chain.from_iterable(chunks(source) for source in sources), columns)
    schema, spills = parts.schema, list[Path]()
    for rows in _portions(_with_ids(track(parts, "reading")), memory):
        if not spills:
            schema = _written_as(schema, rows)
        spills.append(work / f"spill-{len(spills):05d}.arrow")
        if not spills[-1].exists():
            replace_file(spills[-1], _grouped(rows, schema, n))
    return spills, schema


def _with_ids(parts: Iterable[Rows]) -> Iterator[Rows]:
    """The parts with the ids of their episodes; without a column of them they are numbered as they end."""
    number = 0
    for rows in parts:
        over = np.cumsum(rows.terminated | rows.truncated)
        yield rows if rows.episode is not None else replace(rows, episode=number + np.append(0, over[:-1]))
        number += int(over[-1])


def _portions(parts: Iterator[Rows], memory: int) -> Iterator[Rows]:
    pending: list[Rows] = []
    for rows in parts:
        pending.append(rows)
        if sum(part.nbytes() for part in pending) >= memory:
            yield stack(pending)
            pending = []
    if pending:
        yield stack(pending)


def _written_as(schema: Schema, rows: Rows) -> Schema:
    """The columns of the shards: those of the source, with ids; what was several lists is one."""
    free = next(name for name in ("episode", "trajectory", "episode_id") if name not in schema.used())
    given: dict[str, Any] = {"episode": schema.episode or free}
    for role in ("observation", "next_observation", "action"):
        names, values = getattr(schema, role), getattr(rows, role)
        given[role] = names if values is None or len(names) == _width(values) else names[:1]
    return replace(schema, **given)


def _width(values: Array) -> int:
    return 1 if values.ndim == 1 else values.shape[1]


def _grouped(rows: Rows, schema: Schema, n: int) -> bytes:
    """An Arrow file with the rows of each shard in one record batch."""
    pa = require_pyarrow()
    part = parts_between(ranges(n), _hashes(rows))
    batch = _batch(rows[np.argsort(part, kind="stable")], schema)
    ends = np.cumsum(np.bincount(part, minlength=n))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            writer.write_batch(batch.slice(begin, end - begin))
    return bytes(sink.getvalue())


def _hashes(rows: Rows) -> Array:
    """The hash of each row's episode, computed once per run of equal ids."""
    ids = np.asarray(rows.episode)
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    return np.repeat(hashed(ids[first]), np.diff(first, append=len(ids)))


def _batch(rows: Rows, schema: Schema) -> Any:
    """The rows as an Arrow record batch with the columns of the schema."""
    pa = require_pyarrow()
    columns: dict[str, Any] = {}
    for role, values in vars(rows).items():
        names = getattr(schema, role)
        names = (names,) if isinstance(names, str) else names or ()
        if values is not None and len(names) == _width(values):
            columns |= dict(zip(names, values.reshape(len(rows), -1).T, strict=True))
        elif values is not None and names:
            columns[names[0]] = pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])
    return pa.record_batch(columns)


def _merged(folder: Path, spills: Sequence[Path], k: int, schema: Schema) -> list[dict[str, Any]]:
    """Write the k-th shard unless it is there; its entry in the manifest (none where it has no rows)."""
    path, note = folder / f"shard-{k:05d}.parquet", folder / UNFINISHED / f"shard-{k:05d}.json"
    if not note.exists():
        rows = _sorted(spills, k, schema)
        entry = []
        if rows is not None:
            replace_file(path, _parquet(rows, schema, spills))
            found = {"bytes": path.stat().st_size, "sha256": digest_of(path)}
            entry = [{"file": path.name, "rows": len(rows), "episodes": int(starts(rows).sum()), **found}]
        replace_file(note, json.dumps(entry))
    return list(json.loads(note.read_text(encoding="utf-8")))


def _sorted(spills: Sequence[Path], k: int, schema: Schema) -> Rows | None:
    pa = require_pyarrow()
    batches = [pa.ipc.open_file(pa.memory_map(str(spill))).get_batch(k) for spill in spills]
    parts = [check_rows(columns_of(batch), schema) for batch in batches if batch.num_rows]
    if not parts:
        return None
    rows = stack(parts)
    try:
        rows, _ = in_order(rows[np.argsort(_hashes(rows), kind="stable")], schema)
        start = starts(rows)
        refuse_rows_after_the_end(rows.terminated | rows.truncated, np.cumsum(start))
    except ValueError as error:
        raise ValueError(f"{error} Rows are counted as sorted, in shard {k}.") from None
    known = np.logical_or.reduceat(with_successors(rows, start)[1], np.flatnonzero(start))
    kept = known[np.cumsum(start) - 1]  # an episode of one row that did not end says nothing
    return rows[kept] if kept.any() else None


def _parquet(rows: Rows, schema: Schema, spills: Sequence[Path]) -> bytes:
    """A Parquet file; whole numbers in one spill and others in the next are of one type in all shards."""
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    kinds = pa.unify_schemas(
        [pa.ipc.open_file(pa.memory_map(str(s))).schema for s in spills], promote_options="permissive"
    )
    texts = [field.name for field in kinds if not pa.types.is_primitive(field.type)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([_batch(rows, schema)]).cast(kinds), sink, use_dictionary=texts)
    return bytes(sink.getvalue())
