"""A file is written whole or not at all, keeps its rights, and never takes the place of something else."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparsetd.storage.atomic import clear_leftovers, replace_file


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(mode)
    replace_file(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)


def test_a_new_file_gets_the_usual_mode(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", "new")
    (tmp_path / "b").write_text("new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to("there/file")  # which does not exist yet
    for text in ("one", "two"):
        replace_file(link, text)
        assert link.is_symlink()
        assert (tmp_path / "there" / "file").read_text() == text


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in [(tmp_path / "pipe", "a device or a pipe"), (tmp_path, "a folder"), ("/dev/null", "a device")]:
        with pytest.raises(ValueError, match=f"is {kind}"):
            replace_file(path, "new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_many_threads_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(replace_file, path, str(i) * 10_000) for i in range(64)]:
            done.result()
    text = path.read_text()
    assert text == text[0:1] * 10_000 or len(set(text)) == 2  # of one writer: a number of one digit or of two
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_temporary_names_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("os.replace", lambda source, _target: seen.append(Path(source).name))
    for _ in range(2):
        replace_file(tmp_path / "model", "new")
    assert len(set(seen)) == 2
    # Somebody else's link under the same name would not be followed.
    monkeypatch.setattr("secrets.token_hex", lambda _n: "guessed")
    (tmp_path / f".model.{os.getpid()}.guessed.tmp").symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "model", "new")
    assert not (tmp_path / "precious").exists()


def test_leftovers_of_dead_writers_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    names = [
        f".model.{2**22 + 1}.tmp",
        f".model.{2**22 + 1}.abcd.tmp",
        f".model.{os.getpid()}.abcd.tmp",
        ".model.x.tmp",
    ]
    for name in names:
        (tmp_path / name).write_text("half")
    clear_leftovers(tmp_path, "model")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names[2:])


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_failure_names_the_file_and_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "model"
    path.write_text("old")

    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"os.{call}", full)
    with pytest.raises(OSError, match="No space left on device; this file was not written") as caught:
        replace_file(path, "new")
    monkeypatch.undo()
    assert caught.value.filename == str(path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("model", "old")]


@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL])
def test_a_folder_that_cannot_be_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    sync, calls = os.fsync, []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(code, os.strerror(code))
        sync(handle)

    monkeypatch.setattr("os.fsync", fsync)
    if code == errno.EINVAL:  # some file systems cannot
        replace_file(tmp_path / "model", "new")
    else:
        with pytest.raises(OSError, match="this file was written, but it may be lost"):
            replace_file(tmp_path / "model", "new")
    assert (tmp_path / "model").read_text() == "new"
