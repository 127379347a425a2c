"""Checkpoints of a long fit: the solver's state on disk, so that a killed run continues where it was, bit for bit.

    fit(model, X, y, X_next, path="fit.ckpt")           as model.fit(…), but killed and run again it continues

    save(path, state, position=t, fingerprint=f)
    state, position = load(path, like=solver.init(…), fingerprint=f)

A state is a dataclass or a dict of arrays and scalars; it is stored exactly (dtype, layout, NaN, random generators).
`position` says how far the data was read. `fingerprint` stands for the settings and the data: a checkpoint of another
fit is refused. A save is atomic, so a kill at any moment leaves the previous checkpoint or the new one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sparsetd.storage import container
from sparsetd.storage.atomic import clear_leftovers, remove_file
from sparsetd.storage.container import CorruptFileError
from sparsetd.storage.encoding import Decoder, Encoder, is_record
from sparsetd.system import Batch

__all__ = ["exists", "fingerprint", "fit", "load", "save"]

KIND = "checkpoint"
Model = TypeVar("Model", bound=Any)


def save(path: str | os.PathLike[str], state: Any, *, position: int = 0, fingerprint: str = "") -> None:
    """Write `state` to `path`, atomically."""
    encoder = Encoder()
    node = encoder.encode(state, "state")
    container.write(path, KIND, {"state": node, "position": int(position), "fingerprint": fingerprint}, encoder.arrays)


def load(path: str | os.PathLike[str], like: Any, *, fingerprint: str = "") -> tuple[Any, int]:
    """The state and the position stored at `path`. `like` is any state of the same kind: only its classes are built."""
    meta, arrays = container.read(path, KIND)
    if meta.get("fingerprint") != fingerprint:
        raise ValueError(f"{os.fspath(path)}: belongs to a fit of other data or settings; remove it to start afresh.")
    try:
        state = Decoder(arrays, {cls.__name__: cls for cls in (Batch, *_classes(like))}).decode(meta.get("state"))
        position = int(meta["position"])
    except (CorruptFileError, KeyError, TypeError, ValueError, OverflowError) as error:
        what = error if isinstance(error, CorruptFileError) else "the position cannot be read."
        raise CorruptFileError(f"{os.fspath(path)}: {what}") from None
    if type(state) is not type(like):
        raise CorruptFileError(f"{os.fspath(path)}: holds a {type(state).__name__}, not a {type(like).__name__}.")
    return state, position


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is a checkpoint to continue from; clears away what a killed save left half-written beside it."""
    target = Path(os.path.realpath(path))
    clear_leftovers(target)
    return target.exists()


def fit(
    model: Model,
    X: Any,
    y: Any,
    X_next: Any = None,
    *,
    path: str | os.PathLike[str],
    rows_per_save: int = 100_000,
    **columns: Any,
) -> Model:
    """`model.fit(X, y, X_next, **columns)` with the state saved to `path` every so many rows; the same bits come out.

    A checkpoint of the same model and rows found at `path` is continued; one of another fit is refused. The file is
    removed when the fit is done.
    """
    given = [columns.get(name) for name in ("ratio", "discount", "start", "interest")]
    batch: Batch = model._batch(X, y, X_next, *given, reset=True)
    batch.start[:1] = True
    mark = fingerprint(type(model).__name__, model.get_params(deep=False), vars(batch))
    run = model._begin(batch)
    done, n = 0, len(batch)
    if exists(path):
        known, done = load(path, kept(model), fingerprint=mark)
        model._state, model.history_, model._last = known["state"], known["history"], known["last"]
    while done < model._passes * n:
        stop = min(done % n + rows_per_save, n)
        model._take(batch[done % n : stop], run)
        done += stop - done % n
        save(path, kept(model), position=done, fingerprint=mark)
    model._finish(run)
    remove_file(path)
    return model


def kept(model: Any) -> dict[str, Any]:
    """What a fit under way has to remember."""
    return {"state": model._state, "history": model.history_, "last": model._last}


def fingerprint(*values: Any) -> str:
    """A digest of settings and data (numbers, text, dicts, arrays …), equal exactly when they are."""
    encoder, digest = Encoder(), hashlib.sha256()
    digest.update(repr(encoder.encode(list(values))).encode())
    for array in encoder.arrays.values():
        digest.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _classes(value: Any) -> Iterator[type]:
    """The dataclasses and named tuples found anywhere inside `value`."""
    if not isinstance(value, type) and is_record(type(value)):
        yield type(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            if not isinstance(item, (np.ndarray, sp.sparray, str, float, int)):
                yield from _classes(item)
