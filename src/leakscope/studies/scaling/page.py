"""The scaling study's report.html: the answer, the widths, four charts, the correlations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from leakscope.bank.run_folder import to_jsonable
from leakscope.disk.storage import write_bytes
from leakscope.report.charts import chart, colour
from leakscope.report.page import PAGE, Page, Section, paragraphs
from leakscope.report.study_page import (
    Command,
    absent,
    bullets,
    closest,
    conventions,
    folder_facts,
    grid,
    heading,
    options,
    reproduce,
)
from leakscope.report.tables import Table, table
from leakscope.studies.scaling.config import PRESETS, ScalingConfig
from leakscope.studies.scaling.report import (
    ANSWER_NOTE,
    CONVENTIONS,
    SHORT_NAMES,
    TABLE_NOTE,
    correlation_lines,
    partial_table,
    predictor_table,
    published_rows,
    published_table,
    ranked_findings,
    setting_words,
    width_table,
)
from leakscope.studies.scaling.results import ScalingResults

Trace = dict[str, Any]
"""A trace of plotly."""

_SIZE = "parameters (log scale)"
_GAP = "overfitting gap (train minus test accuracy)"


def write_page(results: ScalingResults, folder: Path) -> None:
    """Writes report.html."""
    write_bytes(folder / PAGE, page(results, folder).encode())


def page(results: ScalingResults, folder: Path) -> str:
    """The page as text."""
    sections = [
        Section(
            "answer", "Gap or size", _answer(results), "Which one predicts attack success across widths?"
        ),
        Section("widths", "Widths", _widths(results)),
        Section("charts", "Charts", _charts(results)),
        Section(
            "correlations",
            "Correlations",
            bullets(correlation_lines(results)),
            "Of the shadow-model attack, as published; 95% intervals by Fisher's z.",
        ),
        conventions(CONVENTIONS),
        reproduce(command(results.config), results.config.seed, results.runtime.versions),
    ]
    return Page(
        "Membership leakage against model width: small MLPs",
        headline(results),
        [*_facts(results), *folder_facts(folder)],
        sections,
        {},
        _limits(results.config),
    ).render()


def headline(results: ScalingResults) -> list[str]:
    """The answers with their evidence, that of the strongest attack first."""
    lead, *others = ranked_findings(results)
    return [lead.answer, lead.evidence, *(f"{finding.answer} {finding.evidence}" for finding in others)]


def command(config: ScalingConfig) -> Command:
    """The command line that runs this study."""
    presets = {name: to_jsonable(preset) for name, preset in PRESETS.items()}
    preset, given = closest(presets, to_jsonable(config))
    return Command(
        ("leakscope", "study", "scaling", "--preset", preset, *options(given), "--out", "runs/again")
    )


def _answer(results: ScalingResults) -> Markup:
    tables = [_table(predictor_table(results)), _table(partial_table(results))]
    return Markup("").join([*tables, paragraphs([ANSWER_NOTE])])


def _table(content: Table) -> Markup:
    return table(content.head, content.rows, content.caption)


def _widths(results: ScalingResults) -> Markup:
    published = published_table(results)
    not_compared = (
        "This run does not follow the published protocol, so it is not compared with the published table."
    )
    return (
        _table(width_table(results))
        + paragraphs([TABLE_NOTE])
        + heading("Comparison with published values")
        + (absent(not_compared) if published is None else _table(published))
    )


def _charts(results: ScalingResults) -> Markup:
    rows = results.results
    size, gap = [float(row.n_params) for row in rows], [row.mean_overfit_gap for row in rows]
    published = published_rows(results)
    aucs = []
    for k, name in enumerate(results.attacks):
        of_attack = [row.attacks[name] for row in rows]
        line = _line(size, [a.mean_auc for a in of_attack], SHORT_NAMES[name], k)
        aucs.append(_with_spread(line, [a.std_auc for a in of_attack]))
    gap_by_size = _with_spread(_line(size, gap, "gap", 0), [row.std_overfit_gap for row in rows])
    accuracy = [
        _line(size, [row.mean_train_acc for row in rows], "members", 0),
        _line(size, [row.mean_test_acc for row in rows], "non-members", 1),
    ]
    published_gap, published_auc = [p.gap for p in published], [p.attack_auc for p in published]
    by_gap = [{**trace, "x": gap, "mode": "markers"} for trace in aucs]
    by_size = [*aucs, *_rings(size, published_auc)]
    return grid(
        heading("Attack success against size")
        + _chart("auc-size", by_size, _SIZE, "attack AUC", width_table(results)),
        heading("Attack success against overfitting")
        + _chart("auc-gap", [*by_gap, *_rings(published_gap, published_auc)], _GAP, "attack AUC"),
        heading("Overfitting against size")
        + _chart("gap-size", [gap_by_size, *_rings(size, published_gap)], _SIZE, "overfitting gap"),
        heading("Accuracy against size") + _chart("accuracy-size", accuracy, _SIZE, "accuracy"),
    )


def _chart(id: str, data: list[Trace], x: str, y: str, numbers: Table | None = None) -> Markup:
    x_axis: dict[str, Any] = {"title": {"text": x}}
    if x == _SIZE:
        size = data[0]["x"]
        ticks = size[:: max(1, len(size) // 5)]
        x_axis |= {"type": "log", "tickvals": ticks, "ticktext": [f"{n:,.0f}" for n in ticks]}
    layout = {"xaxis": x_axis, "yaxis": {"title": {"text": y}}, "legend": {"orientation": "h", "y": -0.3},
              "margin": {"l": 64, "r": 16, "t": 24, "b": 52}}  # fmt: skip
    spread = "; bars are standard deviations over repeats" if "error_y" in data[0] else ""
    return chart(
        id, {"data": data, "layout": layout}, f"Mean {y} over repeats against {x}{spread}.", numbers, 400
    )


def _line(x: list[float], y: list[float], name: str, k: int) -> Trace:
    return {"type": "scatter", "mode": "lines+markers", "x": x, "y": y, "name": name,
            "line": {"color": colour(k), "width": 2}, "marker": {"color": colour(k)}}  # fmt: skip


def _with_spread(line: Trace, sd: list[float]) -> Trace:
    return {**line, "error_y": {"type": "data", "array": sd, "color": line["line"]["color"], "thickness": 1}}


def _rings(x: Sequence[float], published: Sequence[float]) -> list[Trace]:
    """The published values as rings; nothing where there are none."""
    if not published:
        return []
    marker = {"symbol": "circle-open", "size": 11, "color": "var(--muted)"}
    return [{"type": "scatter", "mode": "markers", "x": x, "y": published, "name": "published",
             "marker": marker}]  # fmt: skip


def _facts(results: ScalingResults) -> list[tuple[str, str]]:
    widths = results.config.widths
    return [
        ("What", setting_words(results)),
        ("Widths", f"{len(widths)}, from {min(widths)} to {max(widths)}"),
        ("Models", f"{results.runtime.n_models:,}"),
        ("Seed", str(results.config.seed)),
    ]


def _limits(config: ScalingConfig) -> list[str]:
    lines = [
        "These are small MLPs on Gaussian classes: a toy setting, chosen because all else can be held fixed.",
        "A correlation over widths is not a cause: width changes gap and size together.",
    ]
    if config.target_data == "fixed":
        lines.append("All repeats share one target dataset, so their spread is that of training alone.")
    if config.shadow_data == "redrawn":
        lines.append("Shadow models have class centers of their own, as published, which weakens the attack.")
    if not config.n_reference:
        lines.append("LiRA is not run: there are no reference models.")
    return lines
