"""The table of defences, for the terminal, report.md, report.html and notebooks."""

from __future__ import annotations

from leakscope.advice.results import AdviceResults, Tried
from leakscope.compare.results import DifferenceFigure
from leakscope.evaluate.utility import capitalized, utility_named
from leakscope.report.blocks import Table
from leakscope.stats.estimate import Estimate


def trade_table(results: AdviceResults) -> Table:
    """One row per defence, best first; the models without one on top."""
    fpr, utility, plain = results.config.fpr, utility_named(results.config.utility), results.baseline
    has_sets = any(
        one.most_exposed.value is not None for one in (plain, *(t.population for t in results.tried))
    )
    tpr = [f"change of TPR at {100 * fpr:g}% FPR"] if fpr else []
    sets = ["AUC, most exposed 1%"] if has_sets else []
    name = utility.name
    head = ["defence", "in short", "rating", "AUC", "change of AUC", *tpr, *sets, name, f"change of {name}"]
    first = ["none", "", plain.rating, _number(plain.auc), "", *[""] * len(tpr)]
    first += [*([_number(plain.most_exposed)] if has_sets else []), utility.level(plain.utility.value), ""]
    rows = [first, *(_row(one, results, bool(tpr), has_sets) for one in results.tried)]
    caption = (
        f"{results.config.models} models per defence, paired with those without one. Intervals of changes "
        f"hold for all defences together (95%). {capitalized(name)} is on non-members; changes of "
        "rates are in points."
    )
    return Table(head, rows, caption)


def in_short(one: Tried, results: AdviceResults) -> str:
    """A defence in a few words."""
    words = ["recommended"] if one.defence == results.recommended else []
    words += [one.effect] if not words else []
    words += [] if one.is_affordable else ["costs too much"]
    return ", ".join([*words, *([f"worse than {one.dominated_by}"] if one.dominated_by else [])])


def _row(one: Tried, results: AdviceResults, has_tpr: bool, has_sets: bool) -> list[str]:
    own, utility, change = one.population, utility_named(results.config.utility), one.utility
    tpr = [_points(one.tpr)] if has_tpr else []
    return [
        one.defence,
        in_short(one, results),
        own.rating,
        _number(own.auc),
        _change(one.auc),
        *tpr,
        *([_number(own.most_exposed)] if has_sets else []),
        utility.level(own.utility.value),
        utility.change(change.difference, change.low, change.high),
    ]


def _number(estimate: Estimate) -> str:
    return "not measurable" if estimate.value is None else f"{estimate.value:.3f}"


def _change(figure: DifferenceFigure) -> str:
    if figure.low is None or figure.high is None:
        return f"{figure.difference or 0:+.3f}"
    return f"{figure.difference or 0:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})"


def _points(figure: DifferenceFigure | None) -> str:
    """A change of a rate in percentage points."""
    if figure is None:
        return ""
    value, low, high = (100 * (x or 0) for x in (figure.difference, figure.low, figure.high))
    return f"{value:+.1f}" if figure.low is None else f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
