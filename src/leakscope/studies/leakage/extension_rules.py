"""Rules that settle claims by the extensions: limits, private noise, regularizer; see `rules`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakscope.stats.correlation import spearman
from leakscope.studies.claims import Outcome
from leakscope.studies.leakage.extension_results import AtSameError, LimitPoint
from leakscope.studies.leakage.page_charts import number
from leakscope.studies.leakage.results import LeakageResults
from leakscope.studies.leakage.rules import Finding, protocol, trend

_TREND = 0.9 - 1e-9
"""Least rank correlation of a trend; 0.9 itself counts, whatever the rounding."""
_SAME_ORDER = 0.4
"""Two powers of the noise are of the same order if they differ by at most this much."""
_USEFUL_LOSS = 0.05
"""Loss of accuracy at epsilon = 1 from which private noise costs much utility."""


def more_if_sensitive(results: LeakageResults) -> Finding | None:
    """Rank correlation of leakage with S in both families."""
    correlations = _with_sensitivity(results)
    if correlations is None:
        return None
    outcome = Outcome.REPRODUCED if min(correlations) >= _TREND else _direction(min(correlations))
    ours = f"rank correlation of leakage with S: {correlations[0]:+.2f} and {correlations[1]:+.2f}"
    return Finding(outcome, ours, f"{protocol(results)}; scaled loss and clipped inputs, rounded parameters")


def less_if_sensitive(results: LeakageResults) -> Finding | None:
    """The same, with the other sign claimed."""
    correlations = _with_sensitivity(results)
    if correlations is None:
        return None
    outcome = Outcome.REFUTED if min(correlations) >= _TREND else _direction(-max(correlations))
    ours = f"rank correlation of leakage with S: {correlations[0]:+.2f} and {correlations[1]:+.2f}"
    why = "a slip: the abstract and the text after Theorem 3 say the opposite"
    return Finding(outcome, ours, f"{protocol(results)}; scaled loss and clipped inputs", why)


def _direction(r: float) -> Outcome:
    return Outcome.SAME_DIRECTION if r > 0 else Outcome.NOT_REPRODUCED


def _with_sensitivity(results: LeakageResults) -> list[float] | None:
    if results.limits is None:
        return None
    families = (results.limits.loss_scale, results.limits.clipping)
    if any(point.leakage is None for family in families for point in family):
        return None
    return [
        spearman([p.sensitivity for p in family], [p.leakage or 0.0 for p in family]).r for family in families
    ]


def theorem_3_ridge(results: LeakageResults) -> Finding | None:
    """Exactly nothing at the largest weight, with the parameters really rounded."""
    if 3 not in results.figures:
        return None
    points = results.figures[3].points[-2:]
    before, last = (p.rho_kl_finite_precision for p in points)
    if before is None or last is None or last.mean is None:
        return None
    outcome = Outcome.REPRODUCED if last.mean == 0 == last.mean_high else Outcome.SAME_DIRECTION
    ours = (
        f"{number(before.mean)} ({number(before.mean_low)} to {number(before.mean_high)}) nats at "
        f"{number(points[0].value)}, {number(last.mean)} ({number(last.mean_low)} to "
        f"{number(last.mean_high)}) at {number(points[1].value)}"
    )
    return Finding(outcome, ours, f"{protocol(results, 3)}, rounded to {results.config.precision:g}")


def theorem_3_lipschitz(results: LeakageResults) -> Finding | None:
    """Exactly nothing at the smallest constant, in both families."""
    if results.limits is None:
        return None
    last = [family[-1] for family in (results.limits.loss_scale, results.limits.clipping)]
    is_gone = all(point.leakage == 0 and point.informed == 0 for point in last)
    ours = " and ".join(f"{number(p.leakage)} nats at L = {p.sensitivity:.2g}" for p in last)
    protocol_words = f"{protocol(results)}; scaled loss and clipped inputs, rounded parameters"
    return Finding(Outcome.REPRODUCED if is_gone else Outcome.SAME_DIRECTION, ours, protocol_words)


def data_independent(results: LeakageResults) -> Finding | None:
    """An adversary who knows all other records loses everything as the penalty outweighs the loss."""
    if results.limits is None:
        return None
    points: Sequence[LimitPoint] = results.limits.loss_scale
    r = spearman([p.value for p in points], [p.informed for p in points]).r
    outcome = Outcome.REPRODUCED if r >= _TREND and points[-1].informed == 0 else _direction(r)
    ours = (
        f"informed adversary {points[0].informed:.3f} at loss times 1, {points[-1].informed:.3f} at 1e-4; "
        f"rank correlation {r:+.2f}"
    )
    return Finding(outcome, ours, f"{protocol(results)}, rounded parameters")


def weaker_adversaries(results: LeakageResults) -> Finding | None:
    """Under private noise, weaker adversaries lose as well: most of what they gain without it."""
    if results.privacy is None:
        return None
    strong, without = results.privacy.analytic[0], results.privacy.analytic[-1]
    found = {
        name: (getattr(strong, name), getattr(without, name))
        for name in ("threshold", "likelihood_ratio", "informed")
    }
    lost = [without > 0 and 2 * noisy <= without for noisy, without in found.values()]
    fewer = all(noisy < without for noisy, without in found.values())
    outcome = Outcome.SAME_DIRECTION if fewer else Outcome.NOT_REPRODUCED
    ours = "; ".join(
        f"{name.replace('_', ' ')} {noisy:.4f} against {without:.4f}"
        for name, (noisy, without) in found.items()
    )
    return Finding(
        Outcome.REPRODUCED if all(lost) else outcome,
        f"advantage at epsilon {number(strong.epsilon)} against that without noise: {ours}",
        _private_protocol(results),
        "the rule asks for at most half of every adversary's advantage without noise",
    )


def noise_order(results: LeakageResults) -> Finding | None:
    """How small noise reduces leakage: O(sigma) is an upper limit on it, which sigma^2 keeps to as well."""
    if results.privacy is None:
        return None
    points = [p for p in results.privacy.analytic if p.epsilon is not None and p.epsilon <= 0.5]
    points = [p for p in points if p.leakage is not None and p.leakage > 0]
    if len(points) < 3:
        return None
    slope = float(
        np.polyfit(np.log([p.sigma for p in points]), np.log([p.leakage or 1 for p in points]), 1)[0]
    )
    order = float(np.log2(results.theory.kl_reduction_ratio))
    ours = (
        f"small noise reduces rho_KL by a multiple of sigma^{order:.2f}; under private noise leakage is "
        f"~ sigma^{slope:.2f}, and at most epsilon^2 / (2 log(1.25/delta)) by the classical rule"
    )
    outcome, why = _order_outcome(order)
    return Finding(outcome, ours, _private_protocol(results), why)


def _order_outcome(order: float) -> tuple[Outcome, str]:
    """The verdict on a reduction of order sigma, from the power of sigma that was found."""
    if order < 1 - _SAME_ORDER:
        return Outcome.REFUTED, "the reduction is larger than a multiple of the noise"
    if order <= 1 + _SAME_ORDER:
        return Outcome.REPRODUCED, ""
    return Outcome.SAME_DIRECTION, (
        "true as an upper limit, because sigma^2 is O(sigma) for small sigma, but not as a rate: the linear "
        "term, by which the proof of Theorem 4 gets it, is 0"
    )


def private_utility(results: LeakageResults) -> Finding | None:
    """Accuracy at epsilon = 1 beside that without noise."""
    if results.privacy is None:
        return None
    at_one = next(p for p in results.privacy.analytic if p.epsilon == 1)
    without = results.privacy.analytic[-1]
    lost = without.accuracy - at_one.accuracy
    outcome = Outcome.REPRODUCED if lost >= _USEFUL_LOSS else _direction(lost)
    ours = (
        f"accuracy {without.accuracy:.3f} without noise, {at_one.accuracy:.3f} at epsilon 1, "
        f"{results.privacy.constant_accuracy:.3f} by guessing the class of most records"
    )
    return Finding(
        outcome, ours, _private_protocol(results), f"much is a loss of at least {_USEFUL_LOSS:.2f} here"
    )


def privacy_works(results: LeakageResults) -> Finding | None:
    """An adversary who knows all other records, at the smallest and at the largest epsilon."""
    if results.privacy is None:
        return None
    noisy = [p for p in results.privacy.analytic if p.epsilon is not None]
    small, large = noisy[0], noisy[-1]
    works = small.informed < 0.05 and large.informed > 0.5
    words = [
        f"{p.informed:.3f} ± {1.96 * p.informed_error:.3f} at epsilon {number(p.epsilon)}"
        for p in (small, large)
    ]
    outcome = Outcome.REPRODUCED if works else _direction(large.informed - small.informed)
    rule = "the rule asks for below 0.05 at the smallest and above 0.5 at the largest epsilon"
    return Finding(outcome, f"informed adversary {words[0]}, {words[1]}", _private_protocol(results), rule)


def theorem_4(results: LeakageResults) -> Finding | None:
    """Figure 5's leakage, and its mutual information."""
    found = trend(5, of_advantage=False)(results)
    if found is None:
        return None
    points = results.figures[5].points
    r = spearman([p.value for p in points], [p.rho_mi_bits.mean for p in points]).r
    outcome = found.outcome if r <= -0.9 else Outcome.SAME_DIRECTION
    return found._replace(outcome=outcome, ours=f"{found.ours}; rank correlation of rho_MI {r:+.2f}")


def regularizer(results: LeakageResults) -> Finding | None:
    """Intervals of the difference of leakage from ridge of the same error, for both baselines."""
    if results.regularizer is None:
        return None
    comparisons = results.regularizer.comparisons
    groups = {
        name: [c for c in comparisons if c.baseline == name]
        for name in dict.fromkeys(c.baseline for c in comparisons)
    }
    outcomes = {name: _regularized_outcome(group) for name, group in groups.items()}
    worst = max(
        outcomes.values(),
        key=[Outcome.REPRODUCED, Outcome.SAME_DIRECTION, Outcome.NOT_REPRODUCED, Outcome.REFUTED].index,
    )
    ours = "; ".join(
        f"against {name}: "
        + ", ".join(
            f"{number(c.leakage)} ({number(c.leakage_low)} to {number(c.leakage_high)})" for c in group
        )
        for name, group in groups.items()
    )
    gains = sum(c.likelihood_ratio_low is not None and c.likelihood_ratio_low > 0 for c in comparisons)
    why = "; ".join(f"against {name}: {outcome}" for name, outcome in outcomes.items())
    why += f". The likelihood-ratio adversary gains in {gains} of {len(comparisons)} comparisons"
    return Finding(
        worst,
        f"difference of rho_KL at the same error, by strength: {ours}",
        f"{protocol(results)}, n = {results.regularizer.size}",
        why,
    )


def _regularized_outcome(group: Sequence[AtSameError]) -> Outcome:
    """Reproduced: below 0 at most strengths and above 0 at none; refuted: above 0 at most strengths."""
    below = sum(c.leakage_high is not None and c.leakage_high < 0 for c in group)
    above = sum(c.leakage_low is not None and c.leakage_low > 0 for c in group)
    if below > len(group) / 2 and not above:
        return Outcome.REPRODUCED
    if above > len(group) / 2:
        return Outcome.REFUTED
    return Outcome.SAME_DIRECTION if below and not above else Outcome.NOT_REPRODUCED


def _private_protocol(results: LeakageResults) -> str:
    assert results.privacy is not None
    privacy = results.privacy
    setting = f"n = {privacy.size}, ridge weight {privacy.weight:g}, clip norm {privacy.norm:g}"
    return f"{protocol(results)}, {setting}"
