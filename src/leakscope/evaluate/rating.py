"""The rating of an audit: one word for how much leaks, decided by the ends of intervals; see docs/rating.md.

A level is a curve: the ROC of two unit normal distributions that lie `mu` apart. A figure reaches a level
when the lower end of its interval lies on or above that curve, so noise alone rarely reaches any. The rating
is the highest level that a figure reaches, on the population or on the canaries, so more leakage never lowers
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import scipy

from leakscope.evaluate.gate import GateResult
from leakscope.evaluate.hygiene.outcome import Outcome, why_undermined
from leakscope.evaluate.levels import LEVELS, SEPARATIONS, advantage_of, auc_of, tpr_of
from leakscope.evaluate.limits import why_approximate
from leakscope.evaluate.nouns import RECORD, Noun
from leakscope.evaluate.rating_results import Level, Rating, RatingPart
from leakscope.evaluate.results import AttackFigures, ExposedRecords, Figure, Headline, PopulationFigures
from leakscope.leakage.checkpoints import LeakageFigures, MostExposed

WORST_BITS: Mapping[Level, float] = {"low": 0.05, "moderate": 0.15, "high": 0.5, "severe": 0.75}
"""Bits of the most exposed 1% of records from which each level holds."""
_WIDER = 1.2
"""An AUC is above 0.5 if an interval wider by this factor says so: it is not the only figure that could be
above "none found" by chance, and all of them together should be in at most 5% of audits."""
_TOO_VAGUE = LEVELS.index("high")


class Rated(NamedTuple):
    """The figures of an audit that its rating reads.

    Attributes:
        leakage: bits of the audited models; None where they are those of reference models, which say how much
            the recipe leaks, and nothing about the model that was audited.
    """

    headline: Headline
    attacks: Mapping[str, AttackFigures]
    population: PopulationFigures
    leakage: LeakageFigures | None
    exposed: ExposedRecords | None
    gate: GateResult | None
    hygiene: tuple[Outcome, ...]
    noun: Noun = RECORD


def rate(rated: Rated) -> Rating:
    """The rating of an audit, and what it rests on."""
    parts = tuple(_parts(rated))
    found = highest(part.level for part in parts)
    possible = highest([found, *(part.at_most for part in parts)])
    undermined = why_undermined(rated.hygiene)
    if undermined is not None:
        return Rating("inconclusive", "severe", parts, undermined)
    is_vague = any(LEVELS.index(part.at_most) >= _TOO_VAGUE for part in parts if part.about in ("auc", "tpr"))
    if found == "none found" and (is_vague or not parts):
        reason = "nothing was found, but the audit is too small to rule out a high leak"
        return Rating("inconclusive", possible, parts, reason)
    return Rating(found, possible, parts, None)


def highest(levels: Iterator[Level] | list[Level]) -> Level:
    """The highest of some levels; "none found" of none."""
    return max(levels, key=LEVELS.index, default="none found")


def counts(fpr: float, population: PopulationFigures) -> bool:
    """Whether a TPR at this FPR rests on enough non-members to be rated."""
    return why_approximate(fpr, population.records - population.members) is None


def _parts(rated: Rated) -> Iterator[RatingPart]:
    """Every figure that can be rated; of the TPRs, the one that decides."""
    auc = rated.headline.auc
    if _known(auc.low) is not None:
        yield _auc_part("auc", f"AUC ({rated.headline.attack})", auc)
    advantages = [
        _advantage_part(label, figures.advantage)
        for label, figures in rated.attacks.items()
        if _known(figures.advantage.low) is not None
    ]
    if advantages:
        decisive = max(advantages, key=_clearness)
        yield replace(decisive, at_most=highest([part.at_most for part in advantages]))
    tprs = [
        _tpr_part(label, point, point.fpr)
        for label, figures in rated.attacks.items()
        for point in figures.tpr_at_fpr
        if counts(point.fpr, rated.population) and _known(point.low) is not None
    ]
    if tprs:
        clearest = max(tprs, key=lambda part: (LEVELS.index(part.level), _separation(part)))
        yield clearest._replace(at_most=highest([part.at_most for part in tprs])).named()
    checkpoints = () if rated.leakage is None else rated.leakage.checkpoints
    if checkpoints and _known(checkpoints[-1].most_exposed.low) is not None:
        yield _worst_part(checkpoints[-1].most_exposed, rated.noun)
    canaries = rated.headline.canaries
    if canaries is not None and _known(canaries.auc.low) is not None:
        yield _auc_part("canaries", f"AUC on {canaries.records:,} canaries ({canaries.attack})", canaries.auc)
    if rated.exposed is not None and rated.exposed.records is not None:
        yield _exposed_part(rated.exposed, rated.noun)
    if rated.gate is not None:
        yield _gate_part(rated.gate)


class _TprPart(NamedTuple):
    """A TPR at an FPR before the one that decides is chosen."""

    level: Level
    at_most: Level
    attack: str
    figure: Figure
    fpr: float

    def named(self) -> RatingPart:
        """As the rating holds it."""
        figure = self.figure
        what = f"TPR at {100 * self.fpr:g}% FPR ({self.attack})"
        return RatingPart(
            "tpr", what, self.level, self.at_most, figure.value, figure.low, figure.high, self.fpr
        )


def _auc_part(about: Literal["auc", "canaries"], what: str, auc: Figure) -> RatingPart:
    def level(end: float, surest: float) -> Level:
        reached = [name for name in SEPARATIONS if end >= auc_of(name)]
        return highest(reached) if surest > 0.5 else "none found"

    value, low, high = _known(auc.value) or 0.0, _known(auc.low) or 0.0, _end(auc.high)
    surest = value - _WIDER * (value - low)
    return RatingPart(about, what, level(low, surest), level(high, high), value, auc.low, auc.high, None)


def _clearness(part: RatingPart) -> tuple[float, float]:
    """By the lower end where something was found; else by the upper one, which says what was missed."""
    return (0.0 if part.level == "none found" else part.low or 0.0), _end(part.high)


def _advantage_part(attack: str, advantage: Figure) -> RatingPart:
    """Members whose outputs are alike can stand out in the middle, where the AUC is 0.5."""

    def level(end: float) -> Level:
        return highest([name for name in SEPARATIONS if end >= advantage_of(name)])

    low, high = _known(advantage.low) or 0.0, _end(advantage.high)
    ends = advantage.value, advantage.low, advantage.high
    return RatingPart("advantage", f"advantage ({attack})", level(low), level(high), *ends, None)


def _tpr_part(attack: str, tpr: Figure, fpr: float) -> _TprPart:
    def level(end: float) -> Level:
        return highest([name for name in SEPARATIONS if end >= tpr_of(name, fpr)])

    return _TprPart(level(_known(tpr.low) or 0.0), level(_end(tpr.high)), attack, tpr, fpr)


def _separation(part: _TprPart) -> float:
    """How far apart two normal distributions with the lower end's TPR are."""
    low = min(max(_known(part.figure.low) or 0.0, 1e-12), 1 - 1e-12)
    return float(scipy.special.ndtri(low) - scipy.special.ndtri(part.fpr))


def _worst_part(worst: MostExposed, noun: Noun) -> RatingPart:
    def level(end: float) -> Level:
        return highest([name for name, bits in WORST_BITS.items() if end >= bits])

    what = f"bits of the most exposed {worst.share:.0%} of {noun.many}"
    low, high = _known(worst.low) or 0.0, _end(worst.high)
    return RatingPart("worst", what, level(low), level(high), worst.value, worst.low, worst.high, None)


def _exposed_part(exposed: ExposedRecords, noun: Noun) -> RatingPart:
    """Exposed records have no interval; that a record is listed at all is the test."""
    level: Level = "low" if exposed.records else "none found"
    missed: Level = level if exposed.reason is None else "low"
    what = f"share of exposed {noun.many}"
    return RatingPart("exposed", what, level, missed, exposed.share, exposed.share, None, None)


def _gate_part(gate: GateResult) -> RatingPart:
    """Whoever set the limit has said that more is too much."""
    level: Level = "moderate" if gate.outcome == "failed" else "none found"
    return RatingPart("gate", f"gate {gate.outcome}", level, level, None, None, None, None)


def _end(value: float | None) -> float:
    """An upper end; 1 where it is unknown."""
    known = _known(value)
    return 1.0 if known is None else known


def _known(value: float | None) -> float | None:
    """None for NaN, which is what an undefined figure is before it is stored."""
    return None if value is None or math.isnan(value) else value
