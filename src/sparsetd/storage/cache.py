"""A cache of finished work: a folder of entries, each named by a key of what was computed.

    kept = Cache("folder")
    total = kept.get(key)
    if total is None:
        total = …
        kept.put(key, total)
    kept.clear()                                      when all of it is done

One rule says when an entry is valid: its key must equal the key that is asked for. A key is a digest of the data, the
settings and the version (`key_of`). A policy enters it by the probabilities that it gives, never by its name or its
code. Entries made from other data or settings are therefore simply not found, and several runs may share a folder.

An entry is one file that appears whole or not at all, so a run may be killed at any moment and started again. A file
that has been damaged since is reported and not used. `clear` removes entries and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd._tools.progress import say
from sparsetd.storage import container
from sparsetd.storage.atomic import clear_leftovers
from sparsetd.storage.container import CorruptFileError, Decoder, Encoder
from sparsetd.system import Batch

__all__ = ["Cache", "Checkpoint", "key_of"]

KIND = "entry"
SECONDS = 30.0  # between two checkpoints of long work
NAME = re.compile(r"\.?[0-9a-f]{64}\.\w+(\.\d+\.\w+\.tmp)?")


class Cache:
    """Keep finished work in a folder and find it again; without a folder nothing is kept, and nothing is found.

    `tidy` first removes the half-written files of killed runs. Do this once per run: a folder may hold many entries.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, *, tidy: bool = False) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None and self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"the checkpoint '{folder}' is a file, but a checkpoint is a folder: name a folder")
        if self.folder is not None and tidy:
            clear_leftovers(self.folder, "[0-9a-f]" * 64 + ".*")

    def get(self, key: str, classes: Iterable[type] = ()) -> Any:
        """Return the value of an entry, or None if there is no valid one; only `classes` are built from the file."""
        if self.folder is None:
            return None
        try:
            meta, arrays = container.read(self.file(key), KIND)
            if meta.get("key") != key:
                raise CorruptFileError(f"{self.file(key)}: holds the entry of another key.")
            return Decoder(arrays, {cls.__name__: cls for cls in classes}).decode(meta.get("value"))
        except FileNotFoundError:
            return None
        except CorruptFileError as error:
            warnings.warn(f"{error} The work that was kept there is done again.", stacklevel=2)
            return None

    def put(self, key: str, value: Any) -> None:
        """Keep a value (numbers, text, arrays, lists, dicts, dataclasses); it replaces one with the same key."""
        if self.folder is None:
            return
        encoder = Encoder()
        meta = {"key": key, "value": encoder.encode(value)}
        self.folder.mkdir(parents=True, exist_ok=True)
        container.write(self.file(key), KIND, meta, encoder.arrays, tidy=False)

    def file(self, key: str, ending: str = ".part") -> Path:
        """The path of a key's file. A caller may write it with `replace_file`, to keep an entry in any format."""
        assert self.folder is not None
        return self.folder / f"{key}{ending}"

    def entries(self) -> list[Path]:
        """All files of entries in the folder, of any format, finished or half-written."""
        found = self.folder.iterdir() if self.folder is not None and self.folder.is_dir() else ()
        return [path for path in found if NAME.fullmatch(path.name) and path.is_file()]

    def clear(self) -> None:
        """Remove all entries, and the folder if nothing else is in it."""
        for path in self.entries():
            path.unlink(missing_ok=True)
        if self.folder is not None:
            with suppress(OSError):  # other files are in the folder, or it was never made
                self.folder.rmdir()


class Checkpoint:
    """Save the state of long work every 30 seconds, always under the same key, with a line of progress each time."""

    def __init__(self, folder: str | os.PathLike[str] | None, key: str, what: str, *, seconds: float = SECONDS) -> None:
        self.cache, self.key, self.what, self.seconds = Cache(folder, tidy=True), key, what, seconds
        self._saved = time.monotonic()

    def load(self, like: Any) -> tuple[Any, int]:
        """Return the state that was saved last and its progress, or None and 0; it may hold the records of `like`."""
        encoder = Encoder(compact=False)
        encoder.encode(like)
        found = self.cache.get(self.key, {Batch, *encoder.records})
        if not isinstance(found, dict) or type(found.get("done")) is not int or found.keys() != {"state", "done"}:
            return None, 0
        say(f"continuing after {found['done']:,} {self.what} from the checkpoint in {self.cache.folder}")
        return found["state"], found["done"]

    def save(self, state: Callable[[], Any], done: int, *, now: bool = False) -> None:
        """Write the state if `seconds` have passed since the last time, or if it must be `now`."""
        if self.cache.folder is None or not (now or time.monotonic() - self._saved >= self.seconds):
            return
        self.cache.put(self.key, {"state": state(), "done": done})
        self._saved = time.monotonic()
        say(f"checkpoint after {done:,} {self.what} in {self.cache.folder}")


def key_of(*values: Any) -> str:
    """A digest of numbers, text, dicts, arrays … and of this library's version. Equal values have equal digests."""
    encoder, digest = Encoder(compact=False), hashlib.sha256()  # a digest is short anyway
    digest.update(repr([version("sparsetd"), encoder.encode(list(values))]).encode())
    for array in encoder.arrays.values():
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()
