"""The scaling study's report: the answer, the widths, four charts, the correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from leakscope.bank.run_folder import to_jsonable
from leakscope.report.blocks import Absent, Body, Bullets, Heading, Table
from leakscope.report.charts import Chart, Grid, PlotlyFigure, axis, colour, line
from leakscope.report.page import Page, Section
from leakscope.report.study_page import Command, closest, conventions, folder_facts, options, reproduce
from leakscope.stats.estimate import Estimate
from leakscope.studies.scaling.config import PRESETS, ScalingConfig
from leakscope.studies.scaling.results import Correlation, GapOrSize, ScalingResults

_SIZE = "parameters (log scale)"
_GAP = "overfitting gap (train minus test accuracy)"
_ATTACK_NAMES = {
    "shokri": "shadow models (logistic regression)",
    "correctness": "correctness",
    "loss": "loss threshold",
    "lira": "LiRA, fixed variance",
}
_SHORT_NAMES = {"shokri": "shadow models", "correctness": "correctness", "loss": "loss", "lira": "LiRA"}


class PublishedRow(NamedTuple):
    """One width of the published table."""

    train_acc: float
    test_acc: float
    gap: float
    attack_auc: float


PUBLISHED = {
    16: PublishedRow(0.901, 0.667, 0.235, 0.516),
    32: PublishedRow(0.953, 0.680, 0.273, 0.529),
    64: PublishedRow(0.995, 0.665, 0.329, 0.541),
    128: PublishedRow(1.000, 0.656, 0.344, 0.527),
    256: PublishedRow(1.000, 0.645, 0.355, 0.544),
}
"""Width -> its row of the published table."""

_TABLE_NOTE = (
    "Mean ± standard deviation over repeats (dividing by n). The gap is train minus test accuracy. The last "
    "columns are the AUC (area under the ROC curve) of each attack; 0.5 is guessing."
)
_ANSWER_NOTE = (
    "Intervals of r and of the difference resample repeats; a resample keeps a repeat's models at all widths "
    "together. The difference is that of the absolute values. Partial correlations hold the other predictor "
    "fixed, with intervals by Fisher's z. The AUC of correctness is exactly 0.5 + gap / 2, so its row is a "
    "check, not a finding."
)
_CONVENTIONS = (
    "Classes have standard deviation 1.5 around centers drawn from N(0, I).",
    "The shadow-model attack is a logistic regression on the softmax vector; it does not see the label.",
    "LiRA fits Gaussians to the log-odds of the target's reference models: one mean per record, and one "
    "variance each for members and non-members.",
    "ROC curves treat ties exactly. Parameter counts include biases.",
)


def write_report(results: ScalingResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/*.png, or the redacted page."""
    page(results, folder, redacted).write(folder)


def page(results: ScalingResults, folder: Path, redacted: bool = False) -> Page:
    """The report; no page of this study says anything about a single record."""
    answer: Body = [_predictor_table(results), _partial_table(results), _ANSWER_NOTE]
    comparison = Heading("Comparison with published values")
    widths: Body = [width_table(results), _TABLE_NOTE, comparison, _published_table(results)]
    sections = [
        Section("answer", "Gap or size", answer, "Which one predicts attack success across widths?"),
        Section("widths", "Widths", widths),
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


def command(config: ScalingConfig) -> Command:
    """The command line that runs this study."""
    presets = {name: to_jsonable(preset) for name, preset in PRESETS.items()}
    preset, given = closest(presets, to_jsonable(config))
    return Command(
        ("leakscope", "study", "scaling", "--preset", preset, *options(given), "--out", "runs/again")
    )


def _charts(results: ScalingResults) -> Grid:
    rows = results.results
    size, gap = [float(row.n_params) for row in rows], [row.mean_overfit_gap for row in rows]
    published = _published_rows(results)
    aucs = []
    for k, name in enumerate(results.attacks):
        of_attack = [row.attacks[name] for row in rows]
        means, spread = [a.mean_auc for a in of_attack], [a.std_auc for a in of_attack]
        aucs.append(_line(size, means, _SHORT_NAMES[name], k, spread))
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
        ("What", _setting_words(results)),
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


def _setting_words(results: ScalingResults) -> str:
    """What was trained, in one paragraph."""
    c = results.config
    same_centers = "the target's class centers" if c.shadow_data == "same" else "class centers of their own"
    same_records = "share the target's records" if c.target_data == "fixed" else "draw new records"
    return (
        f"{results.runtime.n_models:,} MLPs (Linear-ReLU-Linear; Adam, learning rate 0.01, batches of 64, 50 "
        f"epochs) on {c.n_classes} Gaussian classes in {c.n_features} dimensions. A dataset has "
        f"{c.n_samples} records, {c.train_fraction:.0%} of them members. There are {c.n_repeats} repeats per "
        f"width, which {same_records}; each has one target, {c.n_shadow} shadow models with {same_centers}, "
        f"and {c.n_reference} reference models. Seed {c.seed}."
    )


def ranked_findings(results: ScalingResults) -> list[GapOrSize]:
    """Whether gap or size predicts an attack's success, that of the strongest attack first.

    Without correctness, whose AUC is the gap itself, up to a factor: a check, not a finding.
    """
    findings = [finding for name, finding in results.gap_or_size.items() if name != "correctness"]
    return sorted(findings, key=lambda finding: -(finding.mean_auc.value or 0))


def width_table(results: ScalingResults, with_spread: bool = True) -> Table:
    """One row per width; with the standard deviations over repeats, or without."""

    def cell(mean: float, sd: float) -> str:
        return f"{mean:.3f} ± {sd:.3f}" if with_spread else f"{mean:.3f}"

    rows = [
        [
            f"{row.hidden_width}",
            f"{row.n_params:,}",
            f"{row.mean_train_acc:.3f}",
            f"{row.mean_test_acc:.3f}",
            cell(row.mean_overfit_gap, row.std_overfit_gap),
            *(cell(attack.mean_auc, attack.std_auc) for attack in row.attacks.values()),
        ]
        for row in results.results
    ]
    attacks = [_SHORT_NAMES[attack] for attack in results.attacks]
    return Table(["width", "parameters", "train accuracy", "test accuracy", "gap", *attacks], rows)


def _published_rows(results: ScalingResults) -> list[PublishedRow]:
    """The published table's rows of the same widths; empty unless the protocol is the published one."""
    is_published = results.config.is_published_protocol
    return [PUBLISHED[row.hidden_width] for row in results.results] if is_published else []


def _published_table(results: ScalingResults) -> Table | Absent:
    """The published values, and ours minus theirs, where the protocol is the published one."""
    published = _published_rows(results)
    if not published:
        return Absent(
            "This run does not follow the published protocol, so it is not compared with the published table."
        )
    rows = []
    for row, theirs in zip(results.results, published, strict=True):
        ours = (row.mean_train_acc, row.mean_test_acc, row.mean_overfit_gap, row.mean_attack_auc)
        cells = [f"{value:.3f} ({own - value:+.3f})" for own, value in zip(ours, theirs, strict=True)]
        rows.append([f"{row.hidden_width}", *cells])
    head = ("width", "train accuracy", "test accuracy", "gap", "attack AUC")
    return Table(head, rows, "Published values, with ours minus theirs in parentheses")


def _correlation_lines(results: ScalingResults) -> list[str]:
    """The published correlations, one per line."""
    return [
        f"{one.description}: undefined (too few widths, or a constant)"
        if one.r is None
        else f"{one.description}: r = {_r(one)}, p = {one.p:.3g}"
        for one in vars(results.correlations).values()
    ]


def _predictor_table(results: ScalingResults) -> Table:
    """How well gap and size predict each attack's AUC, one attack per row."""
    rows = [
        [
            _ATTACK_NAMES[name],
            *map(_estimate, (finding.mean_auc, finding.r_gap, finding.r_size, finding.difference)),
        ]
        for name, finding in results.gap_or_size.items()
    ]
    head = ("attack", "mean AUC", "r with the gap", "r with log2 parameters", "difference")
    return Table(head, rows, "Correlations of AUC over width means, with 95% intervals")


def _partial_table(results: ScalingResults) -> Table:
    """Both partial correlations of each attack, one attack per row."""
    rows = [
        [_ATTACK_NAMES[name], *map(_r, (finding.partial_r_gap_given_size, finding.partial_r_size_given_gap))]
        for name, finding in results.gap_or_size.items()
    ]
    return Table(("attack", "gap given size", "size given gap"), rows, "Partial correlations with AUC")


def _estimate(estimate: Estimate) -> str:
    return _with_interval(estimate.value, estimate.low, estimate.high)


def _r(correlation: Correlation) -> str:
    return _with_interval(correlation.r, correlation.low, correlation.high)


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.3f}" if low is None else f"{value:.3f} ({low:.3f} to {high:.3f})"
