"""What results look like in a notebook, and the example notebook run cell by cell."""

from __future__ import annotations

import ast
import base64
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakscope
from leakscope.dynamics.plane import Trajectories, plane_chart
from leakscope.evaluate.verdict import Verdict
from leakscope.report.charts import Chart
from leakscope.report.notebook import picture, roc_chart, roc_picture, summary_and_table
from leakscope.stats.roc import Roc, roc
from tests.made_up_audits import made_up_audit, quick_single_records

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"


def check_stays_here(html: str) -> None:
    """Nothing to load, nothing to run."""
    loads = re.findall(r"(?:src|href)=(?!\"data:)|url\(|<script|<link|@import", html)
    assert loads == [] and html.count("http") == 0


def test_a_roc_draws_its_curve() -> None:
    is_member = np.arange(2000) % 2 == 0
    scores = np.random.default_rng(0).normal(2 * is_member)
    curve = roc(scores, is_member)
    diagonal, drawn = roc_chart(curve).figure["data"]
    assert len(drawn["x"]) < 1000  # a pixel shows no more
    assert (np.diff(drawn["x"]) > 0).all() and (np.diff(drawn["y"]) >= 0).all()
    assert (drawn["y"] >= drawn["x"]).mean() > 0.95  # above the diagonal: it leaks
    np.testing.assert_array_equal(diagonal["x"], diagonal["y"])
    html = roc_picture(curve)
    check_stays_here(html)
    assert "1,000 members and 1,000 non-members" in html
    assert base64.b64decode(html.split("base64,")[1].split('"')[0]).startswith(b"\x89PNG")
    assert roc_picture(curve) == html


def test_the_points_drawn_are_the_curves() -> None:
    """Three steps by hand: FPR 0 to 1/4 has TPR 1/2, then 3/4, then 1."""
    is_member = np.array([1, 1, 0, 1, 0, 1, 0, 0], dtype=bool)
    _, drawn = roc_chart(roc(np.arange(8)[::-1].astype(float), is_member)).figure["data"]
    assert drawn["x"][0] == pytest.approx(0.1)  # axes start there: 1/4 is above it
    for rate, low, high in ((0.5, 0, 0.25), (0.75, 0.25, 0.5), (1.0, 0.5, 1.1)):
        assert set(drawn["y"][(drawn["x"] > low) & (drawn["x"] < high)]) == {rate}


def test_a_roc_without_a_side_says_so() -> None:
    nothing = np.array([0.0, np.nan])
    assert "no members, or no non-members" in roc_picture(Roc(nothing, nothing, nothing, 3, 0))


def test_a_plane_draws_first_middle_and_last_and_a_single_checkpoint_once() -> None:
    states = np.random.default_rng(0).random((5, 300, 2))
    states[:, 7] = np.nan  # a record every model has seen
    paths = Trajectories((1, 2, 4, 8, 16), states)
    html = paths._repr_html_()
    check_stays_here(html)
    assert re.findall(r"Epoch (\d+)", html) == ["1", "4", "16"]
    assert "299 records" in html and len(html) < 400_000
    single = Trajectories((16,), states[:1])._repr_html_()
    assert re.findall(r"Epoch (\d+)", single) == ["16"]
    unseen = Trajectories((1,), np.full((1, 3, 2), np.nan))._repr_html_()
    assert "No plane" in unseen


def test_cells_are_where_the_records_are() -> None:
    states = np.array([[[0.0, 1.0]] * 4 + [[1.0, 0.5]]])  # four at the lowest FPR and the highest TPR
    density = plane_chart(Trajectories((1,), states), 0).figure["data"][0]
    assert np.argwhere(density["z"]).tolist() == [[10, 19], [19, 0]]  # (TPR, FPR)
    assert density["z"][19, 0] == 2 * density["z"][10, 19]  # roots of the counts


def test_text_from_data_is_escaped() -> None:
    evil = "<script>alert('x')</script>&\"🙂"
    chart = Chart("id", {"data": [], "layout": {"xaxis": {}, "yaxis": {}}}, evil)
    for html in (picture([chart]), summary_and_table([evil], [evil], [[evil]])):
        assert "<script>" not in html and "&lt;script&gt;" in html


def test_a_verdict_shows_its_words_and_a_table(tmp_path: Path) -> None:
    with quick_single_records():
        verdict = made_up_audit(tmp_path / "run", 1.0)
    html = verdict._repr_html_()
    check_stays_here(html)
    for sentence in verdict.summary():
        assert sentence.replace("'", "&#39;") in html
    assert html.count("<tr>") == 1 + len(verdict.results.attacks)
    assert "AUC (95% interval for records like these)" in html
    config = replace(verdict.results.config, records="<img src=x onerror=alert(1)>")
    evil = Verdict(replace(verdict.results, config=config), tmp_path)._repr_html_()
    assert "<img" not in evil and "&lt;img" in evil


def test_showing_a_result_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np, leakscope\n"
        "from leakscope.report.notebook import roc_picture\n"
        "from leakscope.stats.roc import roc\n"
        "assert 'matplotlib' not in sys.modules\n"
        "assert '<img' in roc_picture(roc(np.arange(4.0), np.array([0, 1, 0, 1], bool)))\n"
        "assert 'torch' not in sys.modules"
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


@pytest.mark.slow
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
