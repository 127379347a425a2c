"""A file appears all at once or not at all.

A write goes to a temporary file beside the target, is flushed to the disk and then renamed over the target: a crash, a
full disk or a kill leaves either the old file or the new one. A link is followed, the mode and the owner of a file that
is replaced are kept, and only a file is ever replaced.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

Writer = Callable[[BinaryIO], None]


def replace_file(path: str | os.PathLike[str], data: bytes | str | Writer, *, tidy: bool = True) -> None:
    """Put `data` at `path` all at once: temporary file, fsync, rename, fsync of the directory.

    `data` may be a function that writes to the open file, so that its content need not be in memory. `tidy` first
    removes what killed writers of this file left behind; it lists the whole folder, which is slow if that is full.
    """
    target = regular_file(path)
    if tidy:
        clear_leftovers(target.parent, glob.escape(target.name))
    # Several threads and processes may write the same file, so each gets a temporary name that nobody can guess.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
    try:
        _write(temporary, target, data.encode() if isinstance(data, str) else data)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            why = error.strerror or str(error)
            raise OSError(error.errno, f"{why}; this file was not written", os.fspath(path)) from error
        raise
    _sync_directory(target.parent, path)


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Follow the links of `path` to the file itself, and refuse a folder, a device or a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing is there yet, or writing will say what is wrong
        return Path(os.path.realpath(path))
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise ValueError(f"the output file '{os.fspath(path)}' is {kind}; name a file")
    return Path(os.path.realpath(path))


def check_writable(path: str | os.PathLike[str], *endings: str) -> Path:
    """Check before any work that a file with one of these endings can be written to `path`, and return the path."""
    target = Path(path)
    if endings and target.suffix.lower() not in endings:
        raise ValueError(f"the output file '{target}' must end in {' or '.join(endings)}")
    if not target.parent.is_dir():
        raise ValueError(f"the folder '{target.parent}' of the output file does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"the folder '{target.parent}' of the output file cannot be written to; choose another")
    if regular_file(target).exists() and not os.access(target, os.W_OK):
        raise ValueError(f"the output file '{target}' is write-protected; name another")
    return target


def clear_leftovers(folder: Path, pattern: str) -> None:
    """Remove the half-written files that killed writers left in a folder, for targets whose names match a pattern."""
    for leftover in folder.glob(f".{pattern}.*.tmp"):
        writer = re.search(r"\.(\d+)(\.[0-9a-f]+)?\.tmp$", leftover.name)
        if writer and not _alive(int(writer[1])):
            leftover.unlink(missing_ok=True)


def _write(temporary: Path, target: Path, data: bytes | Writer) -> None:
    """Write a new file, with the owner and the mode of the file that it will replace."""
    old = target.stat() if target.exists() else None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(temporary, flags, 0o666 if old is None else 0o600), "wb") as handle:
        if old is not None:
            if hasattr(os, "chown"):
                with suppress(PermissionError):  # only the superuser may give a file away
                    os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, stat.S_IMODE(old.st_mode))
        data(handle) if callable(data) else handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _alive(process: int) -> bool:
    """Return whether a process runs; True if the system has no harmless way to ask."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _sync_directory(folder: Path, path: str | os.PathLike[str]) -> None:
    """Make the rename itself durable, where the system lets a directory be opened and flushed."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that does not flush directories
            why = f"{error.strerror}; this file was written, but it may be lost if the power fails now"
            raise OSError(error.errno, why, os.fspath(path)) from error
    finally:
        os.close(handle)
