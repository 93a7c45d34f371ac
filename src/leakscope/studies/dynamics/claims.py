"""How the results of the study settle the claims of its publication.

Every verdict follows from figures, intervals and noise floors by the rules in `evidence`; a claim that
nothing here can decide says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from leakscope.studies.claims import Claim, Outcome, Settled, StudyClaims, complete
from leakscope.studies.dynamics import claims_of_hardness as hardness
from leakscope.studies.dynamics.claims_discussion import discussion
from leakscope.studies.dynamics.evidence import (
    Evidence,
    Interval,
    MissingResultsError,
    PublishedRatio,
    Run,
    level_outcome,
    ratio,
    ratio_outcome,
)
from leakscope.studies.dynamics.published_claims import CLAIMS, PUBLICATION_TITLE
from leakscope.studies.dynamics.results import DynamicsResults

Rule = Callable[[Claim, Evidence], Settled]
_BY_CLAIM = {claim.key: claim for claim in CLAIMS}
_EARLY_EPOCH, _EARLY_SHARE = 150, 0.7
_PERCENT = 0.01


def settle(all_results: Sequence[DynamicsResults]) -> list[Settled]:
    """One entry per claim, from the results of one run or of several."""
    evidence = Evidence.of(all_results)
    return complete(CLAIMS, {key: _settled(_BY_CLAIM[key], rule, evidence) for key, rule in RULES.items()})


def _settled(claim: Claim, rule: Rule, evidence: Evidence) -> Settled:
    try:
        return rule(claim, evidence)
    except MissingResultsError as missing:
        return Settled(claim, Outcome.NOT_TESTABLE, why=str(missing))


def _baseline(evidence: Evidence) -> Run:
    return evidence.longest("cifar10", "wide_resnet", "adamw")


def _mnist(evidence: Evidence) -> Run:
    return evidence.longest("mnist", "wide_resnet", "adamw")


def _early(claim: Claim, evidence: Evidence) -> Settled:
    """Of the finally vulnerable, the share in the corner at the published epoch, or ever there by then."""
    own = _baseline(evidence)
    figures, is_ever = own.run.figures, claim.key == "early_ever"
    recall = own.at_epoch(figures.ever_recall if is_ever else figures.recall, _EARLY_EPOCH)
    precision = own.at_epoch(figures.ever_precision if is_ever else figures.precision, _EARLY_EPOCH)
    first = (figures.first_epoch_ever if is_ever else figures.first_epoch).value
    outcome = Outcome.NOT_REPRODUCED
    if max(recall.value, recall.high) >= _EARLY_SHARE:
        is_noise = recall.is_noise or recall.floor >= _EARLY_SHARE
        outcome = Outcome.NOISE if is_noise else Outcome.REPRODUCED
    passed = "" if first is None else f"; 70% is passed at epoch {first:.0f}"
    ours = f"{recall.text(100, '%', 1)}{passed}; precision of that list {precision.value:.1%}"
    return Settled(claim, outcome, ours, own.protocol, _beside_floor(recall))


def _phases(claim: Claim, evidence: Evidence) -> Settled:
    """Whether the peak entry above the floor is at least twice its median over training."""
    own = _baseline(evidence)
    entry, epochs = own.run.figures.entry, own.run.epochs
    excess = [(v or 0.0) - (floor or 0.0) for v, floor in zip(entry.value, entry.floor.mean, strict=True)]
    if not excess:
        raise MissingResultsError("there is a single checkpoint")
    peak, median = max(excess), sorted(excess)[len(excess) // 2]
    at = epochs[excess.index(peak)]
    outcome = Outcome.REPRODUCED if peak > 0 and peak >= 2 * median else Outcome.NOT_REPRODUCED
    ours = (
        f"entry above the noise floor: {peak:.1%} at its peak, after epoch {at}; {median:.1%} in the median"
    )
    return Settled(claim, outcome, ours, own.protocol, "a phase would be a peak of at least twice the median")


def _markov(claim: Claim, evidence: Evidence) -> Settled:
    """In a Markov chain, newcomers to the corner stay as often as records that had been there before."""
    own = _baseline(evidence)
    figures = own.run.figures
    newcomers, others = (Interval.of(f) for f in (figures.newcomers_stay, figures.others_stay))
    is_apart = newcomers.high < others.low or others.high < newcomers.low
    outcome = Outcome.REFUTED if is_apart else Outcome.REPRODUCED
    ours = (
        f"still in the corner one checkpoint later: newcomers {newcomers.text(100, '%', 1)}; "
        f"records that were there before {others.text(100, '%', 1)}"
    )
    return Settled(claim, outcome, ours, own.protocol, "in a Markov chain both are equal")


def _peak_entry(find: Callable[[Evidence], Run], published: float, step: float) -> Rule:
    """A published peak entry, as a share of all records; the share of those outside stands beside it.

    No probability is below 0, so one of another size does not have the same direction: it is not reproduced.
    """

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        own = find(evidence)
        of_all, outside = own.interval(lambda f: f.peak_entry_of_all), own.interval(lambda f: f.peak_entry)
        outcomes = [level_outcome(reading, published, step) for reading in (outside, of_all)]
        agreeing = [o for o in outcomes if o in (Outcome.REPRODUCED, Outcome.NOISE)]
        outcome = agreeing[0] if agreeing else Outcome.NOT_REPRODUCED
        ours = f"of all records {of_all.text(100, '%', 1)}; of those outside {outside.text(100, '%', 1)}"
        why = _beside_floor(outside)
        if published < outside.floor:
            why = f"the published value is below what chance gives with {own.run.population.models} models"
        return Settled(claim, outcome, ours, own.protocol, why)

    return rule


def _level(find: Callable[[Evidence], Run], figure: str, published: float, step: float, unit: str) -> Rule:
    """A published value of one figure."""

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        own = find(evidence)
        ours = own.interval(attrgetter(figure))
        beside = ""
        if figure == "net_displacement":
            path = own.interval(attrgetter("path_length"))
            beside = f"; along its path {path.text(1, unit, 1)}{' (noise)' if path.is_noise else ''}"
        text = f"{ours.text(1, unit, 2 if figure == 'entropy_change' else 1)}{beside}"
        return Settled(claim, level_outcome(ours, published, step), text, own.protocol, _beside_floor(ours))

    return rule


def _ratio(find: Sequence[Callable[[Evidence], Run]], figure: str, published: PublishedRatio) -> Rule:
    """A published ratio of one figure between two settings."""

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        first, second = (own(evidence) for own in find)
        values = [own.interval(attrgetter(figure)) for own in (first, second)]
        above = [max(v.value - v.floor, 0.0) for v in values]
        excess = f"; above the noise floors {above[0] / above[1]:.1f}" if above[1] > 0 else ""
        scale, unit = (100, "%") if figure == "peak_entry" else (1, "%")
        parts = " and ".join(v.text(scale, unit, 1) for v in values)
        outcome = ratio_outcome(values[0], values[1], published)
        ours = f"{ratio(*values).text(1, '', 2)}, from {parts}{excess}"
        why = ""
        if values[1].is_noise and not values[0].is_noise:
            why = "the second value may be chance, so the ratio depends on the number of models"
        return Settled(claim, outcome, ours, f"{first.protocol}; {second.protocol}", why)

    return rule


def _entropy_factor(claim: Claim, _evidence: Evidence) -> Settled:
    """The published values themselves: 3.47 and 0.30."""
    own_ratio = 3.47 / 0.30
    outcome = Outcome.REPRODUCED if round(own_ratio, 1) == 3.5 else Outcome.REFUTED
    why = f"the published values give a factor of {own_ratio:.1f}; 3.5 is the value itself"
    return Settled(claim, outcome, f"3.47 / 0.30 = {own_ratio:.1f}", "the publication's own values", why)


def _mnist_low(claim: Claim, evidence: Evidence) -> Settled:
    """On MNIST no more records are in the corner than by chance, or at most half as many as on CIFAR-10."""
    own = _mnist(evidence)
    share = own.interval(lambda figures: figures.vulnerable.last)
    advantage = own.interval(lambda figures: figures.advantage.last)
    outcome = Outcome.REPRODUCED if share.is_noise else Outcome.NOT_REPRODUCED
    beside = ""
    if not share.is_noise:
        other = _baseline(evidence).interval(lambda figures: figures.vulnerable.last)
        beside = f"; on CIFAR-10 {other.text(100, '%', 1)}"
        outcome = Outcome.SAME_DIRECTION if share.high < other.low / 2 else outcome
    ours = f"in the corner {share.text(100, '%', 1)}; mean advantage {advantage.text()}{beside}"
    return Settled(claim, outcome, ours, own.protocol)


def _sam_not_slower(claim: Claim, evidence: Evidence) -> Settled:
    """SAM exposes fewer records although its models fit their members as well."""
    sgd, sam = (evidence.longest("cifar10", "wide_resnet", o) for o in ("sgd", "sam"))
    exposed = [own.interval(lambda figures: figures.vulnerable.last) for own in (sgd, sam)]
    fits = [own.run.accuracy.members[-1] for own in (sgd, sam)]
    if fits[0] is None or fits[1] is None:
        raise MissingResultsError("the accuracy on members is not in these results")
    outcome = Outcome.NOT_REPRODUCED  # no benefit, or one that goes with a worse fit
    why = "a benefit counts only if accuracies on members differ by at most one point"
    if exposed[1].high < exposed[0].low:
        outcome = Outcome.REPRODUCED if fits[0] - fits[1] <= _PERCENT else Outcome.REFUTED
    elif exposed[0].high < exposed[1].low:
        outcome, why = Outcome.REFUTED, "there is no benefit: SAM exposes more records"
    ours = "; ".join(
        f"{name}: {share.text(100, '%', 1)} in the corner, accuracy on members {fit:.1%}"
        for name, share, fit in zip(("SGD", "SAM"), exposed, fits, strict=True)
    )
    return Settled(claim, outcome, ours, f"{sgd.protocol}; {sam.protocol}", why)


def _cinic(claim: Claim, evidence: Evidence) -> Settled:
    return _level(lambda e: e.longest("cinic10", "wide_resnet", "adamw"), "net_displacement", 135, 1, "%")(
        claim, evidence
    )


def _intervention(claim: Claim, _evidence: Evidence) -> Settled:
    raise MissingResultsError("the study follows training and does not change it")


def _beside_floor(ours: Interval) -> str:
    """How much of a figure chance explains."""
    if ours.is_noise:
        return "its interval reaches the noise floor"
    if ours.value > 0 and ours.floor >= ours.value / 4:
        return f"chance alone gives {ours.floor / ours.value:.0%} of it"
    return ""


def _cnn(evidence: Evidence) -> Run:
    return evidence.longest("cifar10", "cnn", "adamw")


def _sgd(evidence: Evidence) -> Run:
    return evidence.longest("cifar10", "wide_resnet", "sgd")


def _sam(evidence: Evidence) -> Run:
    return evidence.longest("cifar10", "wide_resnet", "sam")


RULES: Mapping[str, Rule] = {
    "early_now": _early,
    "early_ever": _early,
    "phases": _phases,
    "markov": _markov,
    "peak_entry_cifar": _peak_entry(_baseline, 0.13, _PERCENT),
    "peak_entry_mnist": _peak_entry(_mnist, 0.04, _PERCENT),
    "peak_entry_ratio": _ratio((_baseline, _mnist), "peak_entry", PublishedRatio(13, 4, 1)),
    "mnist_low": _mnist_low,
    "com_wrn": _level(_baseline, "net_displacement", 114, 1, "%"),
    "com_cnn": _level(_cnn, "net_displacement", 35, 1, "%"),
    "com_nets": _ratio((_baseline, _cnn), "net_displacement", PublishedRatio(114, 35, 1)),
    "com_datasets": _ratio((_baseline, _mnist), "net_displacement", PublishedRatio(114, 12.8, 0.1)),
    "com_cinic": _cinic,
    "entropy_wrn": _level(_baseline, "entropy_change", 3.47, 0.01, " bits"),
    "entropy_cnn": _level(_cnn, "entropy_change", 0.30, 0.01, " bits"),
    "entropy_factor": _entropy_factor,
    "entropy_mnist": _level(_mnist, "entropy_change", -0.08, 0.01, " bits"),
    "sgd_entry": _peak_entry(_sgd, 0.027, 0.001),
    "sam_entry": _peak_entry(_sam, 0.009, 0.001),
    "sam_ratio": _ratio((_sgd, _sam), "peak_entry", PublishedRatio(2.7, 0.9, 0.1)),
    "sam_not_slower": _sam_not_slower,
    **hardness.RULES,
    "intervention": _intervention,
}
PUBLICATION = StudyClaims("dynamics", PUBLICATION_TITLE, DynamicsResults, CLAIMS, settle, discussion)
