"""Advice in plain sentences: what to take, what it gains, what it costs, what was not tried."""

from __future__ import annotations

import math

import scipy

from leakscope.advice.results import AdviceConfig, AdviceResults, Tried
from leakscope.defences.registry import resolve_defence
from leakscope.evaluate.utility import capitalized, utility_named
from leakscope.report.phrases import counted
from leakscope.stats.estimate import Estimate


def summary(results: AdviceResults) -> list[str]:
    """The whole advice, the recommendation first."""
    return [*headline(results), *limitations(results)]


def headline(results: AdviceResults) -> list[str]:
    """What to take, and what it promises."""
    best, config = results.best, results.config
    without = (
        f"Without a defence: rating {results.baseline.rating}, AUC {_with_interval(results.baseline.auc)}."
    )
    if best is None:
        return [_nothing(results), without]
    return [
        f"Take {best.defence}.",
        f"It changes the AUC of the strongest attack from {best.auc.baseline or 0:.3f} to "
        f"{best.auc.other or 0:.3f} ({_ends(best)}); the rating {_moves(results, best)}.",
        *_most_exposed(results, best),
        _cost(best, config),
        *_hidden(best),
        f"Another {config.models} models trained like this should have an AUC of "
        f"{_predicted(best.population.auc, len(results.tried))}.",
        without,
    ]


def _most_exposed(results: AdviceResults, best: Tried) -> list[str]:
    """An average hides them, and the recommendation goes by the average."""
    before, after = results.baseline.most_exposed, best.population.most_exposed
    if before.value is None or after.value is None:
        return []
    return [
        f"Among the most exposed 1% of the {results.config.noun.many}, the AUC goes from {before.value:.3f} "
        f"to {_with_interval(after)}."
    ]


def _hidden(best: Tried) -> list[str]:
    """What a defence of the outputs leaves as it was."""
    if "outputs" not in resolve_defence(best.defence).changes:
        return []
    return [
        "It changes what queries return, so it protects only where nobody sees more: the models "
        "themselves, and whoever serves them, know as much as before."
    ]


def plan_sentences(config: AdviceConfig, seconds: float | None) -> list[str]:
    """What will be tried, before it is."""
    takes = "" if seconds is None else f", about {seconds / 60:.1f} minutes of {config.minutes:g}"
    listed = ", ".join(config.defences)
    return [
        f"{counted(len(config.defences), 'defence')} will be tried with {config.models} models each, on the "
        f"same {config.noun.many} and design as {config.models} models without one{takes}: {listed}."
    ]


def limitations(results: AdviceResults) -> list[str]:
    """What the advice does not say."""
    lines = [
        f"The figures hold for these attacks and these {results.config.noun.many}; a stronger attack may "
        "learn more. No defence here but differential privacy comes with a guarantee."
    ]
    late = [name for name, why in results.not_tried.items() if "time" in why]
    if late:
        lines.append(f"Not tried for lack of time: {', '.join(late)}.")
    return lines


def _nothing(results: AdviceResults) -> str:
    helping = [one for one in results.tried if one.effect == "leaks less"]
    if not helping:
        return (
            "No defence that was tried leaks less, beyond chance. More minutes allow more models, and with "
            "these, smaller differences can be distinguished from chance."
        )
    best, config = helping[0], results.config
    utility, lost = utility_named(config.utility), -(best.utility.difference or 0.0)
    costs = f"{100 * lost:.1f} points" if utility.is_rate else f"{lost:.3f}"
    return (
        f"No defence leaks less within the accepted loss of {utility.loss(config.accepted_loss)}. "
        f"{best.defence} leaks less, and costs {costs}."
    )


def _cost(best: Tried, config: AdviceConfig) -> str:
    utility, figure = utility_named(config.utility), best.utility
    change = utility.change(figure.difference, figure.low, figure.high)
    unit = " points" if utility.is_rate else ""
    return (
        f"{capitalized(utility.name)} on non-members changes by {change}{unit}, from "
        f"{utility.level(figure.baseline)} to {utility.level(figure.other)}; you accept a loss of "
        f"{utility.loss(config.accepted_loss)}."
    )


def _ends(best: Tried) -> str:
    auc = best.auc
    return f"difference {auc.difference or 0:+.3f}, interval {auc.low or 0:+.3f} to {auc.high or 0:+.3f}"


def _moves(results: AdviceResults, best: Tried) -> str:
    before, after = results.baseline.rating, best.population.rating
    return f"stays {before}" if before == after else f"goes from {before} to {after}"


def promised(estimate: Estimate, n_tried: int) -> tuple[float, float]:
    """Where another audit of the recommended defence should find its AUC, with 95%.

    That audit has a spread of its own, so the interval is wider by the root of two. And the defence was
    chosen for its low AUC out of `n_tried`, so the interval is one of as many that hold together.
    """
    value, low, high = estimate.value or 0.0, estimate.low, estimate.high
    if low is None or high is None:
        return 0.0, 1.0
    together, alone = (scipy.special.ndtri(1 - 0.025 / n) for n in (max(n_tried, 1), 1))
    wider = math.sqrt(2) * together / alone
    return max(value + wider * (low - value), 0.0), min(value + wider * (high - value), 1.0)


def _predicted(estimate: Estimate, n_tried: int) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value or 0:.3f}"
    low, high = promised(estimate, n_tried)
    return f"{low:.3f} to {high:.3f} (95%; it was chosen out of {n_tried})"


def _with_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value or 0:.3f}"
    return f"{estimate.value or 0:.3f} (95% interval {estimate.low:.3f} to {estimate.high:.3f})"
