"""The scaling study's report: the answer, the widths, four charts, the correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakscope.disk.storage import write_bytes
from leakscope.report.blocks import Body, Bullets, Heading, Table
from leakscope.report.charts import Chart, Grid, PlotlyFigure, axis, colour, line
from leakscope.report.page import Page, Section
from leakscope.report.study_page import conventions, folder_facts, reproduce
from leakscope.studies.claims import claims_section
from leakscope.studies.scaling.claims import PUBLICATION
from leakscope.studies.scaling.command import command
from leakscope.studies.scaling.config import GAUSSIAN, ScalingConfig
from leakscope.studies.scaling.published import PUBLISHED, PublishedRow
from leakscope.studies.scaling.results import GapOrSize, ScalingResults
from leakscope.studies.scaling.tables import (
    SHORT_NAMES,
    partial_table,
    predictor_tables,
    published_body,
    r_text,
    width_table,
)

_SIZE = "parameters (log scale)"
_GAP = "overfitting gap (train minus test accuracy)"
_TABLE_NOTE = (
    "Mean ± standard deviation over repeats (dividing by n). The gap is train minus test accuracy. The last "
    "columns are the AUC (area under the ROC curve) of each attack; 0.5 is guessing."
)
_ANSWER_NOTE = (
    "Intervals of correlations and of the difference resample repeats; a resample keeps a repeat's models at "
    "all widths together. The difference is that of the absolute values; it favors the gap or size if its "
    "interval excludes 0. Partial correlations hold the other predictor fixed, with intervals by Fisher's z. "
    "The AUC of correctness is exactly 0.5 + gap / 2, so its rows are a check, not a finding."
)
_CONVENTIONS = (
    "The shadow-model attack is a classifier of the softmax vector; it does not see the label.",
    "LiRA fits Gaussians to the log-odds of the target's reference models: one mean per record, and one "
    "variance each for members and non-members.",
    "ROC curves treat ties exactly. Parameter counts include biases.",
)


def write_report(results: ScalingResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/*.png, or the redacted page.

    The figures also lie beside results.json, where the publication's own validator looks for them.
    """
    page(results, folder, redacted).write(folder)
    if not redacted:
        for figure in sorted((folder / "figures").glob("*.png")):
            write_bytes(folder / figure.name, figure.read_bytes())


def page(results: ScalingResults, folder: Path, redacted: bool = False) -> Page:
    """The report; no page of this study says anything about a single record."""
    answer: Body = [*predictor_tables(results), partial_table(results), _ANSWER_NOTE]
    comparison = Heading("Comparison with published values")
    widths: Body = [width_table(results), _TABLE_NOTE, comparison, *published_body(results)]
    sections = [
        Section("answer", "Gap or size", answer, "Which one predicts attack success across widths?"),
        Section("widths", "Widths", widths),
        claims_section(PUBLICATION.settle([results])),
        Section("charts", "Charts", [_charts(results)]),
        Section(
            "correlations",
            "Correlations",
            [Bullets(_correlation_lines(results))],
            "Of the shadow-model attack, as published; 95% intervals by Fisher's z.",
        ),
        conventions(_CONVENTIONS),
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


def _charts(results: ScalingResults) -> Grid:
    rows = results.results
    size, gap = [float(row.n_params) for row in rows], [row.mean_overfit_gap for row in rows]
    published = _published_rows(results)
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
    published_gap, published_auc = [p.overfit_gap for p in published], [p.attack_auc for p in published]
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
    widths = results.config.hidden_widths
    return [
        ("What", _setting_words(results)),
        ("Widths", f"{len(widths)}, from {min(widths)} to {max(widths)}"),
        ("Models", f"{results.runtime.n_models:,}"),
        ("Seed", str(results.config.seed)),
    ]


def _limits(config: ScalingConfig) -> list[str]:
    lines = [
        "These are small MLPs: a toy setting, chosen because all else can be held fixed.",
        "A correlation over widths is not a cause: width changes gap and size together.",
    ]
    if config.target_data == "fixed":
        lines.append("All repeats share one target dataset, so their spread is that of training alone.")
    if config.shadow_data == "redrawn":
        lines.append("Shadow models have class centers of their own, as published, which weakens the attack.")
    if not config.n_reference:
        lines.append("LiRA is not run: there are no reference models.")
    if config.n_initializations == 1:
        lines.append("Each model is trained once, so how far figures depend on initial weights is unknown.")
    return lines


def _setting_words(results: ScalingResults) -> str:
    """What was trained, in one paragraph."""
    c = results.config
    same_records = "share the target's records" if c.target_data == "fixed" else "draw new records"
    return (
        f"{results.runtime.n_models:,} MLPs (Linear-ReLU-Linear; Adam, learning rate 0.01, batches of 64, 50 "
        f"epochs{_regularization_words(c)}) on {_data_words(c)}. A dataset has {c.n_samples} records, "
        f"{c.train_fraction:.0%} of them members. There are {c.n_repeats} repeats per width, which "
        f"{same_records}; each has one target, {c.n_shadow} shadow models with {_shadow_words(c)}, and "
        f"{c.n_reference} reference models. Targets and shadow models are trained from "
        f"{c.n_initializations} initializations. The attack classifier is {c.attacker}. Seed {c.seed}."
    )


def _regularization_words(config: ScalingConfig) -> str:
    dropout = f", dropout {config.dropout:g}" if config.dropout else ""
    return dropout + (f", weight decay {config.weight_decay:g}" if config.weight_decay else "")


def _data_words(config: ScalingConfig) -> str:
    if config.dataset != GAUSSIAN:
        return f"{config.dataset} ({config.n_features} features, {config.n_classes} classes)"
    return (
        f"{config.n_classes} Gaussian classes in {config.n_features} dimensions (standard deviation "
        f"{config.class_sd:g} around centers drawn from N(0, I))"
    )


def _shadow_words(config: ScalingConfig) -> str:
    if config.dataset != GAUSSIAN:
        return "records from the half of the dataset that the target has no records of"
    return "the target's class centers" if config.shadow_data == "same" else "class centers of their own"


def ranked_findings(results: ScalingResults) -> list[GapOrSize]:
    """Whether gap or size predicts an attack's success, that of the strongest attack first.

    Without correctness, whose AUC is the gap itself, up to a factor: a check, not a finding.
    """
    findings = [finding for name, finding in results.gap_or_size.items() if name != "correctness"]
    return sorted(findings, key=lambda finding: -(finding.mean_auc.value or 0))


def _published_rows(results: ScalingResults) -> list[PublishedRow]:
    """The published table's rows of the same widths; empty unless the protocol is the published one."""
    is_published = results.config.is_published_protocol
    return [PUBLISHED[row.hidden_width] for row in results.results] if is_published else []


def _correlation_lines(results: ScalingResults) -> list[str]:
    """The published correlations, one per line."""
    return [
        f"{one.description}: undefined (too few widths, or a constant)"
        if one.r is None
        else f"{one.description}: r = {r_text(one)}, p = {one.p:.3g}"
        for one in vars(results.correlations).values()
    ]
