"""Figures: every format, the same bytes twice, and never half a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsetd.plots.draw import UNDATED, save_figure

pytest.importorskip("matplotlib")


def line(axes) -> None:
    axes[0].plot([0, 1], [1, 2])


@pytest.mark.parametrize("suffix", UNDATED)
def test_the_same_figure_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    first, second = (save_figure(line, tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
    assert first == second
    assert len(first) > 1000


def test_as_many_axes_as_panels(tmp_path: Path) -> None:
    seen = []
    save_figure(lambda axes: seen.append(len(axes)), tmp_path / "a.png", panels=3)
    assert seen == [3]


def test_a_failing_drawing_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        save_figure(lambda _axes: 1 / 0, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_work_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg or \.pdf"):
        save_figure(line, tmp_path / "a.gif")
    with pytest.raises(ValueError, match="create it first"):
        save_figure(line, tmp_path / "nowhere" / "a.png")


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match="cannot be written to; choose another"):
        save_figure(lambda _axes: 1 / 0, tmp_path / "a.png")
