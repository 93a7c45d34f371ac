"""The scaling study's report: the answer, the widths, four charts, the correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakscope.bank.run_folder import to_jsonable
from leakscope.report.blocks import Absent, Body, Bullets, Heading, Table
from leakscope.report.charts import Chart, Grid, PlotlyFigure, axis, colour, line
from leakscope.report.page import Page, Section
from leakscope.report.study_page import Command, closest, conventions, folder_facts, options, reproduce
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

_SIZE = "parameters (log scale)"
_GAP = "overfitting gap (train minus test accuracy)"


def write_report(results: ScalingResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/*.png, or the redacted page."""
    page(results, folder, redacted).write(folder)


def page(results: ScalingResults, folder: Path, redacted: bool = False) -> Page:
    """The report; no page of this study says anything about a single record."""
    answer: Body = [predictor_table(results), partial_table(results), ANSWER_NOTE]
    sections = [
        Section("answer", "Gap or size", answer, "Which one predicts attack success across widths?"),
        Section("widths", "Widths", _widths(results)),
        Section("charts", "Charts", [_charts(results)]),
        Section(
            "correlations",
            "Correlations",
            [Bullets(correlation_lines(results))],
            "Of the shadow-model attack, as published; 95% intervals by Fisher's z.",
        ),
        conventions(CONVENTIONS),
        reproduce(command(results.config), results.config.seed, results.runtime.versions),
    ]
    return Page(
        "Membership leakage against model width: small MLPs",
        headline(results),
        _facts(results),
        sections,
        _limits(results.config),
        folder_facts(folder),
        redacted=redacted,
    )


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


def _widths(results: ScalingResults) -> Body:
    published = published_table(results)
    not_compared = (
        "This run does not follow the published protocol, so it is not compared with the published table."
    )
    return [
        width_table(results),
        TABLE_NOTE,
        Heading("Comparison with published values"),
        Absent(not_compared) if published is None else published,
    ]


def _charts(results: ScalingResults) -> Grid:
    rows = results.results
    size, gap = [float(row.n_params) for row in rows], [row.mean_overfit_gap for row in rows]
    published = published_rows(results)
    aucs = []
    for k, name in enumerate(results.attacks):
        of_attack = [row.attacks[name] for row in rows]
        means, spread = [a.mean_auc for a in of_attack], [a.std_auc for a in of_attack]
        aucs.append(_line(size, means, SHORT_NAMES[name], k, spread))
    gap_by_size = _line(size, gap, "gap", 0, [row.std_overfit_gap for row in rows])
    accuracy = [
        _line(size, [row.mean_train_acc for row in rows], "members", 0),
        _line(size, [row.mean_test_acc for row in rows], "non-members", 1),
    ]
    published_gap, published_auc = [p.gap for p in published], [p.attack_auc for p in published]
    by_gap = [{**trace, "x": gap, "mode": "markers"} for trace in aucs]
    by_size = [*aucs, *_rings(size, published_auc)]
    return Grid(
        [
            _chart("attack_auc_vs_size", "Attack success against size", by_size, _SIZE, "attack AUC",
                   width_table(results)),
            _chart("attack_auc_vs_gap", "Attack success against overfitting",
                   [*by_gap, *_rings(published_gap, published_auc)], _GAP, "attack AUC"),
            _chart("overfit_gap_vs_size", "Overfitting against size",
                   [gap_by_size, *_rings(size, published_gap)], _SIZE, "overfitting gap"),
            replace(_chart("accuracy_vs_size", "Accuracy against size", accuracy, _SIZE, "accuracy"), png=""),
        ],
        png="summary_plots",
    )  # fmt: skip


def _chart(
    png: str, title: str, data: list[PlotlyFigure], x: str, y: str, numbers: Table | None = None
) -> Chart:
    x_axis = axis(x)
    if x == _SIZE:
        size = data[0]["x"]
        ticks = size[:: max(1, len(size) // 5)]
        x_axis |= {"type": "log", "tickvals": ticks, "ticktext": [f"{n:,.0f}" for n in ticks]}
    layout = {"xaxis": x_axis, "yaxis": axis(y), "legend": {"orientation": "h", "y": -0.3},
              "margin": {"l": 64, "r": 16, "t": 24, "b": 52}}  # fmt: skip
    spread = "; bars are standard deviations over repeats" if "error_y" in data[0] else ""
    alt = f"Mean {y} over repeats against {x}{spread}."
    return Chart(png.replace("_", "-"), {"data": data, "layout": layout}, alt, numbers, 400, title, png)


def _line(x: list[float], y: list[float], name: str, k: int, sd: list[float] | None = None) -> PlotlyFigure:
    drawn = line(x, y, name, colour(k), mode="lines+markers", marker={"color": colour(k)})
    bars = {"type": "data", "array": sd, "color": colour(k), "thickness": 1}
    return drawn if sd is None else {**drawn, "error_y": bars}


def _rings(x: Sequence[float], published: Sequence[float]) -> list[PlotlyFigure]:
    """The published values as rings; nothing where there are none."""
    marker = {"symbol": "circle-open", "size": 11, "color": "var(--muted)"}
    ring = {"type": "scatter", "mode": "markers", "x": x, "y": published, "name": "published",
            "marker": marker}  # fmt: skip
    return [ring] if published else []


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
