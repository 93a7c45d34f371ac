"""Claims that the published protocol cannot settle: other data, other attacks, more widths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leakscope.studies.claims import Claim, Outcome, Settled
from leakscope.studies.scaling.evidence import (
    ROUNDING,
    Evidence,
    Mean,
    Trainings,
    growth,
    width_of,
)
from leakscope.studies.scaling.published import PUBLISHED
from leakscope.studies.scaling.results import Correlation, Favored, ScalingResults
from leakscope.studies.scaling.settle_widths import settle_more_widths, settle_regularization
from leakscope.studies.scaling.tables import r_text, setting_text, spread_text

_STRONGEST = "lira"
_HIGHEST_PUBLISHED = max(row.attack_auc for row in PUBLISHED.values())


def settle_further(
    evidence: Evidence, trainings: Trainings | None, claims: Mapping[str, Claim]
) -> Iterator[Settled]:
    """One entry per claim that the results speak to."""
    if evidence.published is not None:
        yield from _difficulty(evidence.published, claims)
    if evidence.variance is not None:
        yield from _class_variance(evidence.variance, claims["class_variance"])
    if trainings is not None:
        yield _same_distribution(trainings, evidence.same_shadows, claims["same_distribution"])
    wide = Trainings.of(evidence.wide)
    if wide is not None:
        yield settle_more_widths(wide, evidence.decisive, claims["more_widths"])
    if evidence.decisive is not None:
        yield from _hypotheses(evidence.decisive, claims)
        yield _gap_as_good(evidence.decisive, claims["gap_as_good"])
        yield _other_attacks(evidence.decisive, claims["other_attacks"])
        if evidence.dropout is not None and evidence.weight_decay is not None:
            regularized = (evidence.dropout, evidence.weight_decay)
            yield settle_regularization(evidence.decisive, *regularized, claims["regularization"])
        if evidence.larger is not None:
            yield _larger_data(evidence.decisive, evidence.larger, claims["larger_data"])
        if evidence.real is not None:
            yield _real_data(evidence.decisive, evidence.real, claims["real_data"])


def _difficulty(results: ScalingResults, claims: Mapping[str, Claim]) -> Iterator[Settled]:
    """Whether stronger attacks on the very same targets find more."""
    lowest = {
        attack: min(row.attacks[attack].mean_auc for row in results.results)
        for attack in results.attacks
        if attack != "shokri"
    }
    best = max(lowest, key=lambda attack: lowest[attack])
    highest = max(row.attacks[best].mean_auc for row in results.results)
    ours = f"AUC of {best} on the same targets: {lowest[best]:.3f} to {highest:.3f}"
    refuted = lowest[best] > _HIGHEST_PUBLISHED
    correct = lowest.get("correctness", 0.5)
    why = f"the attack is weak, not the task: correctness alone has at least {correct:.3f}"
    outcome = Outcome.REFUTED if refuted else Outcome.NOT_REPRODUCED
    yield Settled(claims["difficulty"], outcome, ours, setting_text(results), why if refuted else "")


def _class_variance(results: ScalingResults, claim: Claim) -> Iterator[Settled]:
    """Whether classes of variance 1.5 could have given the published accuracies."""
    if results.initializations is None:
        return
    spreads = {row.hidden_width: row.test_acc for row in results.initializations.widths}
    outside = [
        width
        for width, spread in spreads.items()
        if not spread.low - ROUNDING <= PUBLISHED[width].test_acc <= spread.high + ROUNDING
    ]
    shown = "; ".join(f"width {width}: {spread_text(spread)}" for width, spread in spreads.items())
    all_outside = len(outside) == len(spreads)
    yield Settled(
        claim,
        Outcome.REFUTED if all_outside else Outcome.NOT_REPRODUCED,
        f"test accuracy with variance 1.5: {shown}",
        f"published protocol with variance 1.5, {results.initializations.n} initializations",
        f"outside at {len(outside)} of {len(spreads)} widths; a standard deviation of 1.5 gives the table",
    )


def _same_distribution(trainings: Trainings, same: ScalingResults | None, claim: Claim) -> Settled:
    """Redrawn class centers and the publication's seeds give its AUCs, so its centers were redrawn."""
    differences = [
        abs(row.attack_auc - PUBLISHED[row.hidden_width].attack_auc) for row in trainings.exact.widths
    ]
    redrawn = max(differences) <= trainings.tolerance
    with_same = ""
    if same is not None and same.initializations is not None:
        shown = [spread_text(row.attack_auc) for row in same.initializations.widths]
        with_same = f"; with the target's centers the AUCs are {', '.join(shown)}"
    return Settled(
        claim,
        Outcome.REFUTED if redrawn else Outcome.NOT_REPRODUCED,
        f"class centers redrawn for each shadow model: AUCs within {max(differences):.4f} of the published "
        f"ones{with_same}",
        "published data and seeds",
        "the centers are redrawn, so shadow models see another distribution" if redrawn else "",
    )


def _hypotheses(results: ScalingResults, claims: Mapping[str, Claim]) -> Iterator[Settled]:
    """Does one predictor add to the other? Partial correlations of the strongest attack."""
    finding = results.gap_or_size.get(_STRONGEST)
    if finding is None:
        return
    whole = finding.over[0]
    pairs = {
        "capacity_hypothesis": (whole.partial_r_size_given_gap, whole.partial_rank_size_given_gap),
        "overfitting_hypothesis": (whole.partial_r_gap_given_size, whole.partial_rank_gap_given_size),
    }
    outcomes = hypothesis_outcomes(tuple(pairs.values()))
    for (key, (linear, rank)), (outcome, why) in zip(pairs.items(), outcomes, strict=True):
        ours = f"partial correlation with LiRA's AUC: {r_text(linear)}; of ranks {r_text(rank)}"
        yield Settled(claims[key], outcome, ours, setting_text(results), why)


_UNDEFINED = (
    "undecided: one predictor orders AUC perfectly, so of ranks nothing is left for the other to explain, "
    "whatever it adds to the values"
)
Partials = tuple[Correlation, Correlation]
"""Of values and of ranks."""


def hypothesis_outcomes(pairs: Sequence[Partials]) -> list[tuple[Outcome, str]]:
    """The verdict on each hypothesis, with its reason, from the partial correlations of all.

    The two are one comparison: where ranks and values disagree about one of them, or ranks are undefined,
    neither is decided.
    """
    adds = [[one.low is not None and one.low > 0 for one in pair] for pair in pairs]
    if any(one.r is None for pair in pairs for one in pair):
        return [(Outcome.NOT_TESTABLE, _UNDEFINED)] * len(pairs)
    if any(of_values != of_ranks for of_values, of_ranks in adds):
        return [(Outcome.NOT_TESTABLE, "undecided: values and ranks disagree")] * len(pairs)
    outcomes = [Outcome.SAME_DIRECTION if all(one) else Outcome.NOT_REPRODUCED for one in adds]
    return [(outcome, "a correlation over widths; it does not show a cause") for outcome in outcomes]


def _gap_as_good(results: ScalingResults, claim: Claim) -> Settled:
    """All attacks that succeed, three coefficients, two ranges of widths."""
    findings = {
        name: finding
        for name, finding in results.gap_or_size.items()
        if name != "correctness" and finding.verdict != "no success"
    }
    favored = [one.favors for f in findings.values() for part in f.over for one in part.coefficients.values()]
    ours = "; ".join(f"{name}: {finding.verdict}" for name, finding in results.gap_or_size.items()
                     if name != "correctness")  # fmt: skip
    counts = ", ".join(f"{favored.count(kind)} favor {kind}" for kind in ("gap", "size", "neither"))
    outcome = _at_least_as_good(favored)
    undecided = "undecided: " if outcome is Outcome.NOT_TESTABLE else ""
    why = f"{undecided}of {len(favored)} comparisons (attack, coefficient, widths), {counts}"
    return Settled(claim, outcome, ours, setting_text(results), why)


def _at_least_as_good(favored: Sequence[Favored]) -> Outcome:
    """Whether size is nowhere ahead of the gap; undecided where comparisons disagree."""
    if "size" not in favored:
        return Outcome.REPRODUCED
    is_ahead = "gap" not in favored and 2 * favored.count("size") > len(favored)
    return Outcome.REFUTED if is_ahead else Outcome.NOT_TESTABLE


def _other_attacks(results: ScalingResults, claim: Claim) -> Settled:
    """Whether AUC rises over widths as that of the shadow-model attack does."""
    rises = {attack: growth(results, attack) for attack in results.attacks}
    own = rises.pop("shokri")
    differ = [name for name, rise in rises.items() if rise.excludes(own)]
    shown = "; ".join(f"{name} {rise}" for name, rise in rises.items())
    return Settled(
        claim,
        Outcome.REPRODUCED if len(differ) == len(rises) else Outcome.NOT_REPRODUCED,
        f"rise of AUC from the narrowest to the widest: shadow models {own}; {shown}",
        setting_text(results),
    )


def _larger_data(small: ScalingResults, large: ScalingResults, claim: Claim) -> Settled:
    """Same width: a smaller gap? And does a wider model reach the gap that few records give?

    Reproduced if both hold, at every common width; the same direction if the gap is smaller at some widths
    and larger at none.
    """
    compared = []
    for row in large.results:
        other = width_of(small, row.hidden_width)
        if other is not None:
            few, many = (Mean.of([one.overfit_gap for one in r.repeats]) for r in (other, row))
            compared.append((row.hidden_width, few, many))
    n_smaller = sum(many.high < few.low for _, few, many in compared)
    n_larger = sum(many.low > few.high for _, few, many in compared)
    width, few, many = compared[0]
    widest = Mean.of([one.overfit_gap for one in large.results[-1].repeats])
    reached = widest.high >= few.low
    outcome = Outcome.NOT_REPRODUCED
    if n_smaller and not n_larger:
        everywhere = n_smaller == len(compared)
        outcome = Outcome.REPRODUCED if reached and everywhere else Outcome.SAME_DIRECTION
    ours = (
        f"width {width}: gap {few} with {small.config.n_samples} records, {many} with "
        f"{large.config.n_samples:,}; width {large.results[-1].hidden_width}: {widest}"
    )
    n = f"smaller at {n_smaller} and larger at {n_larger} of {len(compared)} common widths"
    return Settled(claim, outcome, ours, setting_text(large), n)


def _real_data(gaussian: ScalingResults, real: ScalingResults, claim: Claim) -> Settled:
    """Whether the gap rises over widths as it does on Gaussian classes."""
    own = growth(real, None)
    widths = real.config.hidden_widths
    rows = [width_of(gaussian, width) for width in (widths[0], widths[-1])]
    first, last = ([one.overfit_gap for one in row.repeats] for row in rows if row is not None)
    theirs = Mean.of([b - a for a, b in zip(first, last, strict=True)])
    return Settled(
        claim,
        Outcome.REPRODUCED if own.excludes(theirs) else Outcome.NOT_REPRODUCED,
        f"rise of the gap from width {widths[0]} to {widths[-1]}: {own} on {real.config.dataset}, {theirs} "
        "on Gaussian classes",
        setting_text(real),
    )
