"""Claims about hardness and about the variance of the estimates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import combinations, pairwise

from leakscope.hardness.correlations import CorrelationFigure, HardnessFigures
from leakscope.hardness.over_training import MONITOR_OF_ONE, SPREAD_OF_ONE, EarlyCorrelations
from leakscope.hardness.registry import measure_label
from leakscope.hardness.training import early_checkpoint
from leakscope.stats.intervals import fisher_interval
from leakscope.studies.claims import Claim, Outcome, Settled
from leakscope.studies.dynamics.evidence import (
    STRONG,
    WEAK,
    Evidence,
    Interval,
    MissingResultsError,
    Run,
    strength_outcome,
)

_PUBLISHED_R = 0.916
_EARLY_EPOCH = 150
_MOST_VARIATION = 0.15
_FEWEST = 16
_UNCERTAINTY = ("epistemic", "epistemic_own_class")
_ESTIMATORS = ("epistemic", "epistemic_dropout", "ensemble_variance")
_TABULAR = ("location30", "adult")


def _baseline(evidence: Evidence) -> Run:
    return evidence.longest("cifar10", "wide_resnet", "adamw")


def _of(own: Run, measure: str) -> HardnessFigures:
    if measure not in own.run.hardness:
        raise MissingResultsError(f"{measure_label(measure)} is not in these results")
    return own.run.hardness[measure]


def _known(figure: CorrelationFigure) -> Interval:
    if figure.r is None or figure.low is None or figure.high is None:
        raise MissingResultsError(f"the correlation is undefined: {figure.reason}")
    return Interval(figure.r, figure.low, figure.high)


def _epistemic_r(claim: Claim, evidence: Evidence) -> Settled:
    """Pearson among the vulnerable, as published; other readings beside it."""
    own = _baseline(evidence)
    figures = _of(own, "epistemic")
    among = _known(figures.among_vulnerable)
    outcome = strength_outcome(*among[:3])
    if outcome is Outcome.REPRODUCED and not among.agrees(_PUBLISHED_R, 0.001):
        outcome = Outcome.SAME_DIRECTION
    ours = (
        f"{figures.among_vulnerable} among the vulnerable; over all records r {figures.pearson}, Spearman "
        f"{figures.spearman}; means of 20 bins {figures.binned}, among the vulnerable "
        f"{figures.binned_among_vulnerable}"
    )
    readings = {
        "over all records": figures.pearson,
        "for means of 20 bins": figures.binned,
        "for means of 20 bins among the vulnerable": figures.binned_among_vulnerable,
    }
    near = [name for name, r in readings.items() if r.r is not None and _known(r).agrees(_PUBLISHED_R, 0.001)]
    why = f"the interval contains {_PUBLISHED_R} {' and '.join(near)}" if near else ""
    return Settled(claim, outcome, ours, own.protocol, why)


def _strongest(claim: Claim, evidence: Evidence) -> Settled:
    """Epistemic uncertainty against every other measure, over all records and among the vulnerable."""
    own = _baseline(evidence)
    epistemic = _of(own, "epistemic")
    others = {name: f for name, f in own.run.hardness.items() if name != "epistemic"}
    is_best, texts = [], []
    for label, pick in _READINGS.items():
        mine = _known(pick(epistemic))
        best = max(others, key=lambda name: abs(pick(others[name]).r or 0.0))
        theirs = _known(pick(others[best]))
        is_best.append(mine.low > theirs.high or mine.value >= theirs.value)
        texts.append(f"{label} {mine.value:.3f} against {theirs.value:.3f} ({measure_label(best)})")
    outcome = Outcome.REPRODUCED if all(is_best) else Outcome.NOT_REPRODUCED
    if any(is_best) and not all(is_best):
        outcome = Outcome.SAME_DIRECTION
    return Settled(claim, outcome, "; ".join(texts), own.protocol)


_READINGS: Mapping[str, Callable[[HardnessFigures], CorrelationFigure]] = {
    "r over all records": lambda figures: figures.pearson,
    "r among the vulnerable": lambda figures: figures.among_vulnerable,
}


def _early_series(own: Run) -> tuple[str, EarlyCorrelations]:
    for measure in _UNCERTAINTY:
        if measure in own.run.early_hardness:
            return measure, own.run.early_hardness[measure]
    raise MissingResultsError("uncertainty during training is not in these results")


def _interval_at(early: EarlyCorrelations, at: int) -> Interval:
    """The rank correlation at a checkpoint with its interval."""
    r = early.spearman[at]
    if r is None:
        raise MissingResultsError("the early correlation is undefined")
    ends = fisher_interval(r, early.n, rank=True)
    return Interval(r, ends.low, ends.high)


def _epistemic_early(claim: Claim, evidence: Evidence) -> Settled:
    """The uncertainty a tenth into training against the advantage at the end."""
    return _early_claim(claim, _baseline(evidence))


def _early_claim(claim: Claim, own: Run) -> Settled:
    measure, early = _early_series(own)
    epochs, first = own.run.epochs, early_checkpoint(own.run.epochs)
    at_first = _interval_at(early, first)
    shown = sorted(
        {first, min(range(len(epochs)), key=lambda k: abs(epochs[k] - _EARLY_EPOCH)), len(epochs) - 1}
    )
    parts = [f"epoch {epochs[k]}: {_interval_at(early, k).text(digits=2)}" for k in shown]
    ours = f"{measure_label(measure)}, Spearman with the final advantage: {'; '.join(parts)}"
    why = (
        f"judged at epoch {epochs[first]}, a tenth of training; a reliable predictor has at least {STRONG:g}"
    )
    return Settled(claim, strength_outcome(*at_first[:3]), ours, own.protocol, why)


def _everywhere(claim: Claim, evidence: Evidence) -> Settled:
    """Epistemic uncertainty in every setting there is; one population of each."""
    own = [e for e in evidence.where(lambda _: True) if "epistemic" in e.run.hardness]
    if len(own) < 2:
        raise MissingResultsError("fewer than two settings with epistemic uncertainty")
    values = {e.label: _known(_of(e, "epistemic").pearson) for e in own}
    outcome = Outcome.REPRODUCED
    if any(v.value < STRONG for v in values.values()):
        outcome = Outcome.SAME_DIRECTION if all(v.low > 0 for v in values.values()) else Outcome.REFUTED
    ours = "r over all records: " + "; ".join(f"{name} {v.text(digits=2)}" for name, v in values.items())
    why = f"reproduced would be at least {STRONG:g} everywhere"
    return Settled(claim, outcome, ours, "all runs of this page", why)


def _gradient_norms(claim: Claim, evidence: Evidence) -> Settled:
    """GraNd and TracIn wherever models were trained again for them."""
    own = [e for e in evidence.where(lambda _: True) if "grand" in e.run.hardness]
    if not own:
        raise MissingResultsError("no results with gradient norms")
    values = {(e.setting.name, m): _known(_of(e, m).spearman) for e in own for m in ("grand", "tracin")}
    largest = max(values.values(), key=lambda v: abs(v.value))
    outcome = Outcome.REPRODUCED if abs(largest.value) < WEAK else Outcome.NOT_REPRODUCED
    if largest.low >= WEAK and all(e.setting.net == "wide_resnet" for e in own):
        outcome = Outcome.REFUTED  # only the published network can refute it
    parts = [f"{measure_label(m)} on {name} {v.text(digits=2)}" for (name, m), v in values.items()]
    protocol = "; ".join(e.protocol for e in own)
    why = f"a poor predictor has a correlation below {WEAK:g}"
    return Settled(claim, outcome, f"Spearman: {'; '.join(parts)}", protocol, why)


def _fewest_models(claim: Claim, evidence: Evidence) -> Settled:
    """The variation of a single record with 16 models, from the jackknife, by the publication's own limit."""
    own = _baseline(evidence)
    single = own.run.advantage.vulnerable_coefficient
    if single is None:
        raise MissingResultsError("no record is vulnerable")
    expected = single * math.sqrt(own.run.population.models / _FEWEST)
    outcome = Outcome.REPRODUCED if expected < _MOST_VARIATION else Outcome.REFUTED
    ours = (
        f"coefficient of variation of a single vulnerable record's advantage: {single:.2f} with "
        f"{own.run.population.models} models, so about {expected:.2f} with {_FEWEST}"
    )
    why = f"judged by the publication's own limit, {_MOST_VARIATION:g}"
    return Settled(claim, outcome, ours, own.protocol, why)


def _variation(claim: Claim, evidence: Evidence) -> Settled:
    """Independent populations on CIFAR-10: of the mean advantage, and of a single vulnerable record's."""
    for own in evidence.where(lambda s: s.dataset == "cifar10"):
        spread = own.results.populations.get(own.setting.name)
        if spread is not None and spread.advantage.coefficient is not None:
            break
    else:
        raise MissingResultsError("no results of several populations on CIFAR-10")
    mean, single = spread.advantage.coefficient, spread.advantage.vulnerable_coefficient
    holds = [c is not None and c < _MOST_VARIATION for c in (mean, single)]
    outcome = Outcome.REPRODUCED if all(holds) else Outcome.REFUTED
    if any(holds) and not all(holds):
        outcome = Outcome.SAME_DIRECTION
    record = "undefined" if single is None else f"{single:.2f}"
    ours = f"{mean:.3f} for the mean over records; {record} for a single vulnerable record (median)"
    protocol = f"{spread.advantage.method}, {own.protocol}"
    return Settled(claim, outcome, ours, protocol, "the publication does not say of which of the two")


def _complexity(claim: Claim, evidence: Evidence) -> Settled:
    """Datasets in the order of their nearest-neighbor error, trained alike: does the entry rise with it?"""
    alike: dict[object, list[Run]] = {}
    for own in evidence.where(lambda _: True):
        if own.run.complexity is not None:
            s = own.setting
            alike.setdefault((s.net, s.optimizer, s.epochs, s.universe, s.lr, s.dropout), []).append(own)
    runs = max(alike.values(), key=len, default=[])
    if len(runs) < 3:
        raise MissingResultsError("fewer than three datasets that were trained alike")
    runs = sorted(runs, key=lambda own: own.run.complexity or 0.0)
    entries = [Interval.of(own.run.figures.peak_entry) for own in runs]
    rises = [b.value > a.value for a, b in combinations(entries, 2)]
    outcome = Outcome.NOT_REPRODUCED
    if all(b.low > a.high for a, b in pairwise(entries)):
        outcome = Outcome.REPRODUCED
    elif all(rises) and entries[-1].low > entries[0].high:
        outcome = Outcome.SAME_DIRECTION
    parts = [
        f"{own.setting.dataset} {own.run.complexity:.1%} and {entry.text(100, '%', 1)}"
        for own, entry in zip(runs, entries, strict=True)
    ]
    why = "reproduced would be intervals that do not overlap; CINIC-10 was not run"
    ours = f"nearest-neighbor error and peak entry: {'; '.join(parts)}"
    return Settled(claim, outcome, ours, f"{runs[0].protocol}; the others alike", why)


def _three_estimators(claim: Claim, evidence: Evidence) -> Settled:
    """Models of the population as a deep ensemble, their variance, and passes with dropout."""
    own = [e for e in evidence.where(lambda _: True) if set(_ESTIMATORS) <= e.run.hardness.keys()]
    if not own:
        raise MissingResultsError("no results with all three estimators")
    best = max(own, key=lambda e: (e.run.epochs[-1], e.run.population.records))
    ranks = {m: _known(_of(best, m).spearman) for m in _ESTIMATORS}
    values = [v.value for v in ranks.values()]
    outcome = Outcome.REFUTED
    if all(v.low > 0 for v in ranks.values()):
        is_robust = max(values) - min(values) <= 0.1
        outcome = Outcome.REPRODUCED if is_robust and min(values) >= STRONG else Outcome.SAME_DIRECTION
    ours = "Spearman: " + "; ".join(f"{measure_label(m)} {v.text(digits=2)}" for m, v in ranks.items())
    why = f"reproduced would be at least {STRONG:g}, and within 0.1 of each other"
    return Settled(claim, outcome, ours, best.protocol, why)


def _other_domains(claim: Claim, evidence: Evidence) -> Settled:
    """A dataset of tables, a perceptron."""
    own = evidence.where(lambda s: s.dataset in _TABULAR)
    if not own:
        raise MissingResultsError("no results on a dataset that is not images")
    return _early_claim(claim, max(own, key=lambda e: e.run.population.records))


def _cheap_proxies(claim: Claim, evidence: Evidence) -> Settled:
    """Measures of a single model's losses against the advantage of its members; the better one decides."""
    own = _baseline(evidence)
    proxies = [m for m in (MONITOR_OF_ONE, SPREAD_OF_ONE) if m in own.run.early_hardness]
    if not proxies:
        raise MissingResultsError("losses during training are not in these results")
    epochs = own.run.epochs
    early = min(range(len(epochs)), key=lambda k: abs(epochs[k] - _EARLY_EPOCH))
    at_end = {m: _known(_of(own, m).spearman) for m in proxies}
    parts = [
        f"{measure_label(m)} {r.text(digits=2)} at the end, "
        f"{_interval_at(own.run.early_hardness[m], early).text(digits=2)} at epoch {epochs[early]}"
        for m, r in at_end.items()
    ]
    best = max(at_end.values(), key=lambda r: r.value)
    ours = f"Spearman with the final advantage of the model's members: {'; '.join(parts)}"
    why = f"reproduced would be at least {STRONG:g}"
    return Settled(claim, strength_outcome(*best[:3]), ours, own.protocol, why)


RULES = {
    "epistemic_r": _epistemic_r,
    "epistemic_strongest": _strongest,
    "epistemic_early": _epistemic_early,
    "epistemic_everywhere": _everywhere,
    "gradient_norms": _gradient_norms,
    "fewest_models": _fewest_models,
    "variation": _variation,
    "complexity": _complexity,
    "three_estimators": _three_estimators,
    "other_domains": _other_domains,
    "cheap_proxies": _cheap_proxies,
}
