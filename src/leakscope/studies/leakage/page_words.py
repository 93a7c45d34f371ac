"""Words and tables of the leakage study's report that say how far its estimates can be trusted."""

from __future__ import annotations

from leakscope.studies.leakage.config import NETWORK
from leakscope.studies.leakage.page_charts import number
from leakscope.studies.leakage.page_tables import IMPRECISE, SATURATED, fit_quality
from leakscope.studies.leakage.results import LeakageResults, Point


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


def undecided_words(points: tuple[Point, ...]) -> list[str]:
    """Where nearest neighbors cannot see whether the Gaussian fit is right, and why."""
    why = {
        SATURATED: "nearest neighbors would miss the Gaussian value by more than 25% even if the fit were "
        "right",
        IMPRECISE: "the error of the comparison exceeds 25%, so that a misfit of that size would not show",
    }
    found = []
    for quality, reason in why.items():
        at = [number(p.value) for p in points if p.output.neighbours and fit_quality(p.output) == quality]
        if at:
            found.append(f"Whether the Gaussian fit is right is undecided at {', '.join(at)}: {reason}.")
    return found


def output_words(results: LeakageResults) -> str:
    """How to read the two estimates of the output's leakage."""
    config = results.config
    words = f"K is {config.trials:,} for the regressions"
    words += f" and {config.network_trials:,} for the network" if NETWORK in results.figures else ""
    return (
        "Nearest neighbors saturate: the smaller K, the fewer nats they can see. Compare their values only "
        f"at the same K. {words}. The column before the last shows what they would report at this K if the "
        "fit were right, and the last one compares them with it. A fit is poor if they differ significantly "
        "and by more than 25%, and differs if they differ significantly by less. Undecided means that they "
        "cannot tell: saturated, because they would miss the Gaussian value by more than 25% even if the fit "
        "were right, or imprecise, because the error of the comparison exceeds 25%. Intervals resample "
        "records."
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
