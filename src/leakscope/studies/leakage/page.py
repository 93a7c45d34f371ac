"""The leakage study's report: published claims, checks, five figures, inequalities, bits, extensions."""

from __future__ import annotations

from pathlib import Path

from leakscope.bank.run_folder import to_jsonable
from leakscope.report.blocks import Absent, Body, Heading, Table
from leakscope.report.charts import Grid
from leakscope.report.page import Badge, Page, Section
from leakscope.report.study_page import (
    NO_COMMAND,
    Command,
    closest,
    conventions,
    folder_facts,
    options,
    reproduce,
)
from leakscope.studies.claims import claims_section
from leakscope.studies.leakage.checks import verdict
from leakscope.studies.leakage.claims import PUBLICATION
from leakscope.studies.leakage.config import BUDGETS, EXTENSIONS, FIGURES, NETWORK, LeakageConfig
from leakscope.studies.leakage.page_charts import bits_chart, inequalities_chart, leakage_chart, number
from leakscope.studies.leakage.page_extensions import extension_sections
from leakscope.studies.leakage.page_tables import (
    bits_table,
    interval,
    output_table,
    point_table,
    without_columns,
)
from leakscope.studies.leakage.page_words import (
    limits_of,
    output_words,
    poor_fit_words,
    setting_words,
    undecided_words,
)
from leakscope.studies.leakage.results import Control, LeakageResults


def write_report(results: LeakageResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/*.png, or the redacted page."""
    page(results, folder, redacted).write(folder)


def page(results: LeakageResults, folder: Path, redacted: bool = False) -> Page:
    """The report; redacted, without boxes and medians, which are figures of single records."""
    figures = results.figures
    rows = [[check.statement, verdict(check), check.detail] for check in results.checks]
    checks = [Table(("statement", "outcome", "numbers"), rows), *_control(results.shuffled)]
    measured = Grid([inequalities_chart(results, figure) for figure in figures], png="inequalities")
    sections = [
        # Claims are settled by medians as well.
        *([] if redacted else [claims_section(PUBLICATION.settle([results]))]),
        Section("checks", "Checks", checks),
        *(_figure_section(results, figure, redacted) for figure in FIGURES),
        Section("inequalities", "Adversaries and fits", [_inequality_words(results), measured]),
        Section("bits", "Bits", [*_bits(results), Grid([bits_chart(results, figure) for figure in figures])]),
        *extension_sections(results),
        conventions(_convention_lines(results)),
        reproduce(command(results.config), results.config.seed, {}),
    ]
    n_failed = sum(check.holds is False for check in results.checks)
    failed = f"{n_failed} check{'s' if n_failed > 1 else ''} failed"
    return Page(
        f"What drives membership leakage: {results.config.dataset}",
        headline(results),
        _facts(results),
        sections,
        limits_of(results),
        folder_facts(folder),
        redacted=redacted,
        badges=[Badge(failed, "bad") if n_failed else Badge("no check failed", "good")],
    )


def headline(results: LeakageResults) -> list[str]:
    """The findings, with intervals."""
    figures = results.figures
    reproduced = [FIGURES[f].effect for f in figures if figures[f].trends.leakage.holds]
    trends = "; ".join(reproduced)
    lead = [f"{len(reproduced)} of {len(figures)} published trends are reproduced."]
    lead += [f"{trends[0].upper()}{trends[1:]}."] if reproduced else []
    outcomes = [verdict(check) for check in results.checks]
    counts = (
        f"Of {len(outcomes)} checks, {outcomes.count('holds')} hold, {outcomes.count('fails')} fail, and "
        f"{outcomes.count('undefined')} cannot be decided. Intervals are 95% intervals over records."
    )
    failed = [
        f"Fails: {check.statement} ({check.detail})." for check in results.checks if check.holds is False
    ]
    return [*lead, *(_range_words(results, figure) for figure in figures), counts, *failed]


def command(config: LeakageConfig) -> Command:
    """The command line that runs this study, if there is one."""
    budgets = {name: {**to_jsonable(budget), "dataset": config.dataset} for name, budget in BUDGETS.items()}
    budget, given = closest(budgets, to_jsonable(config))
    chosen = [word for figure in given.pop("figures", []) for word in ("--figure", str(figure))]
    chosen += [word for prior in given.pop("priors", []) for word in ("--prior", f"{prior}")]
    given.pop("extensions", None)
    implied = () if config.figures != tuple(FIGURES) else EXTENSIONS
    is_unreachable = not config.extensions and implied  # no option leaves all of them out
    if is_unreachable or set(given) - {"records", "trials", "precision", "seed"}:
        return NO_COMMAND
    if config.extensions != implied:
        chosen += [word for name in config.extensions for word in ("--extension", name)]
    return Command(
        ("leakscope", "study", "leakage", "--budget", budget, *chosen, *options(given), "--out", "runs/again")
    )


def _range_words(results: LeakageResults, figure: int) -> str:
    """Mean leakage at both ends of a figure, with intervals; of the network by nearest neighbors."""
    of_figure, spec = results.figures[figure], FIGURES[figure]
    points = (of_figure.points[0], of_figure.points[-1])
    near = [point.output.neighbours for point in points]
    by_neighbours = figure == NETWORK and None not in near
    drawn = [one for one in near if one is not None] if by_neighbours else [p.rho_kl for p in points]
    first, last = (
        f"{number(one.mean)} nats ({interval(one)}) at {number(point.value)}"
        for point, one in zip(points, drawn, strict=True)
    )
    rises = (drawn[1].mean or 0) > (drawn[0].mean or 0)
    trends = of_figure.trends
    correlation = (trends.neighbours if by_neighbours else trends.leakage).spearman
    rank = "undefined" if correlation is None else f"{correlation:+.2f}"
    change = f"{'rises' if rises else 'falls'} from {first} to {last}"
    which = " at finite precision" if figure == 3 else ""  # continuous leakage levels off
    how = " of the output by nearest neighbors" if by_neighbours else ""
    return f"Figure {figure}, {spec.short_axis}: mean leakage{how} {change}; rank correlation{which} {rank}."


def _control(shuffled: tuple[Control, ...]) -> Body:
    if not shuffled:
        return [Absent("There is no control with the record's presence shuffled: it comes with figure 1.")]
    head = ("n", "corrected", "99% interval", "uncorrected", "expected, p(p+3)/K", "total variation")
    rows = [
        [number(c.n), number(c.corrected),
         "undefined" if c.low is None else f"{c.low:.1e} to {c.high:.1e}",
         number(c.uncorrected), number(c.analytic), number(c.total_variation)]
        for c in shuffled
    ]  # fmt: skip
    return [Heading("Control: with presence shuffled, nothing leaks (nats)"), Table(head, rows)]


def _figure_section(results: LeakageResults, figure: int, redacted: bool) -> Section:
    body: Body = [Absent(f"Figure {figure} is not part of this run.")]
    if figure in results.figures:
        hidden = ("advantage (median)", "rho_KL (median)") if redacted else ("advantage (mean)",)
        points = without_columns(point_table(results, figure), *hidden, "rho_MI, bits")
        body = [leakage_chart(results, figure, redacted), points, output_table(results, figure)]
        body += caveats(results, figure)
    return Section(f"figure-{figure}", f"Figure {figure}", body, FIGURES[figure].title)


def _bits(results: LeakageResults) -> Body:
    points = [point for figure in results.figures.values() for point in figure.points]
    largest = max(point.rho_mi_bits.mean for point in points)
    return [
        "Mutual information between a record's presence and the trained parameters (for the network: its "
        "output), of the fitted Gaussians, at equal priors. 1 bit reveals presence with certainty, 0 bits "
        "reveal nothing. In the same unit it is at most a quarter of rho_KL of the same Gaussians. The "
        f"largest mean here is {largest:.3f} bits. The tables also have the prior n/N of a random training "
        f"set{_prior_words(results.config)}, where the most is the entropy of membership, and the leakage of "
        "Renyi order infinity, log2(1 + total variation): by the fit, and as attained by the "
        "likelihood-ratio adversary, for the mean and for the most exposed record.",
        *(
            block
            for figure in results.figures
            for block in (Heading(f"Figure {figure}"), bits_table(results, figure))
        ),
    ]


def _prior_words(config: LeakageConfig) -> str:
    given = ", ".join(f"{prior:g}" for prior in config.priors)
    return f" and the given {'priors' if len(config.priors) > 1 else 'prior'} {given}" if given else ""


def _facts(results: LeakageResults) -> list[tuple[str, str]]:
    config = results.config
    n_points = sum(len(figure.points) for figure in results.figures.values())
    network = f" (network: {config.network_trials})" if NETWORK in results.figures else ""
    return [
        ("What", setting_words(results)),
        ("Figures", f"{', '.join(map(str, results.figures))}; {n_points} points"),
        ("Trials", f"{config.trials:,} in each of two halves{network}"),
        ("Seed", str(config.seed)),
    ]


def check_lines(results: LeakageResults) -> list[str]:
    """One line per check, with its outcome first."""
    return [f"{verdict(check)}: {check.statement} ({check.detail})" for check in results.checks]


def caveats(results: LeakageResults, figure: int) -> list[str]:
    """Where a figure's Gaussian approximation is doubtful, and what else limits it."""
    points = results.figures[figure].points
    lines = [poor_fit_words(points)] if any(p.output.is_poor for p in points) else []
    lines += undecided_words(points)
    beyond = [(number(p.value), p.inequalities.likelihood_ratio_beyond) for p in points]
    if any(count for _, count in beyond):
        where = ", ".join(f"{value} ({count})" for value, count in beyond if count)
        lines.append(
            "At these points the likelihood-ratio adversary exceeds the total variation of the fitted "
            f"Gaussians, so the parameters are not Gaussian (number of such records in parentheses): {where}."
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


def _inequality_words(results: LeakageResults) -> str:
    """How to read the adversaries beside the fits."""
    words = (
        "Means over records; fitted quantities are clipped at 1. The threshold adversary sees the record "
        "and the model's output on it. The likelihood-ratio adversary sees the parameters, and is tested "
        "on trainings that its Gaussians were not fitted to. The dotted lines are quantities of the "
        "fitted Gaussians. Their order never changes. They limit an adversary only where the parameters "
        "are Gaussian, and the checks say where an adversary exceeds them."
    )
    if not results.shuffled:
        return words
    largest = max(control.total_variation for control in results.shuffled)
    return (
        f"{words} IN and OUT fits share their draws, so fits of the same distribution stay close: with "
        f"presence shuffled, the total variation is at most {largest:.3f}."
    )


def _convention_lines(results: LeakageResults) -> list[str]:
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
        f"Finite precision: every parameter is rounded to a multiple of {results.config.precision}. Where "
        "all records have few distinct rounded parameters, leakage is estimated from their counts, "
        "elsewhere by a Gaussian fit of the rounded parameters.",
        "Nearest neighbors: Wang, Kulkarni and Verdu (2009), crossed and floor-corrected like the "
        f"Gaussian estimate. {output_words(results)}",
    ]
    if NETWORK in results.figures:
        lines.append(
            "Network: five tanh layers of fifty units, Adam, full batches, the same number of steps at "
            "each size. Its leakage is that of its output on the record; by data processing, the exact "
            "leakage of an output is at most that of the parameters. Neither estimate of it is exact."
        )
    return lines
