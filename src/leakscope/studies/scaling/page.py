"""The scaling study's report.html: the answer, the widths, four charts, the correlations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from leakscope.bank.run_folder import to_jsonable
from leakscope.disk.storage import write_bytes
from leakscope.report.charts import chart, colour
from leakscope.report.page import PAGE, Section, paragraphs, render
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
    ATTACK_NAMES,
    CONVENTIONS,
    TABLE_NOTE,
    correlation_lines,
    partial_lines,
    published_rows,
    published_table,
    setting_words,
    width_table,
)
from leakscope.studies.scaling.results import Estimate, ScalingResults

Trace = dict[str, Any]
"""A trace of plotly."""

_SIZE = "parameters (log scale)"
_GAP = "overfitting gap (train minus test accuracy)"
_CHECK = "correctness"
"""Its AUC is the gap itself, up to a factor: a check, not a finding."""


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
            "Over width means, for the shadow-model attack; 95% intervals by Fisher's z.",
        ),
        conventions(CONVENTIONS),
        reproduce(command(results.config), results.config.seed, results.runtime.versions),
    ]
    return render(
        "Membership leakage against model width: small MLPs",
        headline(results),
        [*_facts(results), *folder_facts(folder)],
        sections,
        {},
        _limits(results.config),
    )


def headline(results: ScalingResults) -> list[str]:
    """The answers, that of the strongest attack first."""
    answers = [found for name, found in results.gap_or_size.items() if name != _CHECK]
    return [found.answer for found in sorted(answers, key=lambda found: -(found.mean_auc.value or 0))]


def command(config: ScalingConfig) -> Command:
    """The command line that runs this study."""
    presets = {name: to_jsonable(preset) for name, preset in PRESETS.items()}
    preset, given = closest(presets, to_jsonable(config))
    return Command(
        ("leakscope", "study", "scaling", "--preset", preset, *options(given), "--out", "runs/again")
    )


def _answer(results: ScalingResults) -> Markup:
    head = ("attack", "mean AUC", "r with the gap", "r with log2 parameters", "difference")
    rows = [
        [
            ATTACK_NAMES[name],
            *map(_with_interval, (found.mean_auc, found.r_gap, found.r_size, found.difference)),
        ]
        for name, found in results.gap_or_size.items()
    ]
    return (
        bullets([found.answer for found in results.gap_or_size.values()])
        + table(head, rows, "With 95% intervals")
        + bullets(partial_lines(results))
        + paragraphs([ANSWER_NOTE])
    )


def _with_interval(estimate: Estimate) -> str:
    if estimate.value is None:
        return "undefined"
    ends = "" if estimate.low is None else f" ({estimate.low:.3f} to {estimate.high:.3f})"
    return f"{estimate.value:.3f}{ends}"


def _widths(results: ScalingResults) -> Markup:
    widths, published = width_table(results), published_table(results)
    body = (
        table(widths.head, widths.rows)
        + paragraphs([TABLE_NOTE])
        + heading("Comparison with published values")
    )
    if published is None:
        return body + absent(
            "This run does not follow the published protocol, so it is not compared with the published table."
        )
    return body + table(published.head, published.rows, published.caption)


def _charts(results: ScalingResults) -> Markup:
    rows = results.results
    size, gap = [float(row.n_params) for row in rows], [row.mean_overfit_gap for row in rows]
    published = published_rows(results)
    aucs = []
    for k, name in enumerate(results.attacks):
        of_attack = [row.attacks[name] for row in rows]
        line = _line(size, [a.mean_auc for a in of_attack], ATTACK_NAMES[name], k)
        aucs.append(_with_spread(line, [a.std_auc for a in of_attack]))
    gap_by_size = _with_spread(_line(size, gap, "gap", 0), [row.std_overfit_gap for row in rows])
    accuracy = [
        _line(size, [row.mean_train_acc for row in rows], "members", 0),
        _line(size, [row.mean_test_acc for row in rows], "non-members", 1),
    ]
    published_gap, published_auc = [p.gap for p in published], [p.attack_auc for p in published]
    by_gap = [{**trace, "x": gap, "mode": "markers"} for trace in aucs]
    n = f"mean of {results.config.n_repeats} repeats"
    auc, numbers = f"attack AUC ({n})", width_table(results)
    return grid(
        heading("Attack success against size")
        + _chart("auc-size", [*aucs, *_rings(size, published_auc)], _SIZE, auc, numbers),
        heading("Attack success against overfitting")
        + _chart("auc-gap", [*by_gap, *_rings(published_gap, published_auc)], _GAP, auc),
        heading("Overfitting against size")
        + _chart("gap-size", [gap_by_size, *_rings(size, published_gap)], _SIZE, f"overfitting gap ({n})"),
        heading("Accuracy against size") + _chart("accuracy-size", accuracy, _SIZE, f"accuracy ({n})"),
    )  # fmt: skip


def _chart(id: str, data: list[Trace], x: str, y: str, numbers: Table | None = None) -> Markup:
    x_axis: dict[str, Any] = {"title": {"text": x}}
    if x == _SIZE:
        size = data[0]["x"]
        ticks = size[:: max(1, len(size) // 5)]
        x_axis |= {"type": "log", "tickvals": ticks, "ticktext": [f"{n:,.0f}" for n in ticks]}
    layout = {"xaxis": x_axis, "yaxis": {"title": {"text": y}}, "legend": {"orientation": "h", "y": -0.3}}
    spread = ", with standard deviations over repeats" if "error_y" in data[0] else ""
    return chart(id, {"data": data, "layout": layout}, f"{y} against {x}{spread}.", numbers, 400)


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
