"""The numbers of docs/figures.md are computed, and its pictures come from the same functions."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "figures.md").read_text()


@pytest.fixture(scope="module")
def pictures() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield import_module("explanation_pictures")
    sys.path.remove(str(ROOT / "benchmarks"))


def test_the_table_of_bits(pictures: Any) -> None:
    rows = re.findall(r"^\| (\d+)% \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for right, bits in rows:
        assert f"{pictures.bits_of_chance(int(right) / 100):.3f}" == bits


def test_the_table_of_epsilon(pictures: Any) -> None:
    rows = re.findall(r"^\| (\d+) \| ([\d.]+)% \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for epsilon, tpr in rows:
        digits = len(tpr.split(".")[1])
        assert f"{100 * pictures.largest_tpr(int(epsilon), 0.01):.{digits}f}" == tpr


def test_the_two_attackers_have_the_same_auc_and_the_stated_rates(pictures: Any) -> None:
    (axes,) = pictures.tpr_picture().axes
    curves = {line.get_label(): line.get_data() for line in axes.lines}
    at = {name: float(y[abs(x - 0.001).argmin()]) for name, (x, y) in curves.items()}
    (even,) = (rate for name, rate in at.items() if "everyone" in name)
    (uneven,) = (rate for name, rate in at.items() if "certain" in name)
    assert even == pytest.approx(0.0026, abs=1e-4) and uneven == pytest.approx(0.022, abs=5e-4)
    assert uneven / even > 8
    assert (
        all("58%" in name for name in curves if "guessing" not in name) and "0.26%" in PAGE and "2.2%" in PAGE
    )
