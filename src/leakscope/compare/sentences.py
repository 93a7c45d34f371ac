"""The results of a comparison in plain sentences: does it help, by how much, and what does it cost?"""

from __future__ import annotations

from collections.abc import Sequence

from leakscope.compare.results import ComparisonResults, DifferenceFigure, RunComparison, RunSummary
from leakscope.compare.tables import figure_name, tpr_name
from leakscope.evaluate.exposure import detectable_records
from leakscope.evaluate.nouns import Noun
from leakscope.evaluate.sentences import a_pair

_MOST_NAMED = 4


def summary(results: ComparisonResults) -> list[str]:
    """The whole comparison, run by run."""
    return [line for comparison in results.comparisons for line in run_summary(results, comparison)]


def run_summary(results: ComparisonResults, comparison: RunComparison) -> list[str]:
    """One run against the baseline, most important first."""
    baseline = results.baseline
    runs = [baseline, *(run for run in results.runs if run.name == comparison.run)]
    return [
        *_failed_checks(runs),
        *conclusion(comparison, baseline.name),
        _strongest(comparison, results.strongest_attack, baseline.name, results.noun),
        *regressions(comparison),
        _cost(comparison),
        *_records(comparison, baseline, results.noun),
        *_diverged(runs),
    ]


def headline(results: ComparisonResults) -> list[str]:
    """The first screen: failed checks, conclusions, regressions and costs; runs that leak more come first."""
    if len(results.comparisons) == 1:
        return summary(results)
    ordered = sorted(results.comparisons, key=lambda comparison: not comparison.is_regression)
    return [
        *_failed_checks(results.runs),
        *(conclusion(comparison, results.baseline.name)[0] for comparison in ordered),
        *(line for comparison in ordered for line in regressions(comparison)),
        *(f"{comparison.run}: {_cost(comparison)}" for comparison in ordered),
    ]


def is_alarm(sentence: str) -> bool:
    """Whether a sentence of the summary reports a regression or a failed check."""
    return sentence.startswith(("Regression", "DO NOT TRUST"))


def regressions(comparison: RunComparison) -> list[str]:
    """Names the figures that are higher than in the baseline; empty where none is."""
    higher = [figure for figure in comparison.leakage if figure.outcome == "higher"]
    if not higher:
        return []
    named = "; ".join(
        f"{figure_name(figure)} from {figure.baseline:.3f} to {figure.other:.3f}"
        for figure in higher[:_MOST_NAMED]
    )
    more = f"; and {len(higher) - _MOST_NAMED} more" if len(higher) > _MOST_NAMED else ""
    return [f"Regression in {comparison.run}: {named}{more}."]


def recipe_sentence(comparison: RunComparison, baseline: str) -> str:
    """How the recipe differs from the baseline's."""
    if not comparison.recipe_differences:
        return f"The recipe is the same as that of {baseline}."
    return f"Recipe compared with {baseline}: {'; '.join(comparison.recipe_differences)}."


def share_sentence(comparison: RunComparison, noun: Noun) -> str:
    """The change in the share of exposed records; empty where single records are not compared."""
    if comparison.records is None:
        return ""
    share = comparison.records.share_difference
    listed = f"records.parquet lists every {noun.one}."
    if share.value is None or share.low is None or share.high is None:
        return f"The models are too few to resolve the share of exposed {noun.many}. {listed}"
    return (
        f"The share of exposed {noun.many} changes by {100 * share.value:+.1f} points (95% interval "
        f"{100 * share.low:+.1f} to {100 * share.high:+.1f}, over {noun.many}, for these models). {listed}"
    )


def method_sentences(results: ComparisonResults) -> list[str]:
    """How the figures are computed, and what is not compared."""
    levels = results.intervals
    methods = dict.fromkeys(figure.method for c in results.comparisons for figure in c.leakage)
    return [
        f"A difference is this run minus {results.baseline.name}. TPR and FPR are the true and the false "
        "positive rate of an attack, AUC is the area under its ROC curve, and the advantage is TPR - FPR at "
        "the threshold that is best on the other half of the records.",
        f"Each {levels.level:.0%} interval holds on its own. Outcome and exit code follow the simultaneous "
        f"intervals, which hold for all {levels.leakage_figures} leakage figures together: each has a level "
        f"of {levels.simultaneous_level:.2%} (Bonferroni). Accuracy, groups and single records are not part "
        "of this family.",
        f"Methods of the intervals: {'; '.join(methods)}.",
        "The figures hold for these records and these attacks; other records or attacks may differ.",
        *_left_out(results),
    ]


def _left_out(results: ComparisonResults) -> list[str]:
    left_out = results.left_out
    rates = [tpr_name(budget) for budget in left_out.fpr_budgets]
    items = [*left_out.attacks, *rates, *left_out.groups, *left_out.parts]
    if not items:
        return []
    why = "some run lacks it, cannot measure it or defines it differently"
    return [f"Not compared, because {why}: {', '.join(items)}."]


def _failed_checks(runs: Sequence[RunSummary]) -> list[str]:
    return [
        f"DO NOT TRUST THIS COMPARISON ({run.name}): {sentence}"
        for run in runs
        for sentence in run.hygiene_failed
    ]


def conclusion(comparison: RunComparison, baseline: str) -> list[str]:
    """Whether the run leaks less or more than the baseline, and by how many figures."""
    run, leakage = comparison.run, comparison.leakage
    if all(figure.low is None for figure in leakage):
        return [f"Whether {run} leaks more or less than {baseline} is unknown: too few models."]
    outcome = {
        "helped": f"{run} leaks less than {baseline}.",
        "worse": f"{run} LEAKS MORE than {baseline}.",
        "mixed": f"{run} LEAKS MORE than {baseline} by some figures, and less by others.",
        "no difference": f"No difference in leakage between {run} and {baseline} was detected.",
    }[comparison.outcome]
    outcomes = [figure.outcome for figure in leakage]
    return [
        outcome,
        f"Of {len(outcomes)} leakage figures, {outcomes.count('lower')} are significantly lower and "
        f"{outcomes.count('higher')} significantly higher, corrected for the number of figures.",
    ]


def _strongest(comparison: RunComparison, attack: str, baseline: str, noun: Noun) -> str:
    auc = comparison.auc_of(attack)
    return (
        f"The strongest attack ({attack}) ranks {a_pair(noun)} "
        f"{auc.other or 0:.1%} of the time, compared with {auc.baseline or 0:.1%} for {baseline}: "
        f"{_points(auc)}."
    )


def _cost(comparison: RunComparison) -> str:
    if comparison.accuracy is None:
        return "Accuracy is not compared: not every run stores which predictions are correct."
    accuracy = comparison.accuracy.nonmembers
    change = f"from {accuracy.baseline or 0:.1%} to {accuracy.other or 0:.1%}, {_points(accuracy)}"
    if accuracy.low is None or accuracy.high is None:
        return f"Accuracy on non-members goes {change}."
    if accuracy.high < 0:
        return f"Accuracy on non-members falls {change}."
    if accuracy.low > 0:
        return f"Accuracy on non-members rises {change}."
    return f"No change in accuracy on non-members was detected: {change}."


def _records(comparison: RunComparison, baseline: RunSummary, noun: Noun) -> list[str]:
    changes = comparison.records
    if changes is None:
        return []
    are = "is" if changes.less_exposed == 1 else "are"
    changed = (
        f"{noun.counted(changes.less_exposed)} {are} significantly less exposed and {changes.more_exposed:,} "
        f"significantly more exposed (false discovery rate {changes.false_discovery_rate:.0%})."
    )
    reason = detectable_records(baseline.targets, changes.records).reason
    if reason and changes.exposed_baseline is None and changes.exposed_other is None:
        return [f"Exposed {noun.many}: {noun.say(reason)}. {changed}"]
    other, before = changes.exposed_other, changes.exposed_baseline
    if other is not None and before is not None:
        exposed = f"{other:,}, compared with {before:,} in {baseline.name}"
    elif before is not None:
        exposed = f"{before:,} in {baseline.name}; {comparison.run} has too few models to tell"
    else:
        exposed = f"{other or 0:,} in {comparison.run}; {baseline.name} has too few models to tell"
    return [f"Individually exposed {noun.many}: {exposed}. {changed}"]


def _diverged(runs: Sequence[RunSummary]) -> list[str]:
    return [
        f"{run.diverged_models} models of {run.name} diverged and are left out."
        if run.diverged_models > 1
        else f"1 model of {run.name} diverged and is left out."
        for run in runs
        if run.diverged_models
    ]


def _points(figure: DifferenceFigure) -> str:
    """A difference of rates in percentage points, with its interval."""
    points = f"{100 * (figure.difference or 0):+.1f} points"
    if figure.low is None or figure.high is None:
        return f"{points} (no interval: too few models)"
    return f"{points} (95% interval {100 * figure.low:+.1f} to {100 * figure.high:+.1f})"
