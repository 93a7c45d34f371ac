"""Words and tables of the leakage study's report that say how far its estimates can be trusted."""

from __future__ import annotations

from leakscope.report.blocks import Table
from leakscope.studies.leakage.config import FIGURES, NETWORK
from leakscope.studies.leakage.page_charts import number
from leakscope.studies.leakage.results import LeakageResults, OverRecords, Point


def interval(quantity: OverRecords) -> str:
    """The 95% interval of a mean; a dash where undefined."""
    if quantity.mean_low is None:
        return "-"
    return f"{number(quantity.mean_low)} to {number(quantity.mean_high)}"


def output_table(results: LeakageResults, figure: int) -> Table:
    """Both estimates of the output's leakage with intervals, and the quality of the fit, at every point."""
    head = (FIGURES[figure].short_axis, "Gaussian fit", "nearest neighbors", "their floor",
            "fit, same records", "neighbors if the fit were right", "quality of the fit")  # fmt: skip
    rows = [_output_cells(point) for point in results.figures[figure].points]
    caption = "Leakage of the output on the record, nats (95% interval), by two estimates"
    return Table(head, rows, caption)


def _output_cells(point: Point) -> list[str]:
    output = point.output
    gaussian = f"{number(output.gaussian.mean)} ({interval(output.gaussian)})"
    if output.neighbours is None:
        return [number(point.value), gaussian, "-", "-", "-", "-", output.reason]
    near = output.neighbours
    difference, half_width = output.relative_difference or 0.0, output.relative_difference_half_width or 0.0
    quality = "poor" if output.is_poor else "differs" if abs(difference) > half_width else "no misfit seen"
    by = f"{difference:+.0%} ± {half_width:.0%}"
    return [number(point.value), gaussian, f"{number(near.mean)} ({interval(near)})", number(near.floor),
            number(output.gaussian_compared), number(output.neighbours_if_gaussian),
            f"{quality} ({by})"]  # fmt: skip


def poor_fit_words(points: tuple[Point, ...]) -> str:
    """Where the Gaussian fit is poor."""
    poor = ", ".join(number(point.value) for point in points if point.output.is_poor)
    n_poor = sum(bool(point.output.is_poor) for point in points)
    return (
        f"The Gaussian fit is poor at {n_poor} of {len(points)} points: {poor}. There, nearest neighbors "
        "report significantly more or less on the outputs than on draws from the fitted Gaussians, by "
        "more than 25%. Read the Gaussian value as a distance between the two fits, not as a number of "
        "nats."
    )


def limits_of(results: LeakageResults) -> list[str]:
    """What the study does not show."""
    config = results.config
    lines = [
        "These are linear regressions (and, in figure 2, one small network); large models may differ.",
        f"Intervals are over {config.records} chosen records of {config.dataset}, not over datasets.",
        "Leakage is that of fitted Gaussians; each figure says where their fit is poor. A fit's "
        "divergence can be above or below the true one.",
    ]
    if NETWORK in results.figures:
        lines.append(
            "The network's leakage is that of its output on the record. Its parameters may reveal more."
        )
    return lines


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
