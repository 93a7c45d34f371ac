"""The charts of an audit's page, each with its numbers: ROC, precision, groups, bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from leakscope.array_types import FloatArray
from leakscope.audits.report.cells import (
    NOT_MEASURABLE,
    attack_table,
    group_reasons,
    group_table,
    leakage_table,
    leakage_text,
    no_interval_sentences,
    unmeasurable,
    why_no_bits,
)
from leakscope.evaluate.results import AuditResults, GroupFigures
from leakscope.leakage.checkpoints import CheckpointLeakage
from leakscope.report.charts import chart, colour
from leakscope.report.page import Section, paragraphs
from leakscope.report.roc_bands import RocBand
from leakscope.report.tables import Table, table
from leakscope.report.templates import template
from leakscope.stats.estimate import Estimate

PlotlyFigure = dict[str, Any]
"""`data` and `layout`, or a trace, as plotly reads them."""
_SHOWN_RATES = (0.001, 0.01, 0.1, 0.5)
_START_PRIOR = 0.1


def roc_section(results: AuditResults, bands: Mapping[str, RocBand]) -> Section:
    """ROC on log axes, and the table of all attacks."""
    n_targets = results.population.targets
    alt = "True positive rate against false positive rate of every attack, both on logarithmic axes."
    if n_targets > 1:
        alt += f" Lines are means over {n_targets} targets; bands span the 5% to 95% range."
    attacks = attack_table(results)
    numbers = table(attacks.head, attacks.rows, attacks.caption)
    picture = chart("roc-chart", _roc_figure(results, bands), alt, _roc_numbers(bands), height=460)
    note = (
        "The true positive rate (TPR) is the share of members an attack detects; the false positive rate "
        "(FPR) is the share of non-members it takes for members. The further a curve lies above the dashed "
        "line, the more an attack gains over guessing."
    )
    return Section("roc", "ROC", numbers + paragraphs(unmeasurable(results)) + picture, note)


def _roc_figure(results: AuditResults, bands: Mapping[str, RocBand]) -> PlotlyFigure:
    traces: list[PlotlyFigure] = []
    smallest = min(float(band.fpr[0]) for band in bands.values())
    for k, (label, band) in enumerate(bands.items()):
        legend = f"{label} (AUC {results.attacks[label].auc.value:.3f})"
        traces += _point(band, k, legend) if band.yes else _curve(band, k, legend, smallest)
    guess = np.geomspace(smallest, 1, 30)
    traces.append(
        {"x": guess, "y": guess, "name": "guessing", "mode": "lines", "hoverinfo": "skip",
         "line": {"color": "var(--muted)", "dash": "dash", "width": 1}}
    )  # fmt: skip
    floor = float(np.log10(smallest))
    return {
        "data": traces,
        "layout": {
            "xaxis": {"type": "log", "range": [floor, 0.02], "title": {"text": "false positive rate"},
                      "tickformat": "~%", "dtick": 1},
            "yaxis": {"type": "log", "range": [floor, 0.05], "title": {"text": "true positive rate"},
                      "tickformat": "~%", "dtick": 1},
            "hovermode": "closest",
        },
    }  # fmt: skip


def _curve(band: RocBand, k: int, legend: str, smallest: float) -> list[PlotlyFigure]:
    low = np.maximum(band.low, smallest / 10)
    hover = "%{y:.2%} of members at %{x:.2%} of non-members"
    return [
        {"x": np.concatenate([band.fpr, band.fpr[::-1]]), "y": np.concatenate([band.high, low[::-1]]),
         "fill": "toself", "fillcolor": colour(k, band=True), "line": {"width": 0}, "mode": "lines",
         "hoverinfo": "skip", "showlegend": False, "legendgroup": legend},
        {"x": band.fpr, "y": band.mean, "name": legend, "mode": "lines", "legendgroup": legend,
         "line": {"color": colour(k), "width": 2.2},
         "hovertemplate": f"{hover}<extra>{_plain(legend)}</extra>"},
    ]  # fmt: skip


def _point(band: RocBand, k: int, legend: str) -> list[PlotlyFigure]:
    assert band.yes is not None, "called for binary attacks"
    fpr, tpr = band.yes
    return [
        {"x": [fpr], "y": [tpr], "name": legend, "mode": "markers",
         "marker": {"color": colour(k), "symbol": "diamond", "size": 10},
         "hovertemplate": "%{y:.2%} of members at %{x:.2%} of non-members<extra></extra>"}
    ]  # fmt: skip


def _plain(text: str) -> str:
    """Text without tags, which plotly would interpret."""
    return text.replace("<", "‹").replace(">", "›")


def _roc_numbers(bands: Mapping[str, RocBand]) -> Table:
    rows = [
        [f"{rate:.2%}", *(_at_rate(band, rate) for band in bands.values())]
        for rate in _SHOWN_RATES
        if any(rate >= band.fpr[0] for band in bands.values())
    ]
    return Table(["FPR", *bands], rows, "Mean TPR over targets at some false positive rates")


def _at_rate(band: RocBand, rate: float) -> str:
    at = int(np.searchsorted(band.fpr, rate * (1 + 1e-9), side="right")) - 1
    return NOT_MEASURABLE if at < 0 else f"{band.mean[at]:.2%}"


def precision_section(results: AuditResults) -> Section:
    """Precision where members are few; a slider sets how few."""
    points = [
        (label, point)
        for label, figures in results.attacks.items()
        for point in figures.tpr_at_fpr
        if point.value is not None
    ]
    note = (
        "Precision is the share of members among the records an attack calls members. A false positive rate "
        "of 1% may look small, but where one record in a thousand is a member it means about ten false "
        "alarms for each true one, or more."
    )
    if not points:
        body = Markup('<p class="absent">{}</p>').format("No TPR is measurable at the chosen FPR budgets.")
        return Section("precision", "Precision", body, note)
    rows = [(label, p, _precision(p.value or 0.0, p.fpr, _START_PRIOR)) for label, p in points]
    return Section("precision", "Precision", template("prior.html.j2", rows=rows, prior=_START_PRIOR), note)


def _precision(tpr: float, fpr: float, prior: float) -> float:
    called = prior * tpr + (1 - prior) * fpr
    return prior * tpr / called if called else float("nan")


def groups_section(results: AuditResults) -> Section:
    """AUC by group with intervals, of the strongest attack."""
    attack = results.strongest_attack
    columns = results.attacks[attack].groups
    body = Markup("").join(_group_chart(k, name, columns[name], attack) for k, name in enumerate(columns))
    body += paragraphs(group_reasons(results))
    if not columns:
        body += Markup('<p class="absent">{}</p>').format(
            "The records have no groups. Set `groups` to compare the risk between groups of people."
        )
    note = f"Does the risk differ between groups? Attack: {attack}. Each group has its own 95% interval."
    return Section("groups", "Groups", body, note)


def _group_chart(k: int, column: str, groups: Sequence[GroupFigures], attack: str) -> Markup:
    defined = [group for group in groups if group.auc.value is not None]
    names = [_shortened(group.group) for group in defined]
    values, low, high = _ends([group.auc for group in defined])
    figure = {
        "data": [
            {"x": values, "y": names, "mode": "markers", "marker": {"color": colour(0), "size": 9},
             "error_x": {"type": "data", "symmetric": False, "array": np.nan_to_num(high - values),
                         "arrayminus": np.nan_to_num(values - low), "color": colour(0), "thickness": 1.6},
             "hovertemplate": "%{x:.3f}<extra>%{y}</extra>"}
        ],
        "layout": {
            "xaxis": {"title": {"text": "AUC (0.5 is guessing)"}},
            "yaxis": {"type": "category", "autorange": "reversed"},
            "shapes": [{"type": "line", "x0": 0.5, "x1": 0.5, "y0": 0, "y1": 1, "yref": "paper",
                        "line": {"color": "var(--muted)", "dash": "dash", "width": 1}}],
        },
    }  # fmt: skip
    alt = f"AUC of {attack} for each group of {_shortened(column)}, with 95% intervals."
    heading = Markup("<h3>By {}</h3>").format(_shortened(column))
    numbers = group_table(groups, column)
    return heading + chart(f"groups-{k}", figure, alt, numbers, 90 + 26 * len(defined))


def _ends(estimates: Sequence[Estimate]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values, lower and upper ends; float64 (estimates,) each, NaN where undefined."""
    columns = np.array([[e.value, e.low, e.high] for e in estimates], dtype=np.float64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _shortened(text: str, most: int = 40) -> str:
    """For an axis: no tags, not too long."""
    return _plain(text if len(text) <= most else text[: most - 1] + "…")


def bits_section(results: AuditResults) -> Section:
    """Bits of membership per record, over training where there are several checkpoints."""
    reason = why_no_bits(results)
    if reason:
        body = Markup('<p class="absent">Undefined: {}.</p>').format(reason)
        return Section("bits", "Bits", body)
    numbers, checkpoints = leakage_table(results), results.leakage.checkpoints
    body = table(numbers.head, numbers.rows) + paragraphs(no_interval_sentences(results))
    if len(checkpoints) > 1:
        body = _bits_chart(checkpoints) + body
    else:
        body += Markup('<p class="absent">{}</p>').format(
            "This run has one checkpoint; set training.checkpoints to follow leakage over training."
        )
    return Section("bits", "Bits", body, leakage_text(results))


def _bits_chart(checkpoints: Sequence[CheckpointLeakage]) -> Markup:
    series: dict[str, list[Estimate]] = {
        "mean over records": [at.bits for at in checkpoints],
        "most exposed 1%": [at.most_exposed for at in checkpoints],
    }
    epochs, traces = [at.epoch for at in checkpoints], []
    for k, (name, estimates) in enumerate(series.items()):
        value, low, high = _ends(estimates)
        traces.append(
            {"x": epochs, "y": value, "name": name, "mode": "lines+markers", "line": {"color": colour(k)},
             "error_y": {"type": "data", "symmetric": False, "array": high - value,
                         "arrayminus": value - low, "color": colour(k), "thickness": 1.2}}
        )  # fmt: skip
    layout = {"xaxis": {"title": {"text": "epoch"}}, "yaxis": {"title": {"text": "bits of membership"}}}
    alt = "Bits of membership that an output reveals, over training."
    return chart("bits-chart", {"data": traces, "layout": layout}, alt)
