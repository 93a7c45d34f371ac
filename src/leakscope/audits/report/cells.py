"""The tables of an audit as text, for report.md, report.html and the screen."""

from __future__ import annotations

from collections.abc import Sequence

from leakscope.evaluate.results import AuditResults, EpsilonFigure, GroupFigures
from leakscope.report.blocks import Table
from leakscope.stats.estimate import Estimate

NOT_MEASURABLE = "not measurable"
CALIBRATED_TEXT = (
    "An attacker has to choose the threshold without knowing the target's members. Here, each target's "
    "threshold comes from the non-members of all other models."
)


def intervals_text(n_targets: int) -> str:
    """What the figures behind ± are."""
    if n_targets > 1:
        return f"Mean over {n_targets} targets ± half the width of its 95% t interval over targets."
    return (
        "One target ± half the width of its 95% interval over records: DeLong for the AUC, "
        "Dvoretzky-Kiefer-Wolfowitz for the advantage, Clopper-Pearson for the TPR."
    )


def attack_table(results: AuditResults) -> Table:
    """AUC, advantage and TPR of every attack, each ± half of its interval."""
    points = next(iter(results.attacks.values())).tpr_at_fpr
    head = ["attack", "AUC", "advantage", *(f"TPR at {percent(point.fpr)} FPR" for point in points)]
    rows = [
        [label, _plus_minus(f.auc), _plus_minus(f.advantage), *map(_percent_plus_minus, f.tpr_at_fpr)]
        for label, f in results.attacks.items()
    ]
    return Table(head, rows, intervals_text(results.population.targets))


def unmeasurable(results: AuditResults) -> list[str]:
    """Why some cells have no number, one sentence per reason."""
    points = [point for figures in results.attacks.values() for point in figures.tpr_at_fpr]
    return [f"Not measurable: {reason}." for reason in sorted({p.reason for p in points if p.reason})]


def hygiene_table(results: AuditResults) -> Table:
    """Every check and its outcome."""
    rows = [[check.name, check.status, check.sentence] for check in results.hygiene]
    return Table(["check", "outcome", "finding"], rows)


def precision_table(results: AuditResults) -> Table:
    """Precision of every attack where few records are members; no rows where no TPR is measurable."""
    points = [
        (label, point)
        for label, figures in results.attacks.items()
        for point in figures.tpr_at_fpr
        if point.value is not None
    ]
    priors = [entry.prior for entry in points[0][1].precision] if points else []
    head = ["attack", "FPR", "TPR", *(f"precision if {prior:.0%} are members" for prior in priors)]
    rows = [
        [label, percent(point.fpr), rate(point), *(rate(entry) for entry in point.precision)]
        for label, point in points
    ]
    return Table(head, rows)


def calibrated_table(results: AuditResults) -> Table:
    """Rates reached with thresholds from the other models; no rows for one target."""
    rows = [
        [label, percent(point.fpr_budget), rate(point.fpr), rate(point.tpr)]
        for label, figures in results.attacks.items()
        for point in figures.calibrated
        if point.reason is None
    ]
    return Table(["attack", "FPR budget", "FPR reached", "TPR reached"], rows)


def epsilon_text(results: AuditResults) -> str:
    """What the bounds mean."""
    config = results.config
    median = " We report the median bound over targets." if results.population.targets > 1 else ""
    return (
        f"With {config.confidence:.0%} confidence, training is not (epsilon, {config.delta:g})-"
        "differentially private for any epsilon below the bound, provided that records are "
        f"independent.{median}"
    )


def epsilon_table(results: AuditResults) -> Table:
    """Lower bounds on epsilon by every attack."""
    rows = [
        [label, _epsilon(figures.epsilon.general), _epsilon(figures.epsilon.gaussian)]
        for label, figures in results.attacks.items()
    ]
    return Table(["attack", "any trade-off curve", "Gaussian trade-off curve"], rows)


def why_no_bits(results: AuditResults) -> str:
    """Why bits are undefined; empty where they are defined."""
    leakage = results.leakage
    is_defined = leakage.checkpoints and leakage.checkpoints[-1].bits.value is not None
    return "" if is_defined else leakage.reason or "the bank has no checkpoint"


def no_interval_sentences(results: AuditResults) -> list[str]:
    """Why bits have no interval; empty where they have one."""
    reason = results.leakage.reason
    return [f"No interval: {reason}."] if reason else []


def leakage_text(results: AuditResults) -> str:
    """How the bits are defined."""
    return (
        f"A record's {results.leakage.signal} has one distribution over models trained on it and another "
        "over the other models; a Gaussian is fitted to each. Mutual information is at most 1 bit. rho_KL is "
        "the sum of the two Kullback-Leibler divergences, in bits. As far as the Gaussians hold, no attacker "
        "who sees only this output has a larger advantage than the bound. All figures are bias-corrected "
        "with permuted designs; intervals are over models."
    )


def leakage_table(results: AuditResults) -> Table:
    """Bits by checkpoint."""
    rows = [
        [str(at.epoch), *map(number, (at.bits, at.most_exposed, at.rho_kl, at.advantage_bound))]
        for at in results.leakage.checkpoints
    ]
    head = ["epoch", "mutual information", "most exposed 1%", "rho_KL", "bound on the advantage"]
    return Table(head, rows)


def group_table(groups: Sequence[GroupFigures], column: str) -> Table:
    """AUC and TPR of the groups of one column."""
    budgets = [point.fpr for point in groups[0].tpr_at_fpr]
    head = [column, "records", "AUC", *(f"TPR at {percent(budget)} FPR" for budget in budgets)]
    rows = [[g.group, f"{g.records:,}", number(g.auc), *map(rate, g.tpr_at_fpr)] for g in groups]
    return Table(head, rows)


def group_reasons(results: AuditResults) -> list[str]:
    """Why some columns were not evaluated group by group."""
    return [f"Not evaluated by {column}: {reason}." for column, reason in results.groups_left_out.items()]


def percent(share: float) -> str:
    """A share in percent, with as many digits as it needs."""
    return f"{100 * share:g}%"


def rate(estimate: Estimate) -> str:
    """A rate in percent with its interval."""
    if estimate.value is None:
        return NOT_MEASURABLE
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.1%}"
    return f"{estimate.value:.2%} ({max(estimate.low, 0):.2%} to {estimate.high:.2%})"


def number(estimate: Estimate) -> str:
    """A number with its interval."""
    if estimate.value is None:
        return NOT_MEASURABLE
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def _plus_minus(estimate: Estimate) -> str:
    if estimate.value is None:
        return NOT_MEASURABLE
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ± {(estimate.high - estimate.low) / 2:.3f}"


def _percent_plus_minus(estimate: Estimate) -> str:
    if estimate.value is None:
        return NOT_MEASURABLE
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.value:.1f}%"
    return f"{100 * estimate.value:.1f} ± {50 * (estimate.high - estimate.low):.1f}%"


def _epsilon(bound: EpsilonFigure) -> str:
    return f"{bound.value:.2f}" if bound.value is not None else f"none: {bound.reason}"
