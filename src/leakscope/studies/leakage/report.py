"""The sentences and tables of the leakage study, for its report and the screen."""

from __future__ import annotations

from leakscope.report.blocks import Table
from leakscope.studies.leakage.checks import verdict
from leakscope.studies.leakage.config import FIGURES, NETWORK
from leakscope.studies.leakage.results import LeakageResults, OverRecords, Point


def setting_words(results: LeakageResults) -> str:
    """What was trained, in one paragraph."""
    c = results.config
    dataset = (
        "Adult, categories as integer codes" if c.dataset == "adult" else "digits (built in; Adult is absent)"
    )
    network = f" For the network: {c.network_records} records, K = {c.network_trials}."
    return (
        f"{dataset}; principal components of centered and scaled features. {c.records} records; for each, "
        f"two independent halves of K = {c.trials:,} regressions with the record and {c.trials:,} without it."
        f"{network if NETWORK in c.figures else ''} Seed {c.seed}."
    )


def check_lines(results: LeakageResults) -> list[str]:
    """One line per claim, with its outcome first."""
    return [f"{verdict(check)}: {check.claim} ({check.detail})" for check in results.checks]


def point_table(results: LeakageResults, figure: int) -> Table:
    """One row per point of a figure."""
    head = [FIGURES[figure].short_axis, "advantage (median)", "advantage (mean)", "rho_KL (mean)",
            "95% interval", "rho_KL (median)", "uncorrected", "floor", "rho_MI, bits"]  # fmt: skip
    head += ["rho_KL, finite precision"] if figure == 3 else []
    rows = [_point_cells(point) for point in results.figures[figure].points]
    return Table(head, rows, "Leakage rho_KL in nats; advantage of the threshold adversary")


def without_columns(table: Table, *names: str) -> Table:
    """A table without some of its columns."""
    shown = [i for i, name in enumerate(table.head) if name not in names]
    head, *rows = ([row[i] for i in shown] for row in (table.head, *table.rows))
    return Table(head, rows, table.caption)


def caveats(results: LeakageResults, figure: int) -> list[str]:
    """Where a figure's Gaussian approximation is doubtful, and what else limits it."""
    points = results.figures[figure].points
    lines = [_poor_fit_words(points)] if any(p.output.is_poor for p in points) else []
    beyond = [(number(p.value), p.chain.likelihood_ratio_beyond) for p in points]
    if any(count for _, count in beyond):
        where = ", ".join(f"{value} ({count})" for value, count in beyond if count)
        lines.append(
            "At these points the likelihood-ratio adversary exceeds the bound from the fitted Gaussians, so "
            f"the parameters are not Gaussian (number of such records in parentheses): {where}."
        )
    if any(p.trials < 4 * p.parameters for p in points):
        lines.append(
            "There are fewer than four trials per parameter: correlations are shrunk, and intervals and "
            "corrections are rough. Increase --trials."
        )
    for reason in dict.fromkeys(p.rho_kl.reason for p in points if p.rho_kl.reason):
        where = ", ".join(number(p.value) for p in points if p.rho_kl.reason == reason)
        lines.append(f"At {where}: {reason}.")
    if points[0].output.is_poor is None:
        lines.append(f"No nearest-neighbor check: {points[0].output.reason}.")
    return lines


def _poor_fit_words(points: tuple[Point, ...]) -> str:
    poor = [point for point in points if point.output.is_poor]
    pairs = ", ".join(
        f"{number(p.value)}: {number(p.output.gaussian)} against {number(p.output.nearest_neighbour)}"
        for p in poor
    )
    return (
        f"The Gaussian fit is poor at {len(poor)} of {len(points)} points. Leakage of the output on the "
        f"record in nats, Gaussian against nearest neighbors ({poor[0].output.records} records): {pairs}. At "
        "these points, read the leakage as a distance between the two fits, not as a number of nats."
    )


def number(value: float | None) -> str:
    """Three digits; a dash where undefined."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def interval(quantity: OverRecords) -> str:
    """The 95% interval of a mean; a dash where undefined."""
    if quantity.mean_low is None:
        return "-"
    return f"{number(quantity.mean_low)} to {number(quantity.mean_high)}"


def _point_cells(point: Point) -> list[str]:
    rho, advantage, fine = point.rho_kl, point.advantage, point.rho_kl_finite_precision
    return [number(point.value), f"{advantage.median:.3f}", f"{advantage.mean:.3f}", number(rho.mean),
            interval(rho), number(rho.median), number(rho.uncorrected), number(rho.floor),
            number(point.rho_mi_bits.mean), *([number(fine.mean)] if fine else [])]  # fmt: skip


def chain_words(results: LeakageResults) -> str:
    """How to read the chain of bounds."""
    words = (
        "Means over records; bounds are clipped at 1. The threshold adversary sees the record and the "
        "model's output on it. The likelihood-ratio adversary sees the parameters, and is tested on "
        "trainings that its Gaussians were not fitted to. Total variation and the bounds are those of the "
        "fitted Gaussians: no adversary can exceed them if the parameters are Gaussian. The smaller of the "
        "bounds by Pinsker and by Bretagnolle and Huber is always below that of Farokhi and Kaafar."
    )
    if not results.shuffled:
        return words
    largest = max(control.total_variation for control in results.shuffled)
    return (
        f"{words} IN and OUT fits share their draws, so fits of the same distribution stay close: with "
        f"presence shuffled, the total variation is at most {largest:.3f}."
    )


def convention_lines(results: LeakageResults) -> list[str]:
    """How each quantity is defined, one convention per line."""
    lines = [
        "rho_KL is the sum of the Kullback-Leibler divergences in both directions, in nats. rho_MI is the "
        "mutual information in bits, at most 1.",
        "Correction: IN of one half against OUT of the other, minus the same estimate between the two halves "
        "of one condition (the floor), times (K-p-2)/(K-1). Without added noise the floor is about p(p+3)/K.",
        "Records and draws are the same at every point of a figure, and larger training sets contain the "
        "smaller ones. Intervals resample records.",
        "The threshold adversary says member when the squared error is at most the mean training loss over "
        "the record's trainings, IN and OUT alike. Its advantage is |P(says member, in) - P(says member, "
        "out)|. With noise on the parameters it is computed in closed form.",
        "Objective: mean squared error + lambda theta'theta, intercept included. Where that does not "
        "determine the parameters, the solution of smallest norm is used.",
        f"Finite precision: parameters rounded to a grid of {results.config.precision}, in effect noise of "
        "standard deviation grid / sqrt(12).",
    ]
    if NETWORK in results.figures:
        lines.append(
            "Network: five tanh layers of fifty units, Adam, full batches, the same number of steps at each "
            "size. Its leakage is that of its output on the record, a lower bound on that of its parameters."
        )
    return lines
