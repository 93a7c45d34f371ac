"""The charts of an audit's page, each with its numbers: ROC, precision, scores, groups, bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.audits.report.sections import (
    group_cells,
    leakage_cells,
    leakage_text,
    no_interval_words,
    why_no_bits,
)
from leakscope.audits.report.table import attack_rows, intervals_in_words, unresolvable
from leakscope.disk.scratch import evict_pages, over_blocks
from leakscope.report.charts import chart, colour
from leakscope.report.page import Section, paragraphs
from leakscope.report.roc_bands import RocBand
from leakscope.report.tables import Table, table
from leakscope.report.templates import template
from leakscope.types import Design, Scores

Results = dict[str, Any]
_BINS = 80
_TAIL = 0.02
_SAMPLED = 2_000_000  # scores that say where the histogram begins and ends
_SHOWN_RATES = (0.001, 0.01, 0.1, 0.5)
_START_PRIOR = 0.1


def roc_section(results: Results, bands: Mapping[str, RocBand]) -> Section:
    """ROC on log axes, and TPR at the FPRs asked for."""
    n_targets = results["population"]["targets"]
    alt = "True positive rate against false positive rate of every attack, both on logarithmic axes."
    if n_targets > 1:
        alt += f" Lines are means over {n_targets} targets, bands the 5% to 95% range over them."
    head, rows = attack_rows(results)
    numbers = table(head, rows, intervals_in_words(n_targets))
    picture = chart("roc-chart", _roc_figure(results, bands), alt, _roc_numbers(bands), height=460)
    note = "The further a curve lies above the dashed line, the better that attack does than guessing."
    return Section("roc", "ROC", numbers + paragraphs(unresolvable(results)) + picture, note)


def _roc_figure(results: Results, bands: Mapping[str, RocBand]) -> Results:
    traces: list[Results] = []
    smallest = min(float(band.fpr[0]) for band in bands.values())
    for k, (name, band) in enumerate(bands.items()):
        label = f"{name} (AUC {results['attacks'][name]['auc']['value']:.3f})"
        traces += _point(band, k, label) if band.yes else _curve(band, k, label, smallest)
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


def _curve(band: RocBand, k: int, label: str, smallest: float) -> list[Results]:
    low = np.maximum(band.low, smallest / 10)
    hover = "%{y:.2%} of members at %{x:.2%} of non-members"
    return [
        {"x": np.concatenate([band.fpr, band.fpr[::-1]]), "y": np.concatenate([band.high, low[::-1]]),
         "fill": "toself", "fillcolor": colour(k, band=True), "line": {"width": 0}, "mode": "lines",
         "hoverinfo": "skip", "showlegend": False, "legendgroup": label},
        {"x": band.fpr, "y": band.mean, "name": label, "mode": "lines", "legendgroup": label,
         "line": {"color": colour(k), "width": 2.2},
         "hovertemplate": f"{hover}<extra>{_plain(label)}</extra>"},
    ]  # fmt: skip


def _point(band: RocBand, k: int, label: str) -> list[Results]:
    assert band.yes is not None, "called for attacks that say yes or no"
    fpr, tpr = band.yes
    return [
        {"x": [fpr], "y": [tpr], "name": label, "mode": "markers",
         "marker": {"color": colour(k), "symbol": "diamond", "size": 10},
         "hovertemplate": "%{y:.2%} of members at %{x:.2%} of non-members<extra></extra>"}
    ]  # fmt: skip


def _plain(text: str) -> str:
    """Plotly reads some tags in labels; a label has none."""
    return text.replace("<", "‹").replace(">", "›")


def _roc_numbers(bands: Mapping[str, RocBand]) -> Table:
    rows = [
        [f"{rate:.2%}", *(_at_rate(band, rate) for band in bands.values())]
        for rate in _SHOWN_RATES
        if any(rate >= band.fpr[0] for band in bands.values())
    ]
    return Table(["FPR", *bands], rows, "TPR, mean over targets, at some false positive rates")


def _at_rate(band: RocBand, rate: float) -> str:
    at = int(np.searchsorted(band.fpr, rate * (1 + 1e-9), side="right")) - 1
    return "not resolvable" if at < 0 else f"{band.mean[at]:.2%}"


def prior_section(results: Results) -> Section:
    """Precision where few are members; a slider sets how few."""
    points = [(name, p) for name, f in results["attacks"].items() for p in f["tpr_at_fpr"]]
    resolved = [(name, p) for name, p in points if p["value"] is not None]
    note = (
        "A false positive rate of 1% sounds small; where one in a thousand is a member, it is at least ten "
        "false alarms for each true one. Precision: of those called members, the share who are."
    )
    if not resolved:
        body = Markup('<p class="absent">{}</p>').format("No false positive rate asked for can be resolved.")
        return Section("precision", "Precision", body, note)
    rows = [(name, p, _precision(p["value"], p["fpr"], _START_PRIOR)) for name, p in resolved]
    return Section("precision", "Precision", template("prior.html.j2", rows=rows, prior=_START_PRIOR), note)


def _precision(tpr: float, fpr: float, prior: float) -> float:
    called = prior * tpr + (1 - prior) * fpr
    return prior * tpr / called if called else float("nan")


def scores_section(results: Results, scores: Mapping[str, Scores], design: Design, strongest: str) -> Section:
    """How members' and non-members' scores are distributed, one attack at a time."""
    names = [strongest, *(name for name in results["attacks"] if name != strongest)]
    traces = [
        trace
        for name in names
        for trace in _histogram(name, scores[name].values, design.rows(scores[name].targets), strongest)
    ]
    figure = {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "score (higher means member)"}},
            "yaxis": {"title": {"text": "share of the side"}, "tickformat": ".1%", "rangemode": "tozero"},
            "hovermode": "x",
        },
    }
    n_scores = scores[strongest].values.size
    alt = (
        f"Distribution of an attack's scores, members against non-members ({n_scores:,} scores); the outer "
        "2% lie in the outer bars."
    )
    body = template("choice.html.j2", chart_id="scores-chart", names=names) + chart(
        "scores-chart", figure, alt
    )
    return Section("scores", "Scores", body, "Where the two shapes overlap, an attacker can only guess.")


def _histogram(name: str, values: FloatArray, in_mask: BoolArray, shown: str) -> list[Results]:
    every = max(1, values.size // _SAMPLED)
    sample = np.array(values[:, ::every])
    evict_pages(values)
    low, high = np.quantile(sample, [_TAIL, 1 - _TAIL])
    if not np.isfinite([low, high]).all() or low == high:
        finite = sample[np.isfinite(sample)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    middles = (edges[1:] + edges[:-1]) / 2

    def counts(columns: slice) -> IntArray:
        clipped, mask = np.clip(values[:, columns], edges[0], edges[-1]), in_mask[:, columns]
        return np.stack([np.histogram(clipped[side], edges)[0] for side in (mask, ~mask)])

    found = np.sum(over_blocks(values.shape[1], counts, values, in_mask), axis=0)  # (2, bins)
    traces = []
    for k, (side, counted) in enumerate(zip(("members", "non-members"), found, strict=True)):
        share = (counted / max(int(counted.sum()), 1)).round(6)
        traces.append(
            {"x": middles.round(4), "y": share, "name": side, "mode": "lines",
             "line": {"shape": "hvh", "color": colour(k), "width": 1.6}, "fill": "tozeroy",
             "fillcolor": colour(k, band=True), "meta": name, "visible": name == shown,
             "hovertemplate": "%{y:.2%}<extra>" + side + "</extra>"}
        )  # fmt: skip
    return traces


def groups_section(results: Results, attack: str) -> Section:
    """AUC by group with intervals."""
    columns = results["attacks"][attack]["groups"]
    body = Markup("").join(_group_chart(k, name, columns[name], attack) for k, name in enumerate(columns))
    body += paragraphs([f"Not judged by {name}: {why}." for name, why in results["groups_left_out"].items()])
    if not columns:
        body += Markup('<p class="absent">{}</p>').format(
            "These records have no groups. Name columns in `groups` to see whether some people carry more "
            "of the risk than others."
        )
    note = (
        f"Does the risk fall on some more than on others? {attack}; intervals are 95%, one group at a time."
    )
    return Section("groups", "Groups", body, note)


def _group_chart(k: int, column: str, groups: Sequence[Results], attack: str) -> Markup:
    defined = [g for g in groups if g["auc"]["value"] is not None]
    names = [_shortened(g["group"]) for g in defined]
    values = np.array([g["auc"]["value"] for g in defined], dtype=float)
    low, high = (np.array([_end(g["auc"], end) for g in defined], dtype=float) for end in ("low", "high"))
    figure = {
        "data": [
            {"x": values, "y": names, "mode": "markers", "marker": {"color": colour(0), "size": 9},
             "error_x": {"type": "data", "symmetric": False, "array": high - values,
                         "arrayminus": values - low, "color": colour(0), "thickness": 1.6},
             "hovertemplate": "%{x:.3f}<extra>%{y}</extra>"}
        ],
        "layout": {
            "xaxis": {"title": {"text": "AUC (0.5 is guessing)"}},
            "yaxis": {"type": "category", "autorange": "reversed"},
            "shapes": [{"type": "line", "x0": 0.5, "x1": 0.5, "y0": 0, "y1": 1, "yref": "paper",
                        "line": {"color": "var(--muted)", "dash": "dash", "width": 1}}],
        },
    }  # fmt: skip
    cells = group_cells(groups, column)
    alt = f"AUC of {attack} for each group of {_shortened(column)}, with 95% intervals."
    title = Markup("<h3>By {}</h3>").format(_shortened(column))
    return title + chart(f"groups-{k}", figure, alt, Table(cells.head, cells.rows), 90 + 26 * len(defined))


def _end(figure: Results, end: str) -> float:
    return float(figure["value"] if figure[end] is None else figure[end])


def _shortened(text: str, most: int = 40) -> str:
    """For an axis: no tags, not too long."""
    return _plain(text if len(text) <= most else text[: most - 1] + "…")


def bits_section(results: Results) -> Section:
    """Bits an answer carries about a membership, over training where checkpoints were kept."""
    reason = why_no_bits(results)
    if reason:
        body = Markup('<p class="absent">Not computed: {}.</p>').format(reason)
        return Section("bits", "Bits", body)
    cells, checkpoints = leakage_cells(results), results["leakage"]["checkpoints"]
    body = table(cells.head, cells.rows) + paragraphs(no_interval_words(results))
    if len(checkpoints) > 1:
        body = _bits_chart(checkpoints) + body
    else:
        body += Markup('<p class="absent">{}</p>').format(
            "One checkpoint was kept, so nothing can be said about when in training the bits appear."
        )
    return Section("bits", "Bits", body, leakage_text(results))


def _bits_chart(checkpoints: Sequence[Results]) -> Markup:
    epochs = [at["epoch"] for at in checkpoints]
    traces = []
    for k, (key, name) in enumerate({"bits": "mean over records", "most_exposed": "most exposed 1%"}.items()):
        found = [at[key] for at in checkpoints]
        value = np.array([np.nan if f["value"] is None else f["value"] for f in found], dtype=float)
        low, high = (np.array([np.nan if f[e] is None else f[e] for f in found]) for e in ("low", "high"))
        traces.append(
            {"x": epochs, "y": value, "name": name, "mode": "lines+markers", "line": {"color": colour(k)},
             "error_y": {"type": "data", "symmetric": False, "array": high - value,
                         "arrayminus": value - low, "color": colour(k), "thickness": 1.2}}
        )  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "epoch"}},
        "yaxis": {"title": {"text": "bits about one membership"}},
    }
    alt = "Bits that an answer carries about one membership, over training."
    return chart("bits-chart", {"data": traces, "layout": layout}, alt)
