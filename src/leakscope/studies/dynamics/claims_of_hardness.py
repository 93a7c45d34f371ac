"""Claims about hardness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

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
from leakscope.studies.dynamics.published_runs import (
    BASELINE,
    all_at_published_scale,
    shortfall,
    unless_short,
)

_PUBLISHED_R = 0.916
_EARLY_SHARE = 150 / 400  # the publication's early epoch, as a share of its training
_NOTHING_ADDED = 0.1
_UNCERTAINTY = ("epistemic", "epistemic_own_class")
_ESTIMATORS = ("epistemic", "epistemic_dropout", "ensemble_variance")
_TABULAR = ("location30", "adult")


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
    own = BASELINE(evidence)
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
    own = BASELINE(evidence)
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


def _early_at(own: Run) -> int:
    """Index of the last checkpoint by the published early epoch, 150 of 400; else of the first."""
    epochs = own.run.epochs
    return max((k for k, epoch in enumerate(epochs) if epoch <= _EARLY_SHARE * epochs[-1]), default=0)


def _epistemic_early(claim: Claim, evidence: Evidence) -> Settled:
    """The uncertainty at the published early epoch against the advantage at the end."""
    own = BASELINE(evidence)
    settled = _early_claim(claim, own, _PUBLISHED_R)
    measure, _ = _early_series(own)
    if measure == "epistemic":
        return settled
    others = [e for e in all_at_published_scale(evidence) if "epistemic" in e.run.early_hardness]
    parts = [
        f"{e.setting.name} at epoch {e.run.epochs[k]} of {e.run.epochs[-1]}: "
        f"{_interval_at(e.run.early_hardness['epistemic'], k).text(digits=2)}"
        for e in others
        for k in [_early_at(e)]
    ]
    beside = f"; {measure_label('epistemic')}, known early in other runs: {'; '.join(parts)}" if parts else ""
    why = (
        f"{settled.why}; early in this run, only the weaker measure is known, {measure_label(measure)}: it "
        "uses the label's probability instead of all classes"
    )
    return replace(settled, ours=settled.ours + beside, why=why)


def _early_claim(claim: Claim, own: Run, published: float | None = None) -> Settled:
    """Strong at the published early epoch; agrees only if the interval contains a value that is published."""
    measure, early = _early_series(own)
    epochs, at = own.run.epochs, _early_at(own)
    judged = _interval_at(early, at)
    outcome = strength_outcome(*judged[:3])
    if outcome is Outcome.REPRODUCED and published is not None and not judged.agrees(published, 0.001):
        outcome = Outcome.SAME_DIRECTION
    shown = sorted({early_checkpoint(epochs), at, len(epochs) - 1})
    parts = [f"epoch {epochs[k]}: {_interval_at(early, k).text(digits=2)}" for k in shown]
    ours = f"{measure_label(measure)}, Spearman with the final advantage: {'; '.join(parts)}"
    why = (
        f"judged at epoch {epochs[at]} of {epochs[-1]}, the published share of training; a reliable "
        f"predictor has at least {STRONG:g}"
    )
    return Settled(claim, outcome, ours, own.protocol, why)


def _everywhere(claim: Claim, evidence: Evidence) -> Settled:
    """Epistemic uncertainty in every setting there is; runs at the published scale decide."""
    own = [e for e in evidence.where(lambda _: True) if "epistemic" in e.run.hardness]
    deciding = [_known(_of(e, "epistemic").pearson) for e in own if not shortfall(e)]
    if len(deciding) < 2:
        raise MissingResultsError("fewer than two settings at the published scale with epistemic uncertainty")
    outcome = Outcome.REPRODUCED
    if any(v.value < STRONG for v in deciding):
        outcome = Outcome.SAME_DIRECTION if all(v.low > 0 for v in deciding) else Outcome.REFUTED
    parts = [f"{e.label} {_known(_of(e, 'epistemic').pearson).text(digits=2)}" for e in own]
    why = f"reproduced would be at least {STRONG:g} in all runs at the published scale"
    return Settled(claim, outcome, f"r over all records: {'; '.join(parts)}", "all runs of this page", why)


def _of_gradients(evidence: Evidence, measure: str) -> list[tuple[Run, Interval]]:
    """A measure wherever models were trained again for it."""
    own = [e for e in evidence.where(lambda _: True) if measure in e.run.hardness]
    if not own:
        raise MissingResultsError(f"no results with {measure_label(measure)}")
    return [(e, _known(_of(e, measure).spearman)) for e in own]


def _gradient_words(found: list[tuple[Run, Interval]], measure: str) -> tuple[str, str]:
    """Our values, and how they were measured."""
    parts = [f"{e.setting.name} {v.text(digits=2)}" for e, v in found]
    return f"Spearman of {measure_label(measure)}: {'; '.join(parts)}", "; ".join(
        e.protocol for e, _ in found
    )


def _gradient_norms(claim: Claim, evidence: Evidence) -> Settled:
    """GraNd; runs at the published scale decide."""
    found = _of_gradients(evidence, "grand")
    ours, protocol = _gradient_words(found, "grand")
    deciding = [v for e, v in found if not shortfall(e)]
    if not deciding:
        why = "gradient norms are known only of runs far below the published scale, of other networks"
        return Settled(claim, Outcome.NOT_TESTABLE, ours, protocol, why)
    largest = max(deciding, key=lambda v: abs(v.value))
    outcome = Outcome.REPRODUCED if abs(largest.value) < WEAK else Outcome.NOT_REPRODUCED
    if largest.low >= WEAK and all(e.setting.net == "wide_resnet" for e, _ in found):
        outcome = Outcome.REFUTED  # only the published network can refute it
    return Settled(claim, outcome, ours, protocol, f"a poor predictor has a correlation below {WEAK:g}")


def _influence(claim: Claim, evidence: Evidence) -> Settled:
    """TracIn of a record on itself; runs at the published scale decide."""
    found = _of_gradients(evidence, "tracin")
    ours, protocol = _gradient_words(found, "tracin")
    deciding = [v for e, v in found if not shortfall(e)]
    if not deciding:
        why = "TracIn of a record on itself is known only of runs far below the published scale"
        return Settled(claim, Outcome.NOT_TESTABLE, ours, protocol, why)
    least = min(deciding, key=lambda v: v.value)
    why = f"reproduced would be at least {STRONG:g}"
    return Settled(claim, strength_outcome(*least[:3]), ours, protocol, why)


def _hardness_strong(claim: Claim, evidence: Evidence) -> Settled:
    """Every measure over the population's models; proxies of one model are another claim."""
    own = BASELINE(evidence)
    measured = {m: f for m, f in own.run.hardness.items() if m not in (MONITOR_OF_ONE, SPREAD_OF_ONE)}
    if not measured:
        raise MissingResultsError("no measure of hardness is in these results")
    ranks = {m: _known(f.spearman) for m, f in measured.items()}
    outcome = Outcome.NOT_REPRODUCED
    if all(r.low > 0 for r in ranks.values()):
        is_strong = all(r.value >= STRONG for r in ranks.values())
        outcome = Outcome.REPRODUCED if is_strong else Outcome.SAME_DIRECTION
    parts = [f"{measure_label(m)} {r.text(digits=2)}" for m, r in ranks.items()]
    why = (
        f"a strong correlation is at least {STRONG:g}; of the publication's own measures, epistemic "
        "uncertainty alone was measured at this length, and not influence functions or gradient norms"
    )
    return Settled(claim, outcome, f"Spearman over all records: {'; '.join(parts)}", own.protocol, why)


def _uncertainty_not_noise(claim: Claim, evidence: Evidence) -> Settled:
    """Whether uncertainty says anything of vulnerability beyond the loss of OUT models."""
    own = BASELINE(evidence)
    figures = _of(own, "epistemic")
    alone, given_loss = _known(figures.spearman), _known(figures.partial_given_loss)
    is_difficulty = max(abs(given_loss.low), abs(given_loss.high)) < _NOTHING_ADDED
    outcome = Outcome.NOT_REPRODUCED
    if is_difficulty and alone.low > 0:
        outcome = Outcome.REPRODUCED if alone.value >= STRONG else Outcome.SAME_DIRECTION
    ours = (
        f"Spearman with the advantage {alone.text()}; given the mean loss of the models not trained on a "
        f"record {given_loss.text()}"
    )
    why = (
        "that loss is the record's difficulty; uncertainty reflects it, and not noise, if it adds less than "
        f"{_NOTHING_ADDED:g} to it"
    )
    return Settled(claim, outcome, ours, own.protocol, why)


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
    return unless_short(Settled(claim, outcome, ours, best.protocol, why), best)


def _other_domains(claim: Claim, evidence: Evidence) -> Settled:
    """A dataset of tables, a perceptron."""
    own = evidence.where(lambda s: s.dataset in _TABULAR)
    if not own:
        raise MissingResultsError("no results on a dataset that is not images")
    best = max(own, key=lambda e: (e.run.epochs[-1], e.run.population.records))
    return unless_short(_early_claim(claim, best), best, records=0)


def _cheap_proxies(claim: Claim, evidence: Evidence) -> Settled:
    """Measures of a single model's losses against the advantage of its members; the better one decides."""
    own = BASELINE(evidence)
    proxies = [m for m in (MONITOR_OF_ONE, SPREAD_OF_ONE) if m in own.run.early_hardness]
    if not proxies:
        raise MissingResultsError("losses during training are not in these results")
    epochs = own.run.epochs
    early = _early_at(own)
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
    "hardness_strong": _hardness_strong,
    "uncertainty_not_noise": _uncertainty_not_noise,
    "epistemic_r": _epistemic_r,
    "epistemic_strongest": _strongest,
    "epistemic_early": _epistemic_early,
    "epistemic_everywhere": _everywhere,
    "gradient_norms": _gradient_norms,
    "influence": _influence,
    "three_estimators": _three_estimators,
    "other_domains": _other_domains,
    "cheap_proxies": _cheap_proxies,
}
