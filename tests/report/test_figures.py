"""Figures are the same bytes every time and appear only when they are finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.report.png import COLOURS, figure

PNG = b"\x89PNG\r\n\x1a\n"


def draw(path: Path, height: float = 1.0) -> bytes:
    with figure(path) as axes:
        axes.plot([0, height], label="a line")
        axes.legend()
    return path.read_bytes()


def test_the_same_drawing_is_the_same_bytes(tmp_path: Path) -> None:
    first = draw(tmp_path / "a.png")
    assert first.startswith(PNG)
    assert draw(tmp_path / "folder" / "b.png") == first
    assert draw(tmp_path / "c.png", height=2.0) != first


def test_a_figure_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), figure(tmp_path / "a.png") as axes:
        axes.plot([0, 1])
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


def test_panels_are_a_flat_list(tmp_path: Path) -> None:
    with figure(tmp_path / "a.png", panels=(2, 2)) as panels:
        assert len(panels) == 4
        for axes in panels:
            axes.plot([0, 1])
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_every_attack_gets_its_own_look() -> None:
    assert len(set(COLOURS)) == len(COLOURS) >= 5
