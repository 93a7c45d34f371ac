"""The report of a comparison: does it help, by how much, and at what cost?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakscope.compare.coarse import shareable
from leakscope.compare.results import ComparisonResults, Outcome, RunComparison, RunSummary
from leakscope.compare.sentences import (
    headline,
    method_sentences,
    recipe_sentence,
    run_summary,
    share_sentence,
)
from leakscope.compare.tables import (
    accuracy_table,
    all_differences,
    figure_name,
    group_tables,
    leakage_table,
    number,
    record_table,
)
from leakscope.report.blocks import Body, Code, Table
from leakscope.report.charts import Chart, PlotlyFigure, axis, colour, error_bars, label, line
from leakscope.report.gauge import Gauge
from leakscope.report.page import Badge, Page, Section

_LIMITS = (
    "A stronger attack may detect a difference that these attacks do not.",
    "The intervals hold for these records; other training data may give other differences.",
    "An unresolved difference need not be zero: it can be anywhere in its interval.",
)
_BADGES: Mapping[Outcome, Badge] = {
    "helped": Badge("Leaks less", "good"),
    "worse": Badge("Leaks more", "bad"),
    "mixed": Badge("Mixed", "bad"),
    "no difference": Badge("No difference detected"),
}


def write_report(results: ComparisonResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/differences.png, or the redacted page."""
    results = shareable(results)
    comparisons = results.comparisons
    sections = [_differences_section(results)]
    if all(comparison.accuracy for comparison in comparisons):
        sections.append(_trade_off_section(results))
    # A group may be a single record, whose figures a redacted page or that of a given model must not show.
    has_groups = not redacted and all(run.targets > 1 for run in results.runs)
    sections += [_run_section(results, index, has_groups) for index in range(len(comparisons))]
    sections.append(Section("method", "Method", method_sentences(results)))
    sections.append(_reproduce_section(results))
    most_important = next((c for c in comparisons if c.is_regression), comparisons[0])
    Page(
        title=f"{', '.join(c.run for c in comparisons)} compared with {results.baseline.name}",
        headline=headline(results),
        facts=_facts(results),
        sections=sections,
        limits=[results.noun.say(limit) for limit in _LIMITS],
        picture=_gauge(most_important, results.strongest_attack),
        redacted=redacted,
        badges=[_badge(comparisons)],
    ).write(folder)


def _badge(comparisons: Sequence[RunComparison]) -> Badge:
    if len(comparisons) == 1:
        return _BADGES[comparisons[0].outcome]
    n_worse = sum(comparison.is_regression for comparison in comparisons)
    return Badge(f"{n_worse} of {len(comparisons)} leak more", "bad" if n_worse else "good")


def _facts(results: ComparisonResults) -> list[tuple[str, str]]:
    baseline = results.baseline
    return [
        (
            results.noun.many.capitalize(),
            f"{baseline.records:,} ({baseline.records_name}), sha256 {baseline.records_sha256[:16]}",
        ),
        ("Baseline", _description(baseline)),
        *(("Compared", _description(run)) for run in results.runs[1:]),
    ]


def _description(run: RunSummary) -> str:
    seeds = run.seed if isinstance(run.seed, int) else ", ".join(map(str, run.seed))
    # The hash of a bank covers the design, and so whom a given model was trained on.
    bank = "" if run.targets == 1 else f", bank {run.bank_sha256[:16]}"
    return f"{run.name}: {run.models} models, {run.targets} attacked, seed {seeds}{bank}"


def _gauge(comparison: RunComparison, attack: str) -> Gauge:
    """The change in the AUC of the strongest attack, on a scale wide enough for its interval."""
    auc = comparison.auc_of(attack)
    ends = [abs(end) for end in (auc.difference, auc.low, auc.high) if end is not None]
    reach = next((reach for reach in (0.01, 0.02, 0.05, 0.1, 0.2) if max(ends) <= reach), 0.5)
    return Gauge(
        label=f"Change in the area under the ROC curve (AUC) of {attack}, {comparison.run}",
        value=auc.difference,
        low=auc.low,
        high=auc.high,
        start=-reach,
        end=reach,
        reference=0.0,
        reference_label="no change",
    )


def _differences_section(results: ComparisonResults) -> Section:
    comparisons = results.comparisons
    names, n_runs = [figure_name(figure) for figure in comparisons[0].leakage], len(comparisons)
    ends = [-0.5, len(names) - 0.5]
    zero = line([0, 0], ends, "no change", "var(--muted)", "dash", hoverinfo="skip", showlegend=False)
    y_axis = {"tickvals": list(range(len(names))), "ticktext": [label(name) for name in names],
              "range": ends[::-1], "automargin": True}  # fmt: skip
    figure = {
        "data": [zero, *(_differences_trace(c, index, n_runs, names) for index, c in enumerate(comparisons))],
        "layout": {
            "xaxis": axis("difference", zeroline=False),  # a longer title does not fit on a phone
            "yaxis": y_axis,
            "showlegend": n_runs > 1,
            "hovermode": "closest",
        },
    }
    chart = Chart(
        "differences-chart",
        figure,
        "Difference of every leakage figure from the baseline, with 95% intervals; right of zero is worse.",
        all_differences(results),
        height=110 + (22 + 12 * n_runs) * len(names),
        png="differences",
    )
    note = "Each 95% interval holds on its own; the tables below add the wider, simultaneous intervals."
    return Section("differences", "Differences", [chart], note)


def _differences_trace(comparison: RunComparison, index: int, n_runs: int, names: list[str]) -> PlotlyFigure:
    """The differences of one run, shifted so that runs do not cover each other."""
    figures, shift = comparison.leakage, 0.7 * ((index + 0.5) / n_runs - 0.5)
    values, low, high = ([getattr(f, end) for f in figures] for end in ("difference", "low", "high"))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(comparison.run),
        "x": values,
        "y": [row + shift for row in range(len(figures))],
        "text": [label(name) for name in names],
        "hovertemplate": "%{text}: %{x:+.4f}<extra></extra>",
        "marker": {"color": colour(index), "size": 9},
        "error_x": error_bars(values, low, high, colour(index)),
    }


def _trade_off_section(results: ComparisonResults) -> Section:
    """Leakage against accuracy, one point per run."""
    attack = results.strongest_attack
    points = _trade_off_points(results)
    figure = {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(name),
                "x": [accuracy],
                "y": [auc],
                "marker": {"color": colour(index), "size": 12},
            }
            for index, (name, accuracy, auc) in enumerate(points)
        ],
        "layout": {
            "xaxis": axis("accuracy on non-members (right is better)"),
            "yaxis": axis(f"AUC of {label(attack)} (lower is better)"),
            "showlegend": True,
        },
    }
    rows = [[name, number(accuracy), number(auc)] for name, accuracy, auc in points]
    chart = Chart(
        "trade-off-chart",
        figure,
        "One point per run: accuracy on non-members, and the AUC of the strongest attack.",
        Table(("run", "accuracy", "AUC"), rows, "Accuracy and AUC of every run"),
    )
    return Section("trade-off", "Leakage and accuracy", [chart], "The best runs are at the bottom right.")


def _trade_off_points(results: ComparisonResults) -> list[tuple[str, float | None, float | None]]:
    """Name, accuracy on non-members and AUC of every run."""
    pairs = [
        (comparison.run, comparison.accuracy.nonmembers, comparison.auc_of(results.strongest_attack))
        for comparison in results.comparisons
        if comparison.accuracy is not None
    ]
    _, accuracy, auc = pairs[0]
    baseline = (results.baseline.name, accuracy.baseline, auc.baseline)
    return [baseline, *((name, accuracy.other, auc.other) for name, accuracy, auc in pairs)]


def _run_section(results: ComparisonResults, index: int, has_groups: bool) -> Section:
    comparison, baseline = results.comparisons[index], results.baseline.name
    is_only_run = len(results.comparisons) == 1  # its summary is on the first screen
    lines = [] if is_only_run else run_summary(results, comparison)
    records, accuracy = record_table(comparison, results.noun), accuracy_table(comparison)
    no_records = "Single records are not compared: every run needs several targets."
    no_groups = "Groups are not compared: the runs have no groups in common."
    if comparison.groups:
        no_groups = "Groups are left out, because a small one would reveal single records."
    body: Body = [
        *lines,
        recipe_sentence(comparison, baseline),
        leakage_table(comparison),
        *([accuracy] if accuracy else []),
        *([records, share_sentence(comparison, results.noun)] if records else [no_records]),
        *(group_tables(comparison, results.strongest_attack) if has_groups else []),
        *([] if has_groups and comparison.groups else [no_groups]),
    ]
    return Section(f"run-{index}", comparison.run, body)


def _reproduce_section(results: ComparisonResults) -> Section:
    runs = " ".join(run.name for run in results.runs)
    commands = f"leakscope compare {runs}\nleakscope verify COMPARISON    # recompute every number"
    return Section("reproduce", "Reproduce", [Code(commands)])
