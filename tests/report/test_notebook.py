"""What results look like in a notebook, and the example notebook run cell by cell."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import leakscope
from leakscope.dynamics.plane import Trajectories
from leakscope.evaluate.verdict import Verdict
from leakscope.report.notebook import Axis, cells, line, log_axis, picture, roc_picture, summary_and_table
from leakscope.stats.roc import Roc, roc
from tests.made_up_audits import made_up_audit, quick_single_records

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"
SVG = "{http://www.w3.org/2000/svg}"


def polylines(svg: str) -> list[np.ndarray]:
    """Points of each line, (points, 2) in pixels."""
    lines = ElementTree.fromstring(svg).iter(f"{SVG}polyline")
    return [np.array([p.split(",") for p in one.attrib["points"].split()], dtype=float) for one in lines]


def check_stays_here(html: str) -> None:
    """Nothing to load, nothing to run."""
    loads = re.findall(r"(?:src|href)=|url\(|<script|<link|@import", html)
    assert loads == [] and html.replace("http://www.w3.org/2000/svg", "").count("http") == 0


def test_an_axis_puts_values_where_they_belong() -> None:
    np.testing.assert_allclose(Axis("x", 2, 4).share([2, 3, 4, 9]), [0, 0.5, 1, 1])
    log = log_axis("rate", 0.001)
    assert log.ticks == pytest.approx((0.001, 0.01, 0.1, 1.0))
    np.testing.assert_allclose(log.share([0.0, 0.001, 0.1, 1.0]), [0, 0, 2 / 3, 1], atol=1e-12)


def test_a_roc_draws_its_curve() -> None:
    is_member = np.arange(2000) % 2 == 0
    scores = np.random.default_rng(0).normal(2 * is_member)
    curve = roc(scores, is_member)
    html = roc_picture(curve)
    check_stays_here(html)
    diagonal, drawn = polylines(html)
    assert len(drawn) < 1000  # a pixel shows no more
    assert (np.diff(drawn[:, 0]) >= 0).all() and (np.diff(drawn[:, 1]) <= 0).all()
    assert (drawn[:, 1] <= diagonal[:, 1] + 1).mean() > 0.95  # above the diagonal: it leaks
    assert "1,000 members and 1,000 non-members" in html
    assert roc_picture(curve) == html


def test_the_points_drawn_are_the_curves() -> None:
    """Three steps by hand: FPR 0 to 1/4 has TPR 1/2, then 3/4, then 1."""
    is_member = np.array([1, 1, 0, 1, 0, 1, 0, 0], dtype=bool)
    html = roc_picture(roc(np.arange(8)[::-1].astype(float), is_member))
    _, drawn = polylines(html)
    top, bottom = 24, 244
    share = (bottom - drawn[:, 1]) / (bottom - top)
    least = 0.1  # axes start there: 1/4 is above it
    expected = [1 + np.log10(rate) / -np.log10(least) for rate in (0.5, 0.75, 1.0)]
    assert sorted(set(share.round(2))) == pytest.approx(sorted(np.round(expected, 2)), abs=0.01)


def test_a_roc_without_a_side_says_so() -> None:
    nothing = np.array([0.0, np.nan])
    assert "no members, or no non-members" in roc_picture(Roc(nothing, nothing, nothing, 3, 0))


def test_a_plane_draws_first_middle_and_last_and_a_single_checkpoint_once() -> None:
    states = np.random.default_rng(0).random((5, 300, 2))
    states[:, 7] = np.nan  # a record every model has seen
    paths = Trajectories((1, 2, 4, 8, 16), states)
    html = paths._repr_html_()
    check_stays_here(html)
    assert re.findall(r"<text[^>]*>Epoch (\d+)", html) == ["1", "4", "16"]
    assert "299 records" in html and len(html) < 400_000
    single = Trajectories((16,), states[:1])._repr_html_()
    assert single.count("<svg") == 1
    unseen = Trajectories((1,), np.full((1, 3, 2), np.nan))._repr_html_()
    assert "No plane" in unseen


def test_cells_are_where_the_records_are() -> None:
    counts = np.zeros((4, 4))
    counts[0, 3] = 5.0  # lowest FPR, highest TPR: the top left
    marks = cells(counts)
    (cell,) = ElementTree.fromstring(f"<g>{marks}</g>")
    assert (float(cell.attrib["x"]), float(cell.attrib["y"])) == (52.0, 24.0)
    assert cell.attrib["fill-opacity"] == "1.00"


def test_text_from_data_is_escaped() -> None:
    evil = "<script>alert('x')</script>&\"🙂"
    axis = Axis(evil)
    svg = picture(evil, axis, axis, [line(axis, axis, [0, 1], [0, 1])], evil)
    ElementTree.fromstring(svg)
    table = summary_and_table([evil], [evil], [[evil]])
    for html in (svg, table):
        assert "<script>" not in html and "&lt;script&gt;" in html


def test_a_verdict_shows_its_words_and_a_table(tmp_path: Path) -> None:
    with quick_single_records():
        verdict = made_up_audit(tmp_path / "run", 1.0)
    html = verdict._repr_html_()
    check_stays_here(html)
    for sentence in verdict.summary():
        assert sentence.replace("'", "&#x27;") in html
    assert html.count("<tr>") == 1 + len(verdict.results.attacks)
    config = replace(verdict.results.config, records="<img src=x onerror=alert(1)>")
    evil = Verdict(replace(verdict.results, config=config), tmp_path)._repr_html_()
    assert "<img" not in evil and "&lt;img" in evil


def test_showing_a_result_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np, leakscope\n"
        "from leakscope.report.notebook import roc_picture\n"
        "from leakscope.stats.roc import roc\n"
        "assert '<svg' in roc_picture(roc(np.arange(4.0), np.array([0, 1, 0, 1], bool)))\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Executes a cell; the value of its last line where that is an expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_the_example_notebook_runs_and_every_picture_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = leakscope.audit

    def smaller(records: Any, recipe: Any, **options: Any) -> Verdict:
        return whole(records.take(np.arange(200)), recipe, **{**options, "models": 4, "device": "cpu"})

    monkeypatch.setattr(leakscope, "audit", smaller)
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None  # committed without outputs
            shown.append(run_cell("".join(cell["source"]), names))
    pictures = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert [type(value).__name__ for value in shown[:3]] == ["Verdict", "RunRoc", "Trajectories"]
    assert len(pictures) == 3 and all(len(html) > 500 for html in pictures)
    assert "leakage figures" in capsys.readouterr().out
