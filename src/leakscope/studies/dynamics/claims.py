"""How the results of the study settle the claims of its publication.

Every verdict follows from figures, intervals and noise floors by the rules in `evidence`; a claim that
nothing here can decide says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from leakscope.studies.claims import Claim, Outcome, Settled, StudyClaims, complete
from leakscope.studies.dynamics import claims_of_hardness as hardness
from leakscope.studies.dynamics import claims_of_models as models
from leakscope.studies.dynamics.claims_discussion import discussion
from leakscope.studies.dynamics.evidence import (
    Evidence,
    Interval,
    MissingResultsError,
    PublishedRatio,
    level_outcome,
    ratio,
    ratio_outcome,
)
from leakscope.studies.dynamics.measured_elsewhere import MEANS_ONLY_BANK, MEANS_ONLY_RECALL, treated_early
from leakscope.studies.dynamics.published_claims import CLAIMS, PUBLICATION_TITLE
from leakscope.studies.dynamics.published_runs import (
    BASELINE,
    CINIC,
    CNN,
    MNIST,
    SAM,
    SGD,
    PublishedRun,
    at_published_scale,
    shortfall_of_claim,
)
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
    """The rule's verdict; a run that is smaller than the published one decides nothing."""
    short = ""
    try:
        short = shortfall_of_claim(claim.key, evidence)
        settled = rule(claim, evidence)
    except MissingResultsError as missing:
        return Settled(claim, Outcome.NOT_TESTABLE, why=short or str(missing))
    return replace(settled, outcome=Outcome.NOT_TESTABLE, why=short) if short else settled


def _early(claim: Claim, evidence: Evidence) -> Settled:
    """Of the finally vulnerable, the share in the corner at the published epoch, or ever there by then."""
    own = BASELINE(evidence)
    figures, is_ever = own.run.figures, claim.key == "early_ever"
    recall = own.at_epoch(figures.ever_recall if is_ever else figures.recall, _EARLY_EPOCH)
    precision = own.at_epoch(figures.ever_precision if is_ever else figures.precision, _EARLY_EPOCH)
    first = (figures.first_epoch_ever if is_ever else figures.first_epoch).value
    outcome = Outcome.NOT_REPRODUCED
    if max(recall.value, recall.high) >= _EARLY_SHARE:
        is_noise = recall.is_noise or recall.floor >= _EARLY_SHARE
        outcome = Outcome.NOISE if is_noise else Outcome.REPRODUCED
    passed = "" if first is None else f"; 70% is passed at epoch {first:.0f}"
    other = ""
    if not is_ever and own.setting.bank == MEANS_ONLY_BANK:
        other = (
            "; here both mean and variance of the attack's Gaussians leave the target out (if only the mean "
            f"does, it is {MEANS_ONLY_RECALL:.1%})"
        )
    ours = f"{recall.text(100, '%', 1)}{other}{passed}; precision of that list {precision.value:.1%}"
    return Settled(claim, outcome, ours, own.protocol, _beside_floor(recall))


def _phases(claim: Claim, evidence: Evidence) -> Settled:
    """Whether the peak entry above the floor is at least twice its median over training, in both readings."""
    own = BASELINE(evidence)
    figures, epochs = own.run.figures, own.run.epochs
    holds, parts = [], []
    for label, entry in (("of those outside", figures.entry), ("of all records", figures.entry_of_all)):
        floors = entry.floor.mean
        excess = [(v or 0.0) - (floor or 0.0) for v, floor in zip(entry.value, floors, strict=True)]
        if not excess:
            raise MissingResultsError("there is a single checkpoint")
        peak, median = max(excess), sorted(excess)[len(excess) // 2]
        holds.append(peak > 0 and peak >= 2 * median)
        at = epochs[excess.index(peak)]
        parts.append(f"{label} {peak:.1%} at its peak, after epoch {at}, {median:.1%} in the median")
    outcome = Outcome.SAME_DIRECTION if any(holds) else Outcome.NOT_REPRODUCED
    outcome = Outcome.REPRODUCED if all(holds) else outcome
    ours = f"entry above the noise floor: {'; '.join(parts)}"
    why = "a phase would be a peak of at least twice the median"
    if any(holds) and not all(holds):
        why += ", which is so by one of the two readings of an entry"
    return Settled(claim, outcome, ours, own.protocol, why)


def _markov(claim: Claim, evidence: Evidence) -> Settled:
    """In a Markov chain, newcomers to the corner stay as often as records that had been there before."""
    own = BASELINE(evidence)
    figures = own.run.figures
    newcomers, others = (Interval.of(f) for f in (figures.newcomers_stay, figures.others_stay))
    is_apart = newcomers.high < others.low or others.high < newcomers.low
    outcome = Outcome.REFUTED if is_apart else Outcome.REPRODUCED
    ours = (
        f"still in the corner one checkpoint later: newcomers {newcomers.text(100, '%', 1)}; "
        f"records that were there before {others.text(100, '%', 1)}"
    )
    return Settled(claim, outcome, ours, own.protocol, "in a Markov chain both are equal")


def _peak_entry(find: PublishedRun, published: float, step: float) -> Rule:
    """A published peak entry, as a share of all records; the share of those outside stands beside it.

    No probability is below 0, so one of another size does not have the same direction: it is not reproduced.
    """

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        own = find(evidence)
        readings = {
            "of all records": own.interval(lambda f: f.peak_entry_of_all),
            "of those outside": own.interval(lambda f: f.peak_entry),
        }
        outcome = _of_readings([level_outcome(one, published, step) for one in readings.values()])
        if outcome is Outcome.SAME_DIRECTION:
            outcome = Outcome.NOT_REPRODUCED
        ours = "; ".join(f"{name} {one.text(100, '%', 1)}" for name, one in readings.items())
        why = "; ".join(f"{name}, {words}" for name, one in readings.items() if (words := _beside_floor(one)))
        if all(published < one.floor for one in readings.values()):
            why = f"the published value is below what chance gives with {own.run.population.models} models"
        return Settled(claim, outcome, ours, own.protocol, why)

    return rule


def _displacement(find: PublishedRun, published: float) -> Rule:
    """A published displacement. Without its unit, only agreement in ours means anything: none is below 0."""

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        own = find(evidence)
        ours, path = (own.interval(attrgetter(name)) for name in ("net_displacement", "path_length"))
        noise = " (noise)" if path.is_noise else ""
        text = f"{ours.text(1, '%', 1)}; along its path {path.text(1, '%', 1)}{noise}"
        outcome, why = level_outcome(ours, published, 1), _beside_floor(ours)
        if outcome not in (Outcome.REPRODUCED, Outcome.NOISE):
            outcome = Outcome.NOT_TESTABLE
            why = "the publication gives no unit, and no displacement is below 0; ratios stand below"
        return Settled(claim, outcome, text, own.protocol, why)

    return rule


def _entropy(find: PublishedRun, published: float) -> Rule:
    """A published change of the spatial entropy."""

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        own = find(evidence)
        ours = own.interval(attrgetter("entropy_change"))
        outcome = level_outcome(ours, published, 0.01)
        return Settled(claim, outcome, ours.text(1, " bits", 2), own.protocol, _beside_floor(ours))

    return rule


def _ratio(find: Sequence[PublishedRun], figure: str, published: PublishedRatio) -> Rule:
    """A published ratio of one figure between two settings."""

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        first, second = (own(evidence) for own in find)
        values = [own.interval(attrgetter(figure)) for own in (first, second)]
        above = [max(v.value - v.floor, 0.0) for v in values]
        excess = f"; above the noise floors {above[0] / above[1]:.1f}" if above[1] > 0 else ""
        parts = " and ".join(v.text(1, "%", 1) for v in values)
        outcome = ratio_outcome(values[0], values[1], published)
        ours = f"{ratio(*values).text(1, '', 2)}, from {parts}{excess}"
        return Settled(claim, outcome, ours, f"{first.protocol}; {second.protocol}", _noise_in(values))

    return rule


def _entry_ratio(find: Sequence[PublishedRun], published: PublishedRatio) -> Rule:
    """A published ratio of two peak entries, in both readings of a peak entry; agreement of either counts."""

    def rule(claim: Claim, evidence: Evidence) -> Settled:
        first, second = (own(evidence) for own in find)
        parts, whys, outcomes = [], [], []
        for label, figure in (("of those outside", "peak_entry"), ("of all records", "peak_entry_of_all")):
            values = [own.interval(attrgetter(figure)) for own in (first, second)]
            each = " and ".join(v.text(100, "%", 1) for v in values)
            parts.append(f"{label} {ratio(*values).text(1, '', 2)}, from {each}")
            whys.append(_noise_in(values))
            outcomes.append(ratio_outcome(values[0], values[1], published))
        outcome = _of_readings(outcomes)
        protocol = f"{first.protocol}; {second.protocol}"
        return Settled(claim, outcome, "; ".join(parts), protocol, whys[outcomes.index(outcome)])

    return rule


def _noise_in(values: Sequence[Interval]) -> str:
    """Which value of a ratio is noise."""
    noise = [name for name, value in zip(("first", "second"), values, strict=True) if value.is_noise]
    if not noise:
        return ""
    which = f"the {noise[0]} value is" if len(noise) == 1 else "both values are"
    return f"{which} within the noise floor, so the ratio depends on the number of models"


def _of_readings(outcomes: Sequence[Outcome]) -> Outcome:
    """One verdict from those on both readings: agreement of either counts, and noise in it, too."""
    for agreement in (Outcome.NOISE, Outcome.REPRODUCED):
        if agreement in outcomes:
            return agreement
    return outcomes[0]


def _entropy_factor(claim: Claim, _evidence: Evidence) -> Settled:
    """The published values themselves: 3.47 and 0.30."""
    own_ratio = 3.47 / 0.30
    outcome = Outcome.REPRODUCED if round(own_ratio, 1) == 3.5 else Outcome.REFUTED
    why = f"the published values give a factor of {own_ratio:.1f}; 3.5 is the value itself"
    return Settled(claim, outcome, f"3.47 / 0.30 = {own_ratio:.1f}", "the publication's own values", why)


def _mnist_low(claim: Claim, evidence: Evidence) -> Settled:
    """On MNIST no more records are in the corner than by chance, or at most half as many as on CIFAR-10.

    Entries are low in the same sense.
    """
    own = MNIST(evidence)
    advantage = own.interval(lambda figures: figures.advantage.last)
    share, entry = own.interval(attrgetter("vulnerable.last")), own.interval(attrgetter("peak_entry"))
    is_low, parts = [], []
    for name, one, figure in (
        ("in the corner", share, "vulnerable.last"),
        ("peak entry of those outside", entry, "peak_entry"),
    ):
        beside, low = "", one.is_noise
        if not low:
            other = at_published_scale(BASELINE, evidence).interval(attrgetter(figure))
            beside, low = f" (on CIFAR-10 {other.text(100, '%', 1)})", one.high < other.low / 2
        is_low.append(low)
        parts.append(f"{name} {one.text(100, '%', 1)}{beside}")
    outcome = Outcome.REPRODUCED if share.is_noise else Outcome.SAME_DIRECTION
    ours = f"{'; '.join(parts)}; mean advantage {advantage.text()}"
    return Settled(claim, outcome if all(is_low) else Outcome.NOT_REPRODUCED, ours, own.protocol)


def _sam_not_slower(claim: Claim, evidence: Evidence) -> Settled:
    """SAM exposes fewer records although its models fit their members as well.

    That it exposes more refutes the claim only if the mean advantage says so, too.
    """
    sgd, sam = SGD(evidence), SAM(evidence)
    shares = [own.interval(lambda figures: figures.vulnerable.last) for own in (sgd, sam)]
    advantages = [own.interval(lambda figures: figures.advantage.last) for own in (sgd, sam)]
    fits = [own.run.accuracy.members[-1] for own in (sgd, sam)]
    if fits[0] is None or fits[1] is None:
        raise MissingResultsError("the accuracy on members is not in these results")
    outcome = Outcome.NOT_REPRODUCED  # no benefit, or one that goes with a worse fit
    why = "a benefit counts only if accuracies on members differ by at most one point"
    if shares[1].high < shares[0].low:
        outcome = Outcome.REPRODUCED if fits[0] - fits[1] <= _PERCENT else Outcome.REFUTED
    elif all(of_sgd.high < of_sam.low for of_sgd, of_sam in (shares, advantages)):
        outcome, why = Outcome.REFUTED, "there is no benefit: SAM exposes more records"
    elif shares[1].value >= shares[0].value:
        why = "there is no benefit; that SAM exposes more is not certain by both figures"
    ours = "; ".join(
        f"{name}: {share.text(100, '%', 1)} in the corner, mean advantage {advantage.text()}, accuracy on "
        f"members {fit:.1%}"
        for name, share, advantage, fit in zip(("SGD", "SAM"), shares, advantages, fits, strict=True)
    )
    return Settled(claim, outcome, ours, f"{sgd.protocol}; {sam.protocol}", why)


def _intervention(claim: Claim, _evidence: Evidence) -> Settled:
    """The study follows training and does not change it; another measurement does."""
    return treated_early(claim)


def _beside_floor(ours: Interval) -> str:
    """How much of a figure chance explains."""
    if ours.is_noise:
        return "its interval reaches the noise floor"
    if ours.value > 0 and ours.floor >= ours.value / 4:
        return f"chance alone gives {ours.floor / ours.value:.0%} of it"
    return ""


RULES: Mapping[str, Rule] = {
    "early_now": _early,
    "early_ever": _early,
    "phases": _phases,
    "markov": _markov,
    "peak_entry_cifar": _peak_entry(BASELINE, 0.13, _PERCENT),
    "peak_entry_mnist": _peak_entry(MNIST, 0.04, _PERCENT),
    "peak_entry_ratio": _entry_ratio((BASELINE, MNIST), PublishedRatio(13, 4, 1)),
    "mnist_low": _mnist_low,
    "com_wrn": _displacement(BASELINE, 114),
    "com_cnn": _displacement(CNN, 35),
    "com_nets": _ratio((BASELINE, CNN), "net_displacement", PublishedRatio(114, 35, 1)),
    "com_datasets": _ratio((BASELINE, MNIST), "net_displacement", PublishedRatio(114, 12.8, 0.1)),
    "com_cinic": _displacement(CINIC, 135),
    "entropy_wrn": _entropy(BASELINE, 3.47),
    "entropy_cnn": _entropy(CNN, 0.30),
    "entropy_factor": _entropy_factor,
    "entropy_mnist": _entropy(MNIST, -0.08),
    "sgd_entry": _peak_entry(SGD, 0.027, 0.001),
    "sam_entry": _peak_entry(SAM, 0.009, 0.001),
    "sam_ratio": _entry_ratio((SGD, SAM), PublishedRatio(2.7, 0.9, 0.1)),
    "sam_not_slower": _sam_not_slower,
    **hardness.RULES,
    **models.RULES,
    "intervention": _intervention,
}
PUBLICATION = StudyClaims("dynamics", PUBLICATION_TITLE, DynamicsResults, CLAIMS, settle, discussion)
