"""The table of attacks, and figures as text, for report.md, report.html and the screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from leakscope.evaluate.limits import why_approximate
from leakscope.evaluate.results import AttackFigures, AuditResults, Figure, SetFigures, TprFigure
from leakscope.leakage.bits import MOST_EXPOSED_SHARE
from leakscope.report.blocks import Table
from leakscope.report.phrases import with_interval
from leakscope.stats.estimate import Estimate

NOT_MEASURABLE = "not measurable"
_UNITS_OFF = 1.5
"""Rounding alone may shift an end that ± prints by one unit of the last digit, not by two."""
_BOTH_ENDS = "Intervals that reach further to one side are written in brackets."


def attack_table(results: AuditResults) -> Table:
    """AUC, advantage and TPR of every attack, each with its interval.

    An FPR at which nothing was measured has no column; `remarks` say why.
    """
    by_attack = {label: _by_fpr(f.tpr_at_fpr) for label, f in results.attacks.items()}
    fprs = measured_fprs(point for own in by_attack.values() for point in own.values())
    head = ["attack", "AUC", "advantage", *(f"TPR at {percent(fpr)} FPR" for fpr in fprs)]
    rows = [
        [_shown(label, f), *map(_with_interval, (f.auc, f.advantage)), *_rates(by_attack[label], fprs)]
        for label, f in results.attacks.items()
    ]
    like_these = " (another sample of records, and models trained on it)" * (results.population.targets > 1)
    caption = f"{title_of_attacks(results)}."
    if has_intervals(results):
        caption = f"{title_of_attacks(results)}{like_these}. {_BOTH_ENDS}"
    return Table(head, rows, results.config.noun.say(caption))


def title_of_attacks(results: AuditResults) -> str:
    """What the table of attacks has, and what follows the ±; nothing does where no figure has an interval."""
    n_targets = results.population.targets
    targets = f"Mean over {n_targets} targets" if n_targets > 1 else "One target"
    if not has_intervals(results):
        return targets
    return results.config.noun.say(f"{targets} ± {_half_of_interval(results)}")


def has_intervals(results: AuditResults) -> bool:
    """Whether any figure of an attack has an interval; with very few models, none has."""
    return any(
        figure.low is not None
        for figures in results.attacks.values()
        for figure in (figures.auc, figures.advantage, *figures.tpr_at_fpr)
    )


def _half_of_interval(results: AuditResults) -> str:
    kind = "for records like these" if results.population.targets > 1 else "over records"
    return f"half the width of its 95% interval {kind}"


def _shown(label: str, figures: AttackFigures) -> str:
    return f"{label}, inverted" if figures.inverted else label


def sets_table(results: AuditResults, fewest_records: int = 0) -> Table:
    """The strongest attack on all records, on the most exposed and on the canaries, one row each.

    Args:
        results: the results.
        fewest_records: a set of fewer records is left out.
    """
    headline, population = results.headline, results.population
    points = results.attacks[headline.attack].tpr_at_fpr
    shown = _shown_sets(results, fewest_records)
    fprs = measured_fprs([*points, *(point for _, figures in shown for point in figures.tpr_at_fpr)])
    rates = (f"TPR at {percent(fpr)} FPR" for fpr in fprs)
    head = [results.config.noun.many, "number", "attack", "AUC", *rates]
    rows = [_set_row("all", population.records, headline.attack, headline.auc, _rates(_by_fpr(points), fprs))]
    for name, figures in shown:
        number, own = figures.records or NOT_MEASURABLE, _rates(_by_fpr(figures.tpr_at_fpr), fprs)
        rows.append(_set_row(name, number, figures.attack, figures.auc, own))
    caption = "The strongest attack on each set of records."
    if has_intervals(results):
        caption = f"{caption[:-1]}, ± {_half_of_interval(results)}. {_BOTH_ENDS}"
    return Table(head, rows, results.config.noun.say(caption))


def _shown_sets(results: AuditResults, fewest_records: int) -> list[tuple[str, SetFigures]]:
    return [
        (name, figures)
        for name, figures in sets_of(results)
        if figures.records >= fewest_records or figures.reason is not None
    ]


def sets_of(results: AuditResults) -> list[tuple[str, SetFigures]]:
    """The sets of records that have figures of their own, by name."""
    headline = results.headline
    sets = [(f"most exposed {percent(MOST_EXPOSED_SHARE)}", headline.most_exposed)]
    return [*sets, *([] if headline.canaries is None else [("canaries", headline.canaries)])]


def _set_row(name: str, n_records: int | str, attack: str, auc: Figure, rates: Sequence[str]) -> list[str]:
    number = n_records if isinstance(n_records, str) else f"{n_records:,}"
    own = attack if auc.value is not None else "–"  # none is the strongest where nothing is measured
    return [name, number, own, _with_interval(auc), *rates]


def _by_fpr(points: Iterable[TprFigure]) -> dict[float, TprFigure]:
    return {point.fpr: point for point in points}


def measured_fprs(points: Iterable[TprFigure]) -> list[float]:
    """The FPRs at which any TPR was measured, the highest first."""
    return sorted({point.fpr for point in points if point.value is not None}, reverse=True)


def _rates(points: Mapping[float, TprFigure], fprs: Sequence[float]) -> list[str]:
    """The cells of a row; a set without figures has no points at all."""
    return [_with_interval(points[fpr], 100, 1, "%") if fpr in points else NOT_MEASURABLE for fpr in fprs]


def sets_remarks(results: AuditResults, fewest_records: int = 0) -> list[str]:
    """How the sets of `sets_table` were chosen, and why some cells have no number."""
    sets = _shown_sets(results, fewest_records)
    chosen = "The most exposed records are chosen for each target by the outputs of the other models."
    if results.is_of_one_model:
        chosen = "The most exposed records are chosen by the outputs of the reference models."
    say = results.config.noun.say
    unmeasured = [
        f"Not measurable, {name}: {say(own.reason)}." for name, own in sets if own.reason is not None
    ]
    measured = measured_fprs(results.attacks[results.headline.attack].tpr_at_fpr)
    rates = [
        f"Not measurable, {name}: {point.reason}."
        for name, own in sets
        if own.reason is None
        for point in own.tpr_at_fpr
        if point.reason and point.fpr in measured  # what no record shows is among the `remarks`
    ]
    has_most_exposed = any(own is results.headline.most_exposed and own.reason is None for _, own in sets)
    return [*_of_choice(results), *([say(chosen)] if has_most_exposed else []), *unmeasured, *rates]


def _of_choice(results: AuditResults) -> list[str]:
    """Why the strongest attack has another AUC here than among all attacks, where it has."""
    strongest = results.headline.attack
    shown, of_all = (_value(auc) for auc in (results.headline.auc, results.attacks[strongest].auc))
    if shown == of_all:
        return []
    why = "because the strongest attack is chosen on other records than it is measured on"
    gate = results.config.gate
    places = "the table of attacks" + (" and at the gate" if gate and gate.max_auc is not None else "")
    differs = f"The AUC over all records, {shown}, differs from the {of_all} of {strongest} in {places}"
    return [results.config.noun.say(f"{differs}, {why}.")]


def interval_table(results: AuditResults) -> list[Table]:
    """Both 95% intervals of every figure; none for one target, which has one kind only."""
    if results.population.targets == 1:
        return []
    rows = [
        [label, name, *(show(low, high) for low, high in _both_intervals(figure))]
        for label, figures in results.attacks.items()
        for name, figure, show in (
            ("AUC", figures.auc, "{:.3f} to {:.3f}".format),
            ("advantage", figures.advantage, "{:.3f} to {:.3f}".format),
            *(
                (f"TPR at {percent(p.fpr)} FPR", p, "{:.2%} to {:.2%}".format)
                for p in figures.tpr_at_fpr
                if not p.reason
            ),
        )
        if None not in (figure.low, figure.these_low)
    ]
    caption = (
        "95% intervals. These records: other models trained on random halves of them. Records like these: "
        "another sample of records, and models trained on it; approximate, because no model was trained on "
        "other records."
    )
    say = results.config.noun.say
    head = ["attack", "figure", say("these records"), say("records like these")]
    return [Table(head, rows, say(caption))] if rows else []


def _both_intervals(figure: Figure) -> tuple[tuple[float, float], tuple[float, float]]:
    return (figure.these_low or 0, figure.these_high or 0), (figure.low or 0, figure.high or 0)


def remarks(results: AuditResults) -> list[str]:
    """Why some cells have no number, and why some intervals are approximate."""
    points = [point for figures in results.attacks.values() for point in figures.tpr_at_fpr]
    missing = [f"Not measurable: {reason}." for reason in sorted({p.reason for p in points if p.reason})]
    n_nonmembers = results.population.records - results.population.members
    fprs = sorted({point.fpr for point in points if not point.reason}, reverse=True)
    approximate = (why_approximate(fpr, n_nonmembers) for fpr in fprs)
    return missing + [why for why in approximate if why is not None]


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
    return with_interval(estimate.value, estimate.low, estimate.high)


def _with_interval(estimate: Estimate, scale: float = 1, digits: int = 3, unit: str = "") -> str:
    """The value ± half of its interval; with both ends where ± would print other ends than there are."""
    if estimate.value is None:
        return NOT_MEASURABLE
    value = _value(estimate, scale, digits)
    if estimate.low is None or estimate.high is None:
        return value + unit
    half = f"{scale * (estimate.high - estimate.low) / 2:.{digits}f}"
    low, high = (f"{scale * end:.{digits}f}" for end in (estimate.low, estimate.high))
    off = max(abs(float(value) - float(half) - float(low)), abs(float(value) + float(half) - float(high)))
    if off > _UNITS_OFF / 10**digits:
        return f"{value}{unit} ({low} to {high})"
    return f"{value} ± {half}{unit}"


def _value(estimate: Estimate, scale: float = 1, digits: int = 3) -> str:
    return NOT_MEASURABLE if estimate.value is None else f"{scale * estimate.value:.{digits}f}"
