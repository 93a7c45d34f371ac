"""The leakage study's report: what must hold, five figures, the chain of bounds, bits."""

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
from leakscope.studies.leakage.checks import verdict
from leakscope.studies.leakage.config import BUDGETS, FIGURES, NETWORK, LeakageConfig
from leakscope.studies.leakage.page_charts import bits_chart, bounds_chart, leakage_chart
from leakscope.studies.leakage.report import (
    caveats,
    chain_words,
    convention_lines,
    interval,
    number,
    point_table,
    setting_words,
    without_columns,
)
from leakscope.studies.leakage.results import Control, LeakageResults


def write_report(results: LeakageResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/*.png, or the redacted page."""
    page(results, folder, redacted).write(folder)


def page(results: LeakageResults, folder: Path, redacted: bool = False) -> Page:
    """The report; no page of this study says anything about a single record."""
    figures = results.figures
    rows = [[check.claim, verdict(check), check.detail] for check in results.checks]
    checks = [Table(("claim", "outcome", "numbers"), rows), *_control(results.shuffled)]
    bounds = Grid([bounds_chart(results, figure) for figure in figures], png="bounds")
    sections = [
        Section("checks", "What must hold", checks),
        *(_figure_section(results, figure) for figure in FIGURES),
        Section("bounds", "The chain of bounds", [chain_words(results), bounds]),
        Section("bits", "Bits", [_bits(results), Grid([bits_chart(results, figure) for figure in figures])]),
        conventions(convention_lines(results)),
        reproduce(command(results.config), results.config.seed, {}),
    ]
    n_failed = sum(check.holds is False for check in results.checks)
    failed = f"{n_failed} claim{'s' if n_failed > 1 else ''} failed"
    return Page(
        f"What drives membership leakage: {results.config.dataset}",
        headline(results),
        _facts(results),
        sections,
        _limits(results),
        folder_facts(folder),
        redacted=redacted,
        badge=Badge(failed, "bad") if n_failed else Badge("no claim failed", "good"),
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
        f"Of {len(outcomes)} claims, {outcomes.count('holds')} hold, {outcomes.count('fails')} fail, and "
        f"{outcomes.count('undefined')} cannot be decided. Intervals are 95% intervals over records."
    )
    return [*lead, *(_range_words(results, figure) for figure in figures), counts]


def command(config: LeakageConfig) -> Command:
    """The command line that runs this study, if there is one."""
    budgets = {name: {**to_jsonable(budget), "dataset": config.dataset} for name, budget in BUDGETS.items()}
    budget, given = closest(budgets, to_jsonable(config))
    chosen = [word for figure in given.pop("figures", []) for word in ("--figure", str(figure))]
    if set(given) - {"records", "trials", "precision", "seed"}:
        return NO_COMMAND
    return Command(
        ("leakscope", "study", "leakage", "--budget", budget, *chosen, *options(given), "--out", "runs/again")
    )


def _range_words(results: LeakageResults, figure: int) -> str:
    """Mean leakage at both ends of a figure, with intervals."""
    of_figure, spec = results.figures[figure], FIGURES[figure]
    points = (of_figure.points[0], of_figure.points[-1])
    first, last = (
        f"{number(point.rho_kl.mean)} nats ({interval(point.rho_kl)}) at {number(point.value)}"
        for point in points
    )
    rises = (points[1].rho_kl.mean or 0) > (points[0].rho_kl.mean or 0)
    correlation = of_figure.trends.leakage.spearman
    rank = "undefined" if correlation is None else f"{correlation:+.2f}"
    change = f"{'rises' if rises else 'falls'} from {first} to {last}"
    which = " at finite precision" if figure == 3 else ""  # continuous leakage levels off
    return f"Figure {figure}, {spec.short_axis}: mean leakage {change}; rank correlation{which} {rank}."


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


def _figure_section(results: LeakageResults, figure: int) -> Section:
    body: Body = [Absent(f"Figure {figure} is not part of this run.")]
    if figure in results.figures:
        points = without_columns(point_table(results, figure), "advantage (mean)", "rho_MI, bits")
        body = [leakage_chart(results, figure), points, *caveats(results, figure)]
    return Section(f"figure-{figure}", f"Figure {figure}", body, FIGURES[figure].title)


def _bits(results: LeakageResults) -> str:
    largest = max(p.rho_mi_bits.mean for figure in results.figures.values() for p in figure.points)
    return (
        "Mutual information between a record's presence and the trained parameters (for the network: its "
        "output), at equal priors. 1 bit reveals presence with certainty, 0 bits reveal nothing. In the same "
        f"unit it is at most a quarter of rho_KL. The largest mean here is {largest:.3f} bits."
    )


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


def _limits(results: LeakageResults) -> list[str]:
    config = results.config
    lines = [
        "These are linear regressions (and, in figure 2, one small network); large models may differ.",
        f"Intervals are over {config.records} chosen records of {config.dataset}, not over datasets.",
        "Leakage is that of fitted Gaussians; each figure says where their fit is poor.",
    ]
    if NETWORK in results.figures:
        lines.append(
            "The network's leakage is that of its output on the record, a lower bound on its parameters'."
        )
    return lines
