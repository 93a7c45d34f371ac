"""The tables of the scaling study's report."""

from __future__ import annotations

from leakscope.report.blocks import Absent, Body, Table
from leakscope.report.phrases import with_interval
from leakscope.stats.estimate import Estimate
from leakscope.studies.scaling.published import FIGURES, PUBLISHED, PUBLISHED_CORRELATIONS
from leakscope.studies.scaling.results import Correlation, OverWidths, ScalingResults, Spread, WidthResults

SHORT_NAMES = {"shokri": "shadow models", "correctness": "correctness", "loss": "loss", "lira": "LiRA"}
_NOT_PUBLISHED = (
    "This run does not follow the published protocol, so it is not compared with the published table."
)
_NO_TRAINING = "not run"


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
    attacks = [SHORT_NAMES[attack] for attack in results.attacks]
    return Table(["width", "parameters", "train accuracy", "test accuracy", "gap", *attacks], rows)


def predictor_tables(results: ScalingResults) -> list[Table]:
    """How well gap and size predict each attack's AUC, one table per range of widths."""
    n_ranges = max(len(finding.over) for finding in results.gap_or_size.values())
    return [_predictor_table(results, k) for k in range(n_ranges)]


def _predictor_table(results: ScalingResults, k: int) -> Table:
    head = ("attack", "mean AUC", "coefficient", "gap", "log2 parameters", "difference", "favors")
    rows = []
    for name, finding in results.gap_or_size.items():
        for by, one in finding.over[k].coefficients.items():
            cells = map(estimate_text, (one.gap, one.size, one.difference))
            auc = estimate_text(finding.mean_auc)
            rows.append([SHORT_NAMES[name], auc, by.capitalize(), *cells, one.favors])
    some = next(iter(results.gap_or_size.values())).over[k]
    caption = f"Correlations of AUC over the means of {widths_text(some)}, with 95% intervals"
    return Table(head, rows, f"{caption}; mean AUC is over all widths" if k else caption)


def partial_table(results: ScalingResults) -> Table:
    """Partial correlations of each attack, one row per attack and range of widths."""
    rows = []
    for name, finding in results.gap_or_size.items():
        for part in finding.over:
            partials = (
                part.partial_r_gap_given_size,
                part.partial_r_size_given_gap,
                part.partial_rank_gap_given_size,
                part.partial_rank_size_given_gap,
            )
            rows.append([SHORT_NAMES[name], widths_text(part), *map(r_text, partials)])
    head = ("attack", "widths", "gap given size", "size given gap",
            "gap given size (ranks)", "size given gap (ranks)")  # fmt: skip
    return Table(head, rows, "Partial correlations with AUC")


def widths_text(part: OverWidths) -> str:
    """A range of widths in words."""
    return f"{len(part.hidden_widths)} widths from {min(part.hidden_widths)} to {max(part.hidden_widths)}"


def setting_text(results: ScalingResults) -> str:
    """What a run was, in a table cell."""
    config = results.config
    widths = (
        f"{len(config.hidden_widths)} widths from {config.hidden_widths[0]} to {config.hidden_widths[-1]}"
    )
    data = "new data for each" if config.target_data == "redrawn" else "the published data"
    return f"{config.dataset}, {config.n_samples} records, {widths}, {config.n_repeats} repeats, {data}"


def published_body(results: ScalingResults) -> Body:
    """The published figures and correlations beside ours, where the protocol is the published one."""
    if not results.config.is_published_protocol:
        return [Absent(_NOT_PUBLISHED)]
    return [_published_table(results), _published_correlations(results)]


def _head(results: ScalingResults) -> tuple[str, ...]:
    n = results.config.n_initializations
    spread = f"mean over {n} initializations (95% range)" if n > 1 else "over initializations"
    return ("published", "with the publication's seeds", "this run", spread)


def _published_table(results: ScalingResults) -> Table:
    rows = []
    for k, row in enumerate(results.results):
        for field, name in FIGURES.items():
            exact, spreads = results.published_seeds, results.initializations
            rows.append(
                [
                    f"{row.hidden_width}",
                    name,
                    f"{getattr(PUBLISHED[row.hidden_width], field):.3f}",
                    f"{getattr(exact.widths[k], field):.3f}" if exact else _NO_TRAINING,
                    f"{measured(row, field):.3f}",
                    spread_text(getattr(spreads.widths[k], field)) if spreads else _NO_TRAINING,
                ]
            )
    return Table(("width", "figure", *_head(results)), rows, "The published table and ours")


def measured(row: WidthResults, figure: str) -> float:
    """One figure of the published table, of this run."""
    value: float = getattr(row, figure if figure.startswith("std_") else f"mean_{figure}")
    return value


def _published_correlations(results: ScalingResults) -> Table:
    rows = []
    for field, theirs in PUBLISHED_CORRELATIONS.items():
        exact = getattr(results.published_seeds.correlations, field) if results.published_seeds else None
        ours, spread = getattr(results.correlations, field), getattr(results.initializations, field, None)
        rows.append(
            [
                ours.description.removesuffix(", over width means"),
                f"r = {theirs.r:.3f}, p = {theirs.p:.3f}",
                _NO_TRAINING if exact is None else _r_and_p(exact),
                _r_and_p(ours),
                spread_text(spread) if spread else _NO_TRAINING,
            ]
        )
    return Table(("correlation", *_head(results)), rows, "The published correlations and ours")


def correlations_table(results: ScalingResults) -> Table:
    """The same correlations of the shadow-model attack at other widths than the published ones."""
    rows = []
    for field in PUBLISHED_CORRELATIONS:
        exact = getattr(results.published_seeds.correlations, field) if results.published_seeds else None
        ours, spread = getattr(results.correlations, field), getattr(results.initializations, field, None)
        texts = [_NO_TRAINING if one is None else _r_and_p(one) for one in (exact, ours)]
        name = ours.description.removesuffix(", over width means")
        rows.append([name, *texts, spread_text(spread) if spread else _NO_TRAINING])
    widths = results.config.hidden_widths
    caption = f"Correlations over {len(widths)} widths from {min(widths)} to {max(widths)}"
    return Table(("correlation", *_head(results)[1:]), rows, caption)


def _r_and_p(one: Correlation) -> str:
    if one.r is None or one.p is None:
        return "undefined"
    return f"r = {one.r:.3f}, p {'< 0.001' if one.p < 0.001 else f'= {one.p:.3f}'}"


def spread_text(spread: Spread) -> str:
    """Mean and 95% range over initializations."""
    return f"{spread.mean:.3f} ({spread.low:.3f} to {spread.high:.3f})"


def estimate_text(estimate: Estimate) -> str:
    """A figure with its interval."""
    return with_interval(estimate.value, estimate.low, estimate.high)


def r_text(correlation: Correlation) -> str:
    """A correlation with its interval."""
    return with_interval(correlation.r, correlation.low, correlation.high)
