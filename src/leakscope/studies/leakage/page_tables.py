"""The tables of the leakage study's figures: leakage and advantage, mutual information, the output."""

from __future__ import annotations

from leakscope.report.blocks import Body, Heading, Table
from leakscope.studies.leakage.config import FIGURES, NETWORK
from leakscope.studies.leakage.judge import LARGE_SHARE, LEAST_LEAKAGE
from leakscope.studies.leakage.page_charts import number
from leakscope.studies.leakage.results import LeakageResults, OutputLeakage, OverRecords, Point

SATURATED, IMPRECISE = "undecided, saturated", "undecided, imprecise"


def figure_bodies(results: LeakageResults) -> list[Body]:
    """What every figure draws, in numbers: one part per figure."""
    return [
        [
            Heading(f"Figure {figure}: {FIGURES[figure].title}"),
            curve_table(results, figure),
            bits_table(results, figure),
            output_table(results, figure),
        ]
        for figure in results.figures
    ]


def curve_table(results: LeakageResults, figure: int) -> Table:
    """Median advantage and mean leakage with their intervals at every point: what the figure draws."""
    of_output = " of the output, Gaussian fit" if figure == NETWORK else ""
    head = [FIGURES[figure].short_axis, "median advantage (95% interval)",
            f"rho_KL{of_output} (95% interval)"]  # fmt: skip
    head += ["rho_KL, rounded (95% interval)"] if figure == 3 else []
    head += ["likelihood-ratio adversary", "total variation of the fit"]
    rows = [_curve_cells(point) for point in results.figures[figure].points]
    return Table(head, rows, "Threshold adversary's advantage, and mean leakage in nats")


def _curve_cells(point: Point) -> list[str]:
    advantage, fine, measured = point.advantage, point.rho_kl_finite_precision, point.inequalities
    low, high = number(advantage.median_low), number(advantage.median_high)
    return [number(point.value), f"{number(advantage.median)} ({low} to {high})",
            with_interval(point.rho_kl), *([with_interval(fine)] if fine else []),
            number(measured.likelihood_ratio), number(measured.total_variation)]  # fmt: skip


def point_table(results: LeakageResults, figure: int) -> Table:
    """One row per point of a figure."""
    head = [FIGURES[figure].short_axis, "advantage (median)", "advantage (mean)", "rho_KL (mean)",
            "95% interval", "rho_KL (median)", "uncorrected", "floor", "rho_MI, bits"]  # fmt: skip
    head += ["rho_KL, finite precision"] if figure == 3 else []
    rows = [_point_cells(point) for point in results.figures[figure].points]
    return Table(head, rows, "Leakage rho_KL in nats; advantage of the threshold adversary")


def _point_cells(point: Point) -> list[str]:
    rho, advantage, fine = point.rho_kl, point.advantage, point.rho_kl_finite_precision
    return [number(point.value), f"{advantage.median:.3f}", f"{advantage.mean:.3f}", number(rho.mean),
            interval(rho), number(rho.median), number(rho.uncorrected), number(rho.floor),
            number(point.rho_mi_bits.mean), *([number(fine.mean)] if fine else [])]  # fmt: skip


def without_columns(table: Table, *names: str) -> Table:
    """A table without some of its columns."""
    shown = [i for i, name in enumerate(table.head) if name not in names]
    head, *rows = ([row[i] for i in shown] for row in (table.head, *table.rows))
    return Table(head, rows, table.caption)


def bits_table(results: LeakageResults, figure: int) -> Table:
    """rho_MI at every prior, and the leakage of order infinity, at every point of a figure."""
    given = [f"rho_MI at {prior:g}, bits" for prior in results.config.priors]
    head = (FIGURES[figure].short_axis, "rho_MI at 1/2, bits", "n/N", "rho_MI at n/N, bits",
            "share of entropy", *given, "order infinity, fit (largest)", "attained (largest)")  # fmt: skip
    rows = [_bits_cells(point) for point in results.figures[figure].points]
    caption = "Mutual information by the prior of membership, and leakage of Renyi order infinity in bits"
    return Table(head, rows, caption)


def _bits_cells(point: Point) -> list[str]:
    information, most = point.rho_mi_bits, point.maximal_bits
    sampling = information.at_sampling_prior
    return [
        number(point.value), number(information.mean), f"{sampling.prior:.2e}", f"{sampling.mean:.2e}",
        f"{sampling.share:.3f}", *(number(one.mean) for one in information.at_priors),
        f"{most.fitted:.3f} ({most.fitted_largest:.3f})",
        f"{most.attained:.3f} ({most.attained_largest:.3f})",
    ]  # fmt: skip


def output_table(results: LeakageResults, figure: int) -> Table:
    """Both estimates of the output's leakage with intervals, and the quality of the fit, at every point."""
    head = (FIGURES[figure].short_axis, "Gaussian fit", "nearest neighbors", "their floor",
            "fit, same records", "neighbors if the fit were right", "quality of the fit")  # fmt: skip
    rows = [_output_cells(point) for point in results.figures[figure].points]
    caption = (
        "Leakage of the output on the record, nats (95% interval), by two estimates, "
        f"K = {results.config.trials_of(figure):,}"
    )
    return Table(head, rows, caption)


def _output_cells(point: Point) -> list[str]:
    output, near = point.output, point.output.neighbours
    gaussian = with_interval(output.gaussian)
    if near is None:
        return [number(point.value), gaussian, "-", "-", "-", "-", output.reason]
    floor = f"{number(near.floor)} ({number(near.floor_low)} to {number(near.floor_high)})"
    difference, half_width = output.relative_difference or 0.0, output.relative_difference_half_width or 0.0
    return [number(point.value), gaussian, with_interval(near), floor,
            number(output.gaussian_compared), number(output.neighbours_if_gaussian),
            f"{fit_quality(output)} ({difference:+.0%} ± {half_width:.0%})"]  # fmt: skip


def fit_quality(output: OutputLeakage) -> str:
    """What nearest neighbors say of the Gaussian fit; where they cannot see a misfit, that it is undecided.

    They say nothing where they would report far less than the Gaussian value even if the fit were right, or
    where a large misfit would lie within their error.
    """
    difference, half_width = output.relative_difference or 0.0, output.relative_difference_half_width or 0.0
    fitted, expected = output.gaussian_compared or 0.0, output.neighbours_if_gaussian or 0.0
    if output.is_poor:
        return "poor"
    if abs(difference) > half_width:
        return "differs"
    if abs(expected - fitted) > LARGE_SHARE * max(abs(fitted), LEAST_LEAKAGE):
        return SATURATED
    return IMPRECISE if half_width > LARGE_SHARE else "no misfit seen"


def interval(quantity: OverRecords) -> str:
    """The 95% interval of a mean; a dash where undefined."""
    if quantity.mean_low is None:
        return "-"
    return f"{number(quantity.mean_low)} to {number(quantity.mean_high)}"


def with_interval(quantity: OverRecords | None) -> str:
    """A mean and its 95% interval."""
    if quantity is None or quantity.mean is None:
        return "undefined"
    return f"{number(quantity.mean)} ({interval(quantity)})"
