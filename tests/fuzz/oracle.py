"""What every input must lead to: a value that keeps the documented promises, or the one sentence of an input error."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs import Transitions, checks, concatenate, inspect, read, read_batches

LONGEST_SENTENCE = 2_500
checks.MOST = 2**26  # small enough to tell a size bomb from the rest of the process
# In memory where the system has such a folder: a run is mostly the writing and opening of a small file.
FOLDER = tempfile.mkdtemp(prefix="sparsetd-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def file(suffix: str, data: bytes) -> Path:
    """A file of these bytes; the next call with the same suffix overwrites it."""
    path = Path(FOLDER, f"log{suffix}")
    path.write_bytes(data)
    return path


def check_log(source: Any, data: bytes) -> None:
    """Read a log whole; for some inputs also in batches, or with a report. They must agree.

    A checksum of the input decides for which ones: it costs nothing, and an input always means the same.
    """
    whole = value_or_sentence(lambda: read(source))
    if whole is not None:
        check_transitions(whole)
    turn = zlib.crc32(data) % 8
    if turn < 2:
        _check_batches(source, whole)
    elif turn == 2:
        _check_report(source, whole)


def _check_batches(source: Any, whole: Transitions | None) -> None:
    parts = value_or_sentence(lambda: list(read_batches(source, batch_rows=3)))
    if whole is None:
        assert not parts, "a log that cannot be read was read in batches"
    elif parts:
        for part in parts:
            check_transitions(part, first=part is parts[0])
        check_same(concatenate(parts), whole)


def _check_report(source: Any, whole: Transitions | None) -> None:
    report = inspect(source)
    assert (report.error is None) == (whole is not None), "inspect and read disagree"
    assert report.n_rows == (0 if whole is None else len(whole)), "the report counts other rows than were read"
    assert str(report)
    json.dumps(report.to_dict())


def value_or_sentence(action: Callable[[], Any]) -> Any:
    """The value of `action`, or None after an error that is one sentence and of the two documented classes."""
    try:
        return action()
    except (ValueError, TypeError) as error:
        check_sentence(error, (ValueError, TypeError))
        return None


def check_sentence(error: Exception, classes: tuple[type, ...]) -> None:
    """Subclasses do not count: `UnicodeDecodeError` and `ArrowInvalid` are `ValueError`s of somebody else."""
    text = str(error)
    if type(error) not in classes or text.splitlines() != [text] or not text.endswith((".", ".)", "?")):
        raise AssertionError("this is not one sentence of ours") from error
    if len(text) > LONGEST_SENTENCE or "Traceback" in text:
        raise AssertionError("this is more than a sentence") from error
    text.encode()  # printable anywhere


def check_transitions(t: Transitions, *, first: bool = True) -> None:
    """The promises of the documentation of `Transitions`."""
    n = len(t)
    width = t.observation.shape[1]
    assert n > 0 < width, "rows and columns"
    for name, column in t._columns().items():
        assert len(column) == n, f"length of {name}"
    for s in (t.observation, t.next_observation):
        assert s.shape == (n, width), "shape of the observations"
        assert s.dtype in (np.int64, np.float32, np.float64), "type of the observations"
        assert np.isfinite(s).all(), "finite observations"
    assert t.reward.dtype == np.float64, "type of the rewards"
    assert t.reward.ndim == 1, "shape of the rewards"
    assert np.isfinite(t.reward).all(), "finite rewards"
    check_episodes(t, first)
    _check_actions(t)
    if t.names is not None:
        assert len(set(t.names)) == width, "one name per column"
    assert repr(t)


def check_episodes(t: Transitions, first: bool) -> None:
    for flags in (t.terminated, t.truncated, t.start):
        assert flags.dtype == bool, "type of the flags"
        assert flags.ndim == 1, "shape of the flags"
    assert t.episode.dtype == np.int64, "type of the episodes"
    step = np.diff(t.episode)
    assert ((step == 0) | (step == 1)).all(), "episodes are numbered in order"
    assert t.start[1:][step == 1].all(), "an episode begins with a start"
    assert t.start[0] or not first, "a log begins with a start"
    over = t.terminated | t.truncated
    assert not over[:-1][step == 0].any(), "nothing follows the end of an episode"


def _check_actions(t: Transitions) -> None:
    if t.action is not None:
        assert t.action.ndim == 2 or t.action.dtype == np.int64, "discrete actions are integers"
        assert np.isfinite(t.action).all(), "finite actions"
    density = t.action is not None and t.action.dtype.kind == "f"
    for probability in (t.behavior_prob, t.target_prob):
        if probability is not None:
            assert probability.shape == (len(t),), "shape of the probabilities"
            assert ((probability >= 0) & (density | (probability <= 1))).all(), "range of the probabilities"
    assert t.behavior_prob is None or (t.behavior_prob > 0).all(), "what was done was possible"
    ratio = t.importance_ratio()
    assert ratio.shape == (len(t),), "shape of the ratios"
    assert (np.isfinite(ratio) & (ratio >= 0)).all(), "range of the ratios"


def check_same(a: Transitions, b: Transitions) -> None:
    """Equal values; the type of a column may differ where only a later row needs the wider one."""
    assert a._columns().keys() == b._columns().keys(), "the same columns"
    for name, column in a._columns().items():
        np.testing.assert_array_equal(column, getattr(b, name), err_msg=name)
