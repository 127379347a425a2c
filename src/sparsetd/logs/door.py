"""Open any source of rows: files, folders and patterns, frames, SQL, mappings of arrays and Minari datasets.

A source is opened first, to learn its columns. Then only the columns with a role are read, as Arrow where the source
speaks Arrow, else as arrays. Their rows are checked and leave this module as Arrow tables, from which `reading` makes
`Transitions`.

The columns of these tables are called by their roles, with a number where a role has several ("observation 3"). Numbers
are int64, float32 or float64 without nulls, flags are booleans, ids are integers or a dictionary of texts, and sparse
rows are lists of int32 and float64. Rows are checked here and nowhere else, in the order of the source, so that an
error names the columns and rows of the source. Afterwards Arrow alone joins, takes, slices, spills and writes them.
"""

from __future__ import annotations

import glob
import json
import re
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from sparsetd.logs import checks, files
from sparsetd.logs.checks import MOST, Array, counted_from, csr_of, explained, ids_of, lists_of, nth, show
from sparsetd.logs.environments import open_minari
from sparsetd.logs.files import Opened, Raw
from sparsetd.logs.schema import SIZES, WIDEST, Schema, check_names, infer_schema, joined_actions, listed
from sparsetd.logs.text import open_csv, open_jsonl, typed
from sparsetd.storage.cache import Cache
from sparsetd.storage.container import distinct

MAX_BYTES = MOST
TOLD = 6  # problems of a table that are listed, one sentence each
BATCH = 65_536  # rows that are read at a time
HEAD = 2**16  # bytes of a text from which its number of lines is estimated

MANIFEST = "manifest.json"
REMEDY = "restore it, or run `sparsetd shard` again"
UNFINISHED = "unfinished"  # the folder in which `shard` keeps what it has not finished
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}

FILES: dict[str, Callable[[Path], Opened]] = {
    **dict.fromkeys(files.PARQUET, files.open_parquet),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), files.open_ipc),
    **dict.fromkeys((".csv", ".tsv", ".txt"), open_csv),
    **dict.fromkeys((".jsonl", ".ndjson"), open_jsonl),
}


class Log:
    """The checked rows of one or several sources, table by table; the first source decides which column has which role.

    Files that were prepared one by one may give the same action other codes. `action_names` therefore holds the names
    of all sources, which number the actions anew, unless the caller passes a numbering. `learnt` is what `prepare`
    learnt, if all sources were prepared alike. `earlier` has the roles of an earlier log: columns that are here too
    keep them.
    """

    def __init__(self, *sources: Any, batch_rows: int = BATCH, max_bytes: int = MAX_BYTES, **columns: Any) -> None:
        sql, wanted, earlier = (columns.pop(name, None) for name in ("sql", "action_names", "earlier"))
        self.parts = parts_of(sources if sql is None else [f"sqlite:{path}?sql={sql}" for path in sources], max_bytes)
        self.batch_rows = batch_rows
        self.n_rows = 0  # in all tables so far
        self.said: list[str] = []  # about files that were not read as usual
        self.begins: list[tuple[int, str]] = []  # the first row of every file so far, if there are several
        self._first = self.parts[0][1]()
        try:
            known = {role: named for role, named in (earlier or {}).items() if role in SIZES or self._first.has(named)}
            self.given = known | columns
            self.schema = infer_schema(self._first.names, **self.given)
        except BaseException:
            self._first.close()  # a database would wait for the end of its result
            raise
        paths = [path for path, _ in self.parts]
        # A file is called by its name in errors, or by its path where two have the same name.
        apart = len({path.name for path in paths if path is not None}) == len(paths)
        self.names = [str(path.name if path and apart else path or f"part {i}") for i, path in enumerate(paths)]
        notes = [self._first.notes, *(files.notes_of(path) if path else {} for path in paths[1:])]
        named = {path: some.get("action_names") for path, some in zip(paths, notes, strict=True)}
        self.action_names, self._codes = joined_actions(named, wanted)
        learnt = [some.get("learnt") or {} for some in notes]
        alike = all(some.get("columns") == learnt[0].get("columns") for some in learnt)
        self.learnt: dict[str, Any] = dict(learnt[0]) if alike else {}

    def _refuse_other_columns(self, i: int, names: Sequence[str]) -> None:
        """Refuse a part that lacks a column of the first one, or whose own columns would have further roles."""
        lacks = set(self.schema.used()) - set(names)
        adds = set() if lacks else set(infer_schema(names, **self.given).used()) - set(self._first.names)
        if lacks or adds:
            short, other = (self.names[k] for k in ((i, 0) if lacks else (0, i)))
            columns = listed(sorted(lacks or adds))
            raise ValueError(f"{short} lacks {columns}, which {other} has: give all parts the same columns.")

    def __iter__(self) -> Generator[pa.Table]:
        first: pa.Table | None = None
        for i, (path, open_part) in enumerate(self.parts):
            opened = open_part() if i else self._first
            self._refuse_other_columns(i, opened.names)
            self.said += filter(None, [opened.notes.get("said")])
            self.begins.append((self.n_rows, self.names[i]))
            with closing(opened.batches(self.schema.used(), self.batch_rows, self.schema.texts())) as batches:
                while True:
                    with counted_from(self.begins[-1][0], self.begins):  # errors name the row in its file
                        raw = next(batches, None)
                    if raw is None:
                        break
                    with counted_from(self.n_rows, self.begins):
                        table = self._with_codes(checked(raw, self.schema), path)
                        first = table.slice(0, 1) if first is None else first
                        _refuse_another_width(table, first, self.schema)
                    self.n_rows += len(table)
                    yield table
        if first is None:
            raise ValueError(f"`{self.schema.observed}` has no rows: the source is empty.")

    def _with_codes(self, table: pa.Table, path: Path | None) -> pa.Table:
        """Give the actions of a file the codes that they have in all files together."""
        code = self._codes.get(path)
        if code is None or "action 0" not in table.column_names:
            return table
        own = table.column("action 0").to_numpy()
        if own.dtype.kind != "i" or own.min() < 0 or own.max() >= len(code):
            raise ValueError(f"`{self.schema.action[0]}` has an action that {path} does not name: prepare it again.")
        place = table.column_names.index("action 0")
        return table.set_column(place, "action 0", pa.array(code[own]))


def checked(raw: Raw, schema: Schema, told: int = TOLD) -> pa.Table:
    """Check every column that the schema names, and report every wrong one with its first bad row and a remedy."""
    n = checks.n_rows(schema.observed, raw[schema.observed])
    if n == 0:
        raise ValueError(f"`{schema.observed}` has no rows: the source is empty.")
    problems: list[Exception] = []

    def tried(check: Callable[..., Any], *args: Any, **how: Any) -> Any:
        """Run a check, and keep its error, so that all problems are told at once."""
        try:
            return check(*args, **how)
        except (ValueError, TypeError) as problem:
            problems.append(problem)
            return None

    def each(role: str, check: Callable[..., Any], **how: Any) -> dict[str, Any]:
        """Run a check on every column of a role; the results have the names of the table's columns."""
        named = getattr(schema, role) or ()
        columns = {role: named} if isinstance(named, str) else {f"{role} {j}": name for j, name in enumerate(named)}
        return {column: tried(check, name, raw[name], n, **how) for column, name in columns.items()}

    found = each("action", checks.rows)
    density = any(values is not None and values.dtype.kind == "f" for values in found.values())
    found |= dict.fromkeys(("terminated", "truncated"), np.zeros(n, bool)) | each("terminated", checks.flags)
    going_on = np.zeros(n, bool) if found["terminated"] is None else ~found["terminated"]
    found |= each("behavior_prob", checks.probabilities, density=density, positive=True)
    found |= each("target_prob", checks.probabilities, density=density, positive=False)
    found |= each("observation", checks.rows) | each("next_observation", checks.rows, where=going_on)
    found |= tried(_sparse, "", raw, schema, n) or {}
    found |= tried(_sparse, "next_", raw, schema, n) or {}
    found |= each("truncated", checks.flags) | each("step", checks.steps)
    found |= {"reward": np.zeros(n)} if schema.reward is None else each("reward", checks.column)
    mu, pi = found.get("behavior_prob"), found.get("target_prob")
    quotient = tried(checks.quotient, schema.behavior_prob, mu, pi)
    found |= each("ratio", checks.ratios, quotient=quotient)
    found |= each("episode", ids_of) | each("group", ids_of) | each("kept", ids_of, gaps=True)
    if len(problems) == 1:
        raise problems[0] from None
    if problems:
        more = [f"{len(problems) - told:,} more columns are wrong."] if len(problems) > told else []
        raise ValueError(" ".join([*map(str, problems[:told]), *more]))
    return pa.table({role: _arrow(values) for role, values in found.items() if values is not None})


def _arrow(values: Any) -> Any:
    """An array as an Arrow column that shares its memory; the rows of a matrix become lists."""
    if isinstance(values, pa.Array):
        return values
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


def _sparse(prefix: str, raw: Raw, schema: Schema, n: int) -> dict[str, Any]:
    """Check sparse rows, or with the prefix "next_" their successors, and fold them into buckets if these are given."""
    indices, values = getattr(schema, f"{prefix}indices"), getattr(schema, f"{prefix}values")
    if indices is None:
        if schema.buckets is not None and not prefix:
            raise ValueError("`buckets` folds sparse rows (lists of `indices`), but these are not: leave it out.")
        return {}
    offsets, places = lists_of(indices, raw[indices], "iu")
    checks.length(indices, offsets[1:], n)
    most = schema.n_features or (2**63 if schema.buckets else WIDEST)
    outside = (places < 0) | (places >= most)
    if outside.any():
        bad = int(np.argmax(outside))
        row = int(np.searchsorted(offsets, bad, side="right")) - 1
        remedy = "" if places[bad] < 0 else ", or give `n_features` or `buckets` (`--n-features`, `--buckets`)"
        said = f"`{indices}` has the index {places[bad]:,} in row {nth(row)}, outside 0 … {most - 1:,}"
        raise ValueError(f"{said}: hash the features to that range{remedy}.")
    places = places % schema.buckets if schema.buckets is not None else places
    lists = {f"{prefix}indices": list_column(offsets, places.astype(np.int32))}
    if values is not None:
        ends, entries = lists_of(values, raw[values], "iuf")
        if not np.array_equal(offsets, ends):
            row = int(np.argmax(np.diff(offsets) != np.diff(ends))) if len(ends) == len(offsets) else 0
            raise ValueError(f"`{values}` and `{indices}` differ in length in row {nth(row)}: give a value per index.")
        checks.finite(values, csr_of(offsets, places, entries, 1))
        lists[f"{prefix}values"] = list_column(offsets, entries.astype(np.float64, copy=False))
    return lists


def list_column(offsets: Array, entries: Array) -> Any:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32, copy=False)), pa.array(entries))


def parts_of(sources: Sequence[Any], max_bytes: int = MAX_BYTES) -> list[tuple[Path | None, Callable[[], Opened]]]:
    """List the files of the sources, and the sources that are no files, each with a function that opens it."""
    parts: list[tuple[Path | None, Callable[[], Opened]]] = []
    for source in sources:
        found = [(path, partial(_open_file, path, max_bytes)) for path in files_of(source)]
        parts += found or [(None, partial(_open_other, source))]
    return parts


def _open_other(source: Any) -> Opened:
    if isinstance(source, str) and source.startswith("sqlite:"):
        return open_sqlite(source)
    if isinstance(source, str) or hasattr(source, "iterate_episodes"):
        return open_minari(source.removeprefix("minari:") if isinstance(source, str) else source)
    if isinstance(source, Mapping):
        return _mapping({str(name): values for name, values in source.items()})
    if hasattr(source, "collect_batches"):  # a LazyFrame of polars
        parts = (part.to_arrow() for part in source.collect_batches())
        return files.open_stream("The stream", source.collect_schema().names(), parts)
    if hasattr(source, "iloc"):  # of pandas: a stream would convert the columns that nobody asked for
        check_names([str(name) for name in source.columns])
        columns, index = {str(name): source[name] for name in source.columns}, source.index
        # Named levels of the index are columns, too: `groupby` and `set_index` put episodes and steps there.
        levels = {str(name): index.get_level_values(k) for k, name in enumerate(index.names) if name is not None}
        return _mapping(levels | columns)
    if hasattr(source, "__arrow_c_stream__"):
        unknown = f"The {type(source).__name__} is not readable as Arrow"
        with explained(unknown, "change the types of its columns to usual numbers and texts", pa.ArrowException):
            reader = pa.RecordBatchReader.from_stream(source)
        return files.open_stream("The stream", reader.schema.names, reader)
    sources = "a path, a frame, a mapping of arrays, what speaks Arrow, or a Minari dataset"
    raise TypeError(f"A {type(source).__name__} is not a source of transitions: pass {sources}.")


def _mapping(columns: Mapping[str, Any]) -> Opened:
    """Open arrays, lists or series by name; all of their rows come at once."""

    def batches(names: Sequence[str], _: int, __: Sequence[str]) -> Generator[Raw]:
        yield {name: columns[name] for name in names}

    return Opened(list(columns), batches)


def _refuse_another_width(table: pa.Table, first: pa.Table, schema: Schema) -> None:
    for name in table.column_names:
        width, before = (getattr(t.schema.field(name).type, "list_size", 1) for t in (table, first))
        if width != before:
            widths = f"{width} numbers from row {nth(0)} on, but {before} before"
            raise ValueError(f"`{source_name(schema, name)}` has {widths}: give every row the same length.")


def source_name(schema: Schema, column: str) -> str | None:
    """The source's name for a column of a checked table, such as "observation 3"; None if the source has none."""
    role, _, j = column.rpartition(" ")
    named: Any = getattr(schema, role)[int(j)] if role else getattr(schema, column)
    return named


def extent(source: Any, **columns: Any) -> tuple[int, int]:
    """Return how many rows a source has, and numbers a row: estimated for text, 0 if only reading would tell."""
    known, paths = 0, files_of(source)
    for path in paths:
        ending = path.suffix.lower()
        if ending in files.PARQUET:
            known += int(files.footer_of(path).num_rows)
        elif FILES.get(ending) in (open_csv, open_jsonl):
            with path.open("rb") as file:
                head = file.read(HEAD)
            known += path.stat().st_size * head.count(b"\n") // max(len(head), 1)
        else:
            return 0, 0
    if not paths:
        return 0, 0
    log = Log(source, batch_rows=3, **columns)
    row = next(iter(log))
    observed = [field.type for field in row.schema if field.name.startswith("observation ")]
    return known, log.schema.buckets or sum(getattr(kind, "list_size", 1) for kind in observed)


def files_of(source: Any) -> list[Path]:
    """List the files of a path by name: the file itself, those of a folder, or those that match a pattern."""
    if isinstance(source, str) and not source.strip():
        raise ValueError("the path of the log is empty: name a file or a folder.")
    if not isinstance(source, (str, Path)) or str(source).startswith(("minari:", "sqlite:")):
        return []
    path = Path(source)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.suffix.lower() in FILES)
        found = [p for p in found if p.suffix.lower() != ".txt"] or found  # beside other files it is no table
    else:
        found = [path] if path.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    folders = {path, *(file.parent for file in found)}
    if any(map(_is_unfinished, folders)):
        raise ValueError(f"{path} holds unfinished shards: run the same `sparsetd shard` again to complete them.")
    if not found and path.is_dir():
        raise ValueError(f"{path} is a directory without data files: it needs files such as part-0.parquet.")
    if not found:
        raise FileNotFoundError(f"{path} does not exist: check the path.")
    return found


def _is_unfinished(folder: Path) -> bool:
    """Whether a folder holds only some shards of a log, because `shard` was stopped."""
    kept = folder / UNFINISHED
    return kept.is_dir() and bool(Cache(kept).entries()) and not Path(folder, MANIFEST).is_file()


def manifest_of(source: Any) -> dict[str, Any]:
    """The manifest of a folder of shards; for any other source, one that names no columns and no shards."""
    path = Path(source, MANIFEST) if isinstance(source, (str, Path)) else None
    if path is None or not path.is_file():
        return {"columns": {}, "shards": []}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=distinct)
        json.dumps(manifest, ensure_ascii=False).encode()  # refuses halves of characters
        Schema(**manifest["columns"])
        entries = [{key: entry[key] for key in ("file", "bytes", "sha256")} for entry in manifest["shards"]]
        names = [entry["file"] for entry in entries]
        if len({*names}) < len(names) or not all(re.fullmatch(r"[\w.-]+", name, re.ASCII) for name in names):
            raise ValueError("each shard is a file beside the manifest")
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{path} is not a manifest of shards: run `sparsetd shard` again.") from None
    _refuse_changes(path, entries)
    return {"columns": manifest["columns"], "shards": entries}


def _refuse_changes(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a manifest unless it lists exactly the files beside it, with the sizes that they have."""
    sizes = {file.name: file.stat().st_size for file in files_of(path.parent)}
    for name, size in ((entry["file"], entry["bytes"]) for entry in entries):
        if name not in sizes:
            raise ValueError(f"The shard {name} is in the manifest but not in {path.parent}: {REMEDY}.")
        if sizes.pop(name) != size:
            raise ValueError(f"The shard {name} was cut short or replaced (it had {show(size)} bytes): {REMEDY}.")
    if sizes or not entries:
        what = f"{min(sizes)} is not in it" if sizes else "it lists no shard"
        raise ValueError(f"{path} does not describe its folder ({what}): {REMEDY}.")


def _open_file(path: Path, max_bytes: int) -> Opened:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _mapping(files.read_npz(path, max_bytes))
    if suffix in (".db", ".sqlite", ".sqlite3"):
        raise ValueError(f"{path.name} holds tables: name one, sqlite:{path}?table=NAME, or ask with `sql=` (--sql).")
    if suffix not in FILES:
        known = ", ".join([*FILES, ".npz"])
        raise ValueError(f"{path.name} has the ending {suffix!r}, which no reader knows: use one of {known}.")
    return FILES[suffix](path)


def open_sqlite(source: str) -> Opened:
    """Open a table of an SQLite file, or the result of a query, read-only and with Python's own `sqlite3`.

    sqlite:visits.db?table=visits      sqlite:visits.db?sql=SELECT * FROM visits ORDER BY day

    DuckDB and other databases need no code here: anything with `__arrow_c_stream__` is a source.
    """
    file, _, asked = source.removeprefix("sqlite:").partition("?")
    kind, equals, text = asked.partition("=")
    if kind not in ("table", "sql") or not equals or not text.strip():
        raise ValueError(f"{show(source)} must look like sqlite:file.db?table=NAME or sqlite:file.db?sql=SELECT ….")
    path, quoted = Path(file), text.replace('"', '""')
    if not path.is_file():
        raise FileNotFoundError(f"{file} does not exist: check the path.")
    query = text if kind == "sql" else f'SELECT * FROM "{quoted}"'
    with _connected(path) as connection, closing(connection.execute(query)) as cursor:
        names = [column[0] for column in cursor.description or ()]
    check_names(names)

    def batches(columns: Sequence[str], rows: int, texts: Sequence[str]) -> Generator[Raw]:
        place = {name: names.index(name) for name in columns}
        with _connected(path) as connection, closing(connection.execute(query)) as cursor:
            while found := cursor.fetchmany(rows):
                yield {name: typed([row[j] for row in found], name in texts) for name, j in place.items()}

    return Opened(names, batches)


@contextmanager
def _connected(path: Path) -> Iterator[Any]:
    """A connection that can only read. Errors of SQLite become one sentence."""
    errors, address = (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError), f"file:{quote(str(path))}?mode=ro"
    said = explained(f"{path.name} gives no answer", "check the table or the query", errors)
    with said, closing(sqlite3.connect(address, uri=True)) as connection:
        # Read-only mode alone would still allow ATTACH of another file.
        connection.set_authorizer(lambda asked, *_: sqlite3.SQLITE_OK if asked in READING else sqlite3.SQLITE_DENY)
        yield connection
