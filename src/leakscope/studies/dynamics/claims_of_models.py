"""Claims about the number of models, about datasets, and about what the study cannot see."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

from leakscope.studies.claims import Claim, Outcome, Settled
from leakscope.studies.dynamics.evidence import Evidence, Interval, MissingResultsError, Run
from leakscope.studies.dynamics.measured_elsewhere import finer
from leakscope.studies.dynamics.published_runs import (
    BASELINE,
    SAM,
    SGD,
    PublishedRun,
    all_at_published_scale,
    unless_short,
)
from leakscope.studies.dynamics.results import RunResults

_MOST_VARIATION = 0.15
_FEWEST = 16
_FEWEST_DATASETS = 3
_OF_WHICH = "the publication does not say of which of the two"


def _fewest_models(claim: Claim, evidence: Evidence) -> Settled:
    """The variation with 16 models, from the jackknife, by the publication's own limit, in both readings."""
    own = BASELINE(evidence)
    n_models, advantage = own.run.population.models, own.run.advantage
    single, mean = advantage.vulnerable_coefficient, advantage.coefficient
    if single is None or mean is None:
        raise MissingResultsError("no record is vulnerable")
    expected = [one * math.sqrt(n_models / _FEWEST) for one in (mean, single)]
    ours = (
        f"coefficient of variation of a single vulnerable record's advantage: {single:.2f} with {n_models} "
        f"models, so about {expected[1]:.2f} with {_FEWEST}; of the mean over records about {expected[0]:.3f}"
    )
    why = f"judged by the publication's own limit, {_MOST_VARIATION:g}; {_OF_WHICH}"
    return Settled(claim, _below_limit(expected), ours, own.protocol, why)


def _below_limit(coefficients: Sequence[float | None]) -> Outcome:
    """The verdict from both readings: of the mean advantage, and of a single record's."""
    holds = [one is not None and one < _MOST_VARIATION for one in coefficients]
    if all(holds):
        return Outcome.REPRODUCED
    return Outcome.SAME_DIRECTION if any(holds) else Outcome.REFUTED


def _variation(claim: Claim, evidence: Evidence) -> Settled:
    """Independent populations on CIFAR-10: of the mean advantage, and of a single vulnerable record's."""
    for own in evidence.where(lambda s: s.dataset == "cifar10"):
        spread = own.results.populations.get(own.setting.name)
        if spread is not None and spread.advantage.coefficient is not None:
            break
    else:
        raise MissingResultsError("no results of several populations on CIFAR-10")
    mean, single = spread.advantage.coefficient, spread.advantage.vulnerable_coefficient
    record = "undefined" if single is None else f"{single:.2f}"
    ours = f"{mean:.3f} for the mean over records; {record} for a single vulnerable record (median)"
    protocol = f"{spread.advantage.method}, {own.protocol}"
    settled = Settled(claim, _below_limit((mean, single)), ours, protocol, _OF_WHICH)
    return unless_short(settled, own)


def _more_models(claim: Claim, evidence: Evidence) -> Settled:
    """Runs of one setting with different numbers of models: what chance and a single record vary by."""
    own, fewer = _of_two_sizes(evidence)
    runs = sorted((own.run, fewer.run), key=lambda run: run.population.models)
    floors = [run.figures.vulnerable.floor.mean[-1] for run in runs]
    singles = [run.advantage.vulnerable_coefficient for run in runs]
    if None in floors or None in singles:
        raise MissingResultsError("the noise floor is undefined in these results")
    falls = [float(few or 0) > float(many or 0) for few, many in (floors, singles)]
    outcome = Outcome.REPRODUCED if all(falls) else Outcome.NOT_REPRODUCED
    parts = [
        f"{run.population.models} models: {floor:.1%} in the corner by chance, coefficient of variation of a "
        f"single vulnerable record {single:.2f}"
        for run, floor, single in zip(runs, floors, singles, strict=True)
    ]
    settled = Settled(claim, outcome, "; ".join(parts), own.protocol, "it is reproduced if both fall")
    return unless_short(settled, own)


def _of_two_sizes(evidence: Evidence) -> tuple[Run, Run]:
    """A run, and another one that differs in the number of its models."""
    for own, other in combinations(evidence.where(lambda _: True), 2):
        if _alike(own.run) == _alike(other.run) and own.run.population.models != other.run.population.models:
            return max((own, other), (other, own), key=lambda pair: pair[0].run.population.models)
    raise MissingResultsError("no setting was trained with two numbers of models")


def _alike(run: RunResults) -> tuple[object, ...]:
    """What two runs share that differ in the number of models only."""
    s = run.setting
    return s.name, s.batch_size, s.lr, s.dropout, s.design, s.config, run.epochs, run.population.records


def _proxy(claim: Claim, evidence: Evidence) -> Settled:
    """How far the estimate is from its own repetition; how far it is from the truth, no run knows."""
    own = BASELINE(evidence)
    single, corner = own.run.advantage.vulnerable_coefficient, own.run.figures.vulnerable.last.floor.mean
    if single is None or corner is None:
        raise MissingResultsError("no record is vulnerable")
    mean = Interval.of(own.run.figures.advantage.last)
    ours = (
        f"mean advantage {mean.text()}; coefficient of variation of a single vulnerable record's advantage "
        f"{single:.2f}; chance alone puts {corner:.1%} of the records in the corner"
    )
    why = (
        "the true vulnerability, under the strongest attack and with infinitely many models, is unknown; the "
        "figures say how well these models estimate the advantage of this attack"
    )
    return Settled(claim, Outcome.NOT_TESTABLE, ours, own.protocol, why)


def _flat_minima(claim: Claim, evidence: Evidence) -> Settled:
    """SAM seeks flat minima; how flat those are that it found was not measured."""
    sgd, sam = SGD(evidence), SAM(evidence)
    shares = [own.interval(lambda figures: figures.vulnerable.last) for own in (sgd, sam)]
    ours = "; ".join(
        f"{name}: {share.text(100, '%', 1)} in the corner"
        for name, share in zip(("SGD", "SAM"), shares, strict=True)
    )
    why = "the flatness of the minima was not measured"
    if shares[1].low > shares[0].high:
        why += "; SAM, which seeks flat ones, has more records in the corner"
    return Settled(claim, Outcome.NOT_TESTABLE, ours, f"{sgd.protocol}; {sam.protocol}", why)


def _finer_checkpoints(claim: Claim, _evidence: Evidence) -> Settled:
    """The study follows a run with one spacing; another measurement leaves some checkpoints out."""
    return finer(claim)


def _sam_generalizes(claim: Claim, evidence: Evidence) -> Settled:
    """Accuracy on non-members of every population; it does not depend on the number of models."""
    sgd, sam = (_accuracies(published, evidence) for published in (SGD, SAM))
    outcome, why = Outcome.NOT_REPRODUCED, "reproduced would be each population of SAM above each of SGD"
    if min(len(sgd), len(sam)) > 1 and min(sam) > max(sgd):
        outcome, why = Outcome.REPRODUCED, "each population of SAM is above each of SGD"
    elif sum(sam) / len(sam) > sum(sgd) / len(sgd):
        outcome = Outcome.SAME_DIRECTION
    elif max(sam) < min(sgd):
        outcome = Outcome.REFUTED
    ours = "; ".join(
        f"{name} {', '.join(f'{accuracy:.1%}' for accuracy in accuracies)}"
        for name, accuracies in (("SGD", sgd), ("SAM", sam))
    )
    protocol = f"{SGD(evidence).protocol}; {SAM(evidence).protocol}, and its smaller populations"
    return Settled(claim, outcome, f"accuracy on non-members: {ours}", protocol, why)


def _accuracies(published: PublishedRun, evidence: Evidence) -> list[float]:
    """On non-members at the end, one per population of this setting."""
    setting = published(evidence).run.setting
    runs = evidence.where(lambda s: (s.name, s.epochs) == (setting.name, setting.epochs))
    ends = [own.run.accuracy.nonmembers[-1] for own in runs]
    return [accuracy for accuracy in ends if accuracy is not None]


def _complexity(claim: Claim, evidence: Evidence) -> Settled:
    """Datasets in the order of their nearest-neighbor error: does the entry of long runs rise with it?"""
    runs = [
        own
        for own in all_at_published_scale(evidence)
        if (own.setting.net, own.setting.optimizer) == (BASELINE.net, BASELINE.optimizer)
        and evidence.complexity(own.setting.dataset) is not None
    ]
    if len(runs) < 2:
        raise MissingResultsError(
            "fewer than two datasets with a known complexity, on which the baseline was trained at the "
            "published scale"
        )
    runs = [evidence.longest(*_trained(own)) for own in _by_complexity(runs, evidence)]
    entries = [own.interval(lambda figures: figures.peak_entry) for own in runs]
    outcome = _rise(entries)
    few = len(runs) < _FEWEST_DATASETS
    if few and outcome is Outcome.REPRODUCED:
        outcome = Outcome.SAME_DIRECTION
    noise = [own.setting.dataset for own, entry in zip(runs, entries, strict=True) if entry.is_noise]
    why = "reproduced would be intervals that do not overlap"
    why += (
        f", of at least {_FEWEST_DATASETS} datasets; Fashion-MNIST and CINIC-10 were not run" if few else ""
    )
    why += f"; the entry on {' and '.join(noise)} is within its noise floor" if noise else ""
    parts = _complexities(runs, entries, [evidence.complexity(own.setting.dataset) for own in runs])
    ours = f"nearest-neighbor error and peak entry: {parts}{_small(evidence)}"
    return Settled(claim, outcome, ours, "; ".join(own.protocol for own in runs), why)


def _trained(own: Run) -> tuple[str, str, str]:
    return own.setting.dataset, own.setting.net, own.setting.optimizer


def _by_complexity(runs: list[Run], evidence: Evidence) -> list[Run]:
    return sorted(runs, key=lambda own: evidence.complexity(own.setting.dataset) or 0.0)


def _rise(entries: list[Interval]) -> Outcome:
    """Whether values rise in the order given."""
    if all(b.low > a.high for a, b in pairwise(entries)):
        return Outcome.REPRODUCED
    rises = all(b.value > a.value for a, b in combinations(entries, 2))
    return Outcome.SAME_DIRECTION if rises and entries[-1].low > entries[0].high else Outcome.NOT_REPRODUCED


def _complexities(runs: list[Run], entries: list[Interval], complexities: list[float | None]) -> str:
    return "; ".join(
        f"{own.setting.dataset} {complexity or 0.0:.1%} and {entry.text(100, '%', 1)}"
        for own, entry, complexity in zip(runs, entries, complexities, strict=True)
    )


def _small(evidence: Evidence) -> str:
    """The same of the most datasets that smaller runs trained alike; they do not decide."""
    at_scale = [own.label for own in all_at_published_scale(evidence)]
    alike: dict[object, list[Run]] = {}
    for own in evidence.where(lambda _: True):
        if own.run.complexity is not None and own.label not in at_scale:
            s = own.setting
            alike.setdefault((s.net, s.optimizer, s.epochs, s.universe, s.lr, s.dropout), []).append(own)
    runs = _by_complexity(max(alike.values(), key=len, default=[]), evidence)
    if len(runs) < 2:
        return ""
    entries = [Interval.of(own.run.figures.peak_entry) for own in runs]
    text = _complexities(runs, entries, [own.run.complexity for own in runs])
    first = runs[0]
    size = f"{first.setting.net}, {first.run.population.records:,} records, {first.run.epochs[-1]} epochs"
    return f"; in smaller runs ({size}): {text}"


RULES = {
    "fewest_models": _fewest_models,
    "variation": _variation,
    "more_models": _more_models,
    "finer_checkpoints": _finer_checkpoints,
    "sam_generalizes": _sam_generalizes,
    "proxy": _proxy,
    "flat_minima": _flat_minima,
    "complexity": _complexity,
}
