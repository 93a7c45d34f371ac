"""Applies a gate to the figures of an audit: each limit with its outcome and a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from leakscope.dp.verdict import Status
from leakscope.evaluate.exposed_share import DEGREE, models_to_pass
from leakscope.evaluate.gate import Gate, GateOutcome, GateResult, LimitOutcome, why_too_few
from leakscope.evaluate.hygiene.outcome import Outcome, why_undermined
from leakscope.evaluate.nouns import RECORD, Noun
from leakscope.evaluate.presets import is_of_preset
from leakscope.evaluate.results import (
    AttackFigures,
    AuditResults,
    EpsilonFigure,
    ExposedRecords,
    Figure,
    TprAtFpr,
)
from leakscope.report.phrases import counted
from leakscope.stats.rounding import Rounding

_SURE, _ABOUT_SURE = " with 99% confidence", " with about 99% confidence"
"""For these records, and for records like these, on which no model was trained."""
_FEWEST_FALSE_POSITIVES = 5
"""Expected per target; a TPR that rests on fewer non-members has an approximate interval."""

_Shown = Callable[[float, int], str]
"""A number as text, with so many digits more than usual."""

_OF_CLAIMS: dict[Status, GateOutcome | None] = {
    "refuted": "failed",
    "unsupported": "inconclusive",
    "not testable": "inconclusive",
    "consistent": None,  # a claim that stands is no pass
}


def audit_outcome(results: AuditResults) -> GateOutcome | None:
    """The outcome of gate and claim together; None where neither decides anything.

    After a failed check it is "inconclusive" whatever they say. A broken limit or a refuted claim fails.
    """
    if any(check.status == "failed" for check in results.hygiene):
        return "inconclusive"
    of_claim = None if results.claim is None else _OF_CLAIMS[results.claim.verdict.status]
    outcomes = [*([results.gate.outcome] if results.gate else []), *([of_claim] if of_claim else [])]
    return _overall(outcomes) if outcomes else None


def judge_gate(
    gate: Gate,
    attacks: Mapping[str, AttackFigures],
    exposed: ExposedRecords | None,
    hygiene: Sequence[Outcome] = (),
    n_nonmembers: int | None = None,
    noun: Noun = RECORD,
    n_references: int | None = None,
) -> GateResult:
    """The outcome of every limit.

    Args:
        gate: the limits.
        attacks: label -> figures of each attack.
        exposed: records that are individually exposed; None where single records were not evaluated.
        hygiene: checks of the audit; after one that undermines the figures, every limit is inconclusive.
        n_nonmembers: non-members of each target; None: unknown.
        noun: what members are.
        n_references: reference models of a given model; None for a population.
    """
    undermined = why_undermined(hygiene)
    why_few = None if n_references is None else why_too_few(n_references)
    found = (_without_pass(limit, why_few) for limit in _outcomes(gate, attacks, exposed))
    outcomes = (_marked(limit, n_nonmembers) for limit in found)
    decided = (_undecided(limit, undermined) for limit in outcomes)
    limits = tuple(replace(limit, sentence=noun.say(limit.sentence)) for limit in decided)
    return GateResult(_overall([limit.outcome for limit in limits]), limits)


def _overall(outcomes: Sequence[GateOutcome]) -> GateOutcome:
    if "failed" in outcomes:
        return "failed"
    return "inconclusive" if "inconclusive" in outcomes else "passed"


def why_approximate(fpr: float, n_nonmembers: int) -> str | None:
    """Why the interval of the TPR at an FPR is approximate; None where it is not."""
    if fpr * n_nonmembers >= _FEWEST_FALSE_POSITIVES:
        return None
    number = max(round(fpr * n_nonmembers), 1)
    rests_on = f"about {counted(number, 'non-member')} per target"
    at = f"{100 * fpr:g}% FPR, at thresholds from this model or from the others,"
    return f"The TPR at {at} rests on {rests_on}, so its interval is approximate."


def limited(limit: LimitOutcome, figures: AttackFigures) -> Figure | EpsilonFigure:
    """The figure of an attack that a limit is on."""
    if limit.limit_on == "max_tpr":
        return _tpr_at(figures, limit.fpr or 0.0)
    if limit.limit_on == "max_epsilon":
        return figures.epsilon.general
    return figures.auc if limit.limit_on == "max_auc" else figures.advantage


def with_bound(limit: LimitOutcome, bound: float | None, rounding: Rounding) -> LimitOutcome:
    """The same outcome with a rounded bound, which stays on its side of the limit."""
    sentence = rounding.counts_in(limit.sentence)
    if limit.bound is None or bound is None:
        return replace(limit, sentence=sentence)
    bound = min(bound, limit.limit) if limit.bound <= limit.limit else max(bound, limit.limit)
    shown = _number if limit.limit_on in ("max_auc", "max_epsilon") else _percent
    exact, allowed = _apart(limit.bound, limit.limit, shown)
    rounded, rounded_allowed = _apart(bound, limit.limit, shown)  # digits must not say how close it is
    for before in ("at least", "up to"):
        sentence = sentence.replace(f"{before} {exact}", f"{before} {rounded}")
    sentence = sentence.replace(f"the limit is {allowed}", f"the limit is {rounded_allowed}")
    return replace(limit, bound=bound, sentence=sentence)


def _marked(limit: LimitOutcome, n_nonmembers: int | None) -> LimitOutcome:
    """The limit, with a second sentence where the interval that decides it is approximate."""
    if limit.fpr is None or n_nonmembers is None or limit.bound is None:
        return limit
    why = why_approximate(limit.fpr, n_nonmembers)
    return limit if why is None else replace(limit, sentence=f"{limit.sentence} {why}")


def _without_pass(limit: LimitOutcome, why_few: str | None) -> LimitOutcome:
    """The limit, which does not hold for sure where stronger attacks may exceed it."""
    if why_few is None or limit.outcome != "passed":
        return limit
    held = limit.sentence.removeprefix("Gate passed: ").removesuffix(".")
    return replace(limit, outcome="inconclusive", sentence=f"Gate inconclusive: {held}. But {why_few}.")


def _undecided(limit: LimitOutcome, undermined: str | None) -> LimitOutcome:
    """The limit without a conclusion, where figures cannot be trusted."""
    if undermined is None:
        return limit
    because = undermined.replace("its figures", "the figures of the audit")
    sentence = f"Gate inconclusive: {limit.limit_on} cannot be judged, because {because}."
    return replace(limit, outcome="inconclusive", sentence=sentence)


@dataclass(frozen=True)
class _Range:
    """Where a figure lies, as far as the audit can tell; an end that is None is unknown, for this reason."""

    low: float | None
    high: float | None
    reason: str
    confidence: str = ""

    @classmethod
    def of(cls, figure: Figure, gate: Gate) -> _Range:
        reason = figure.reason if isinstance(figure, TprAtFpr) else None
        if gate.records == "these":
            no_interval = "it has no interval for these records"
            return cls(_known(figure.these_low), _known(figure.these_high_99), reason or no_interval, _SURE)
        sure = _SURE if figure.these_low is None else _ABOUT_SURE  # of one model, other records are queried
        return cls(_known(figure.low), _known(figure.high_99), reason or "it has no interval", sure)

    @classmethod
    def above(cls, bound: EpsilonFigure) -> _Range:
        value = _known(bound.value)
        lower_bound = (
            f"it is at least {value:.3g}, and a lower bound cannot show that" if value is not None else ""
        )
        return cls(value, None, lower_bound or bound.reason or "it has no bound")


@dataclass(frozen=True)
class _Limit:
    """One limit: its setting, what it limits, its value, how numbers are written, and whose limit it is."""

    name: str
    what: str
    value: float
    shown: _Shown
    fpr: float | None = None
    preset: str | None = None

    @property
    def allowed(self) -> str:
        return f"{self.shown(self.value, 0)}{self._of_preset}"

    def beside(self, bound: float) -> tuple[str, str]:
        """A bound, and the limit, with so many digits that one can see which is higher."""
        bound_text, allowed = _apart(bound, self.value, self.shown)
        return bound_text, f"{allowed}{self._of_preset}"

    @property
    def _of_preset(self) -> str:
        return "" if self.preset is None else f", that of {self.preset!r}"


def _outcomes(
    gate: Gate, attacks: Mapping[str, AttackFigures], exposed: ExposedRecords | None
) -> Iterator[LimitOutcome]:
    def ranges(figure_of: Callable[[AttackFigures], Figure]) -> dict[str | None, _Range]:
        return {label: _Range.of(figure_of(figures), gate) for label, figures in attacks.items()}

    if gate.max_auc is not None:
        preset = gate.preset if is_of_preset(gate, gate.max_auc) else None
        limit = _Limit("max_auc", "the AUC", gate.max_auc, _number, preset=preset)
        yield _outcome(limit, ranges(lambda f: f.auc))
    if gate.max_advantage is not None:
        preset = gate.preset if is_of_preset(gate, gate.max_advantage) else None
        limit = _Limit("max_advantage", "the advantage", gate.max_advantage, _percent, preset=preset)
        yield _outcome(limit, ranges(lambda f: f.advantage))
    for allowed in gate.max_tpr:
        what = f"the TPR at {100 * allowed.fpr:g}% FPR"
        preset = gate.preset if is_of_preset(gate, allowed) else None
        limit = _Limit("max_tpr", what, allowed.tpr, _percent, allowed.fpr, preset)
        points = {label: _tpr_at(figures, allowed.fpr) for label, figures in attacks.items()}
        yield _outcome(limit, {label: _Range.of(point, gate) for label, point in points.items()})
    if gate.max_epsilon is not None:
        what = f"epsilon (delta {gate.delta:g}, {gate.confidence:.0%} confidence)"
        bounds: dict[str | None, _Range] = {
            label: _Range.above(figures.epsilon.general) for label, figures in attacks.items()
        }
        yield _outcome(_Limit("max_epsilon", what, gate.max_epsilon, _number), bounds)
    if gate.max_exposed_share is not None:
        yield _exposed_outcome(gate.max_exposed_share, exposed)


def _exposed_outcome(allowed: float, exposed: ExposedRecords | None) -> LimitOutcome:
    """Failed by the records that are detected; passed by an upper bound on those that are exposed."""
    limit = _Limit("max_exposed_share", "the share of exposed records", allowed, _percent)
    if exposed is None:
        return _outcome(limit, {None: _Range(None, None, "no population of models was attacked")})
    detected = exposed.share or 0.0
    outcome = _outcome(limit, {None: _Range(detected, max(detected, exposed.at_most), "", _SURE)})
    if outcome.outcome == "failed":
        return outcome
    sentence = f"{outcome.sentence} Records count as exposed here if {DEGREE}."
    if outcome.outcome == "inconclusive":
        needed = models_to_pass(allowed, exposed.tested)
        sentence += f" If the models reveal nothing, it takes about {needed} of them to pass."
    return replace(outcome, sentence=sentence)


def _outcome(limit: _Limit, ranges: Mapping[str | None, _Range]) -> LimitOutcome:
    """Failed where any attack is certainly above the limit, passed where none can be."""
    above = {label: at.low for label, at in ranges.items() if at.low is not None and at.low > limit.value}
    if above:
        attack, bound = max(above.items(), key=lambda item: item[1])
        bound_text, allowed = limit.beside(bound)
        excess = f"at least {bound_text}{_of(attack)}; the limit is {allowed}"
        return _as_outcome(limit, "failed", f"is {excess}", attack, bound)
    unknown = {label: at for label, at in ranges.items() if at.high is None}
    if unknown:
        attack, at = max(unknown.items(), key=lambda item: -math.inf if item[1].low is None else item[1].low)
        unclear = f"cannot be compared with the limit of {limit.allowed} ({at.reason})"
        return _as_outcome(limit, "inconclusive", unclear, attack, at.low)
    attack, at = max(ranges.items(), key=lambda item: item[1].high or 0.0)
    bound = at.high or 0.0
    bound_text, allowed = limit.beside(bound)
    held = f"is up to {bound_text}{at.confidence}{_of(attack)}; the limit is {allowed}"
    if bound <= limit.value:
        return _as_outcome(limit, "passed", held, attack, bound)
    unclear = f"{held}, and the audit cannot tell whether the figure is within it"
    return _as_outcome(limit, "inconclusive", unclear, attack, bound)


def _as_outcome(
    limit: _Limit, outcome: GateOutcome, predicate: str, attack: str | None, bound: float | None
) -> LimitOutcome:
    sentence = f"Gate {outcome}: {limit.what} {predicate}."
    return LimitOutcome(limit.name, limit.fpr, limit.value, bound, attack, outcome, sentence)


def _tpr_at(figures: AttackFigures, fpr: float) -> TprAtFpr:
    (point,) = (point for point in figures.tpr_at_fpr if point.fpr == fpr)
    return point


def _known(value: float | None) -> float | None:
    """None for NaN, which is what an undefined figure is before it is stored."""
    return None if value is None or math.isnan(value) else value


def _of(attack: str | None) -> str:
    return f" ({attack})" if attack else ""


def _apart(bound: float, limit: float, shown: _Shown) -> tuple[str, str]:
    """Both as text, with more digits where they would look equal and are not."""
    for more_digits in range(5):
        texts = shown(bound, more_digits), shown(limit, more_digits)
        if texts[0] != texts[1]:
            return texts
    return shown(bound, 0), shown(limit, 0)


def _percent(rate: float, more_digits: int) -> str:
    """A rate in percent; small ones get more digits."""
    digits = (1 if abs(rate) >= 0.001 or rate == 0 else 3) + more_digits
    return f"{100 * rate:.{digits}f}".removesuffix(".0") + "%"


def _number(value: float, more_digits: int) -> str:
    return f"{value:.{3 + more_digits}g}"
