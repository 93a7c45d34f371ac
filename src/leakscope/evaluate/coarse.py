"""The results of a given model as others may see them: its members are secret.

Exact figures say more than they seem to: an AUC to sixteen digits tells how many members a group has, and
what two groups have tells whether the one record outside them is a member. Here every figure is rounded so
that it fits any number of members, and so are the counts; groups that could tell more have no figures.
docs/redaction.md says what remains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from leakscope.disclosure import FEWEST_RECORDS
from leakscope.dp.verdict import ClaimFigures, Evidence
from leakscope.evaluate.attack_figures import balanced_accuracy, precision_of
from leakscope.evaluate.config import (
    MEMBERS,
    MEMBERS_SHA256,
    RECORDS_PER_MODEL,
    ROWS_TOGETHER,
    EvaluationConfig,
)
from leakscope.evaluate.gate import GateResult, LimitOutcome
from leakscope.evaluate.hygiene import shift
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.limits import limited, with_bound
from leakscope.evaluate.rating_results import Rating, RatingPart
from leakscope.evaluate.results import (
    AccuracyFigures,
    AttackFigures,
    AuditResults,
    CheckpointFit,
    EpsilonFigure,
    EpsilonFigures,
    ErrorFigures,
    Figure,
    GroupFigures,
    Precision,
    SetFigures,
    TprAtFpr,
)
from leakscope.evaluate.text_results import TextFigures, WithAndWithout
from leakscope.evaluate.text_sentences import without_few
from leakscope.leakage.checkpoints import CheckpointLeakage
from leakscope.stats.rounding import Rounding, round_up

_SECRET_FACTS = (MEMBERS_SHA256, RECORDS_PER_MODEL, ROWS_TOGETHER)
_ONE_SIDED = "figures of its groups would say who is a member"
_FINEST_BITS = 0.001
_COARSER = 5
_NONE = Figure(None, None, None, sd=None)
_BOTH_SIDES = re.compile(r"has ([\d,]+) members and [\d,]+ non-members")
_ONE_SIDE = r"has about \1 members; all other records are non-members"
"""Two counts that add up to a known number, each rounded, would say more than one."""
_COPIES = {"duplicates": "records_with_a_copy", "near copies": "records_with_a_near_copy"}
"""Checks of copies, and the number of records that have one."""
_FEW_COPIES = {
    "duplicates": "{:,} records have an exact copy. Remove duplicates first.",
    "near copies": "{:,} documents have a near copy. Remove near copies, or give them one group and set "
    "population.unit to it.",
}


@dataclass(frozen=True)
class CoarseResults(AuditResults):
    """Results whose figures and counts of members are rounded; never stored."""

    @property
    def is_rounded(self) -> bool:
        """True."""
        return True


def shareable(results: AuditResults) -> AuditResults:
    """The results as others may see them: rounded for a given model, as they are for a population."""
    return coarse(results) if results.is_of_one_model and not results.is_rounded else results


def about_members(results: AuditResults, what: str = "") -> str:
    """How many records are members, as the reader may know it; `what` follows the number."""
    n_members = f"{results.population.members:,}{what}"
    return f"about {n_members} (rounded to about a fifth)" if results.is_rounded else n_members


def rounding_of(results: AuditResults, n_records: int | None = None) -> Rounding:
    """How figures of a set of records are rounded; None: of all records.

    Of a set, the numbers of members and non-members are estimated from its size, since a step that depended
    on them would tell them.
    """
    population = results.population
    n_fewer = max(min(population.members, population.records - population.members), 1)
    share = 1.0 if n_records is None else n_records / max(population.records, 1)
    return Rounding.of(population.records * share, n_fewer * share)


def coarse(results: AuditResults) -> CoarseResults:
    """Rounds everything that depends on who the members are."""
    rounding, headline, gate = rounding_of(results), results.headline, results.gate
    attacks = {label: _attack(figures, results) for label, figures in results.attacks.items()}
    one_sided = {column for figures in results.attacks.values() for column in _one_sided(figures.groups)}
    exact = {field.name: getattr(results, field.name) for field in fields(results)}
    population = replace(results.population, members=rounding.count(results.population.members))
    rounded = {
        "config": _config(results.config, f"about {population.members:,} of {population.records:,}"),
        "rating": _rating(results.rating, results),
        "population": population,
        "accuracy": _accuracy(results.accuracy, rounding),
        "error": _error(results.error, rounding),
        "fit": tuple(_fit(fit, rounding) for fit in results.fit),
        "headline": replace(
            headline,
            auc=rounding.figure(headline.auc),
            most_exposed=_set(headline.most_exposed, results),
            canaries=None if headline.canaries is None else _set(headline.canaries, results),
        ),
        "attacks": attacks,
        "groups_left_out": {**results.groups_left_out, **dict.fromkeys(sorted(one_sided), _ONE_SIDED)},
        "leakage": replace(
            results.leakage,
            checkpoints=tuple(_leakage(at, rounding) for at in results.leakage.checkpoints),
        ),
        "hygiene": tuple(_check(check, rounding) for check in results.hygiene),
        "gate": None if gate is None else _gate(gate, results.attacks, attacks, rounding),
        "claim": None if results.claim is None else _claim(results.claim, rounding),
        "text": None if results.text is None else _text(without_few(results.text), results),
    }
    return CoarseResults(**{**exact, **rounded})


def _config(config: EvaluationConfig, members: str) -> EvaluationConfig:
    """The facts about the model without those that depend on who its members are."""
    facts = {name: text for name, text in config.source.facts.items() if name not in _SECRET_FACTS}
    if MEMBERS in facts:
        facts[MEMBERS] = f"{members} {config.noun.many}"
    return replace(config, source=replace(config.source, facts=facts))


def _attack(figures: AttackFigures, results: AuditResults) -> AttackFigures:
    rounding = rounding_of(results)
    advantage = rounding.figure(figures.advantage)
    return replace(
        figures,
        auc=rounding.figure(figures.auc),
        advantage=advantage,
        balanced_accuracy=balanced_accuracy(advantage),
        tpr_at_fpr=tuple(_tpr(point, rounding) for point in figures.tpr_at_fpr),
        calibrated=tuple(
            replace(point, tpr=rounding.figure(point.tpr), fpr=rounding.figure(point.fpr))
            for point in figures.calibrated
        ),
        epsilon=EpsilonFigures(
            *(_epsilon(bound, rounding) for bound in (figures.epsilon.general, figures.epsilon.gaussian))
        ),
        groups={
            column: tuple(_group(group, results) for group in groups)
            for column, groups in figures.groups.items()
            if column not in _one_sided(figures.groups)
        },
        most_exposed=_set(figures.most_exposed, results),
        canaries=None if figures.canaries is None else _set(figures.canaries, results),
    )


def _tpr(point: TprAtFpr, rounding: Rounding) -> TprAtFpr:
    """A rate and its precisions, which follow from it: rounded on their own, some would be the finer rate."""
    tpr = rounding.figure(point)
    precision = tuple(_defined(precision_of(tpr, tpr.fpr, one.prior)) for one in point.precision)
    reason = None if point.reason is None else rounding.text(point.reason)
    return replace(tpr, precision=precision, reason=reason)


def _defined(precision: Precision) -> Precision:
    """None for NaN, as in stored results."""
    ends = (precision.value, precision.low, precision.high)
    value, low, high = (None if end is None or math.isnan(end) else end for end in ends)
    return replace(precision, value=value, low=low, high=high)


def _epsilon(bound: EpsilonFigure, rounding: Rounding) -> EpsilonFigure:
    """A lower bound, rounded down so that it still holds."""
    reason = None if bound.reason is None else rounding.text(bound.reason)
    value = None if bound.value is None else _of_epsilon(rounding).down(bound.value)
    return replace(bound, value=value, reason=reason)


def _of_epsilon(rounding: Rounding) -> Rounding:
    """Bounds on epsilon rest on two counts of the few records beyond a threshold."""
    return Rounding(min(10 * rounding.step, 0.1))


def _one_sided(columns: Mapping[str, Sequence[GroupFigures]]) -> set[str]:
    """Columns with a group that has no AUC or no interval: its records are all members, or none is.

    Without this group alone, the page would say which one it is.
    """
    return {
        column
        for column, groups in columns.items()
        if any(g.records >= FEWEST_RECORDS and None in (g.auc.value, g.auc.low) for g in groups)
    }


def _group(group: GroupFigures, results: AuditResults) -> GroupFigures:
    """AUC and advantage; whether a TPR can be measured would tell how many non-members there are."""
    if group.records < FEWEST_RECORDS:
        return replace(group, auc=_NONE, advantage=_NONE, tpr_at_fpr=())
    rounding = rounding_of(results, group.records)
    auc, advantage = rounding.figure(group.auc), rounding.figure(group.advantage)
    return replace(group, auc=auc, advantage=advantage, tpr_at_fpr=())


def _set(figures: SetFigures, results: AuditResults) -> SetFigures:
    """Figures of a set, and its TPRs where the size of the set alone says that they can be measured."""
    rounding = rounding_of(results, figures.records)
    n_fewer = min(results.population.members, results.population.records - results.population.members)
    n_nonmembers = n_fewer * figures.records / max(results.population.records, 1) / 2
    return replace(
        figures,
        auc=rounding.figure(figures.auc),
        advantage=rounding.figure(figures.advantage),
        tpr_at_fpr=tuple(
            rounding.figure(point) for point in figures.tpr_at_fpr if point.fpr * n_nonmembers >= 1
        ),
        reason=None if figures.reason is None else rounding.text(figures.reason),
    )


def _rating(rating: Rating, results: AuditResults) -> Rating:
    canaries = results.headline.canaries
    rounding = rounding_of(results)
    of_set = rounding if canaries is None else rounding_of(results, canaries.records)
    roundings = {"worst": _of_bits(rounding), "canaries": of_set}

    def part(exact: RatingPart) -> RatingPart:
        return roundings.get(exact.about, rounding).figure(exact)

    return replace(rating, parts=tuple(map(part, rating.parts)))


def _of_bits(rounding: Rounding) -> Rounding:
    """Bits are means over records and models, in which one record of one model has little weight."""
    return Rounding(max(rounding.step / 10, _FINEST_BITS))


def _leakage(at: CheckpointLeakage, rounding: Rounding) -> CheckpointLeakage:
    bits = _of_bits(rounding)
    return replace(
        at,
        bits=bits.figure(at.bits),
        rho_kl=bits.figure(at.rho_kl),
        total_variation=bits.figure(at.total_variation),
        most_exposed=bits.figure(at.most_exposed),
        floor=None if at.floor is None else bits.nearest(at.floor),
    )


def _accuracy(accuracy: AccuracyFigures | None, rounding: Rounding) -> AccuracyFigures | None:
    if accuracy is None:
        return None
    return AccuracyFigures(rounding.figure(accuracy.members), rounding.figure(accuracy.nonmembers))


def _error(error: ErrorFigures | None, rounding: Rounding) -> ErrorFigures | None:
    """Errors have the unit of the labels, so the step is relative to them."""
    if error is None:
        return None
    largest = max(error.members.value or 0.0, error.nonmembers.value or 0.0)
    in_unit = Rounding(round_up(rounding.step * largest))
    return ErrorFigures(in_unit.figure(error.members), in_unit.figure(error.nonmembers))


def _fit(fit: CheckpointFit, rounding: Rounding) -> CheckpointFit:
    return replace(
        fit,
        members=rounding.nearest(fit.members),
        nonmembers=rounding.nearest(fit.nonmembers),
        confidence=None if fit.confidence is None else rounding.nearest(fit.confidence),
    )


def _check(check: Outcome, rounding: Rounding) -> Outcome:
    """The finding of a check. Of few copies, it must not say on which side of the line they are."""
    # The numbers behind the sentence are exact; that of copies does not depend on who the members are.
    numbers = {name: value for name, value in check.numbers.items() if name in _COPIES.values()}
    n_copies = int(numbers.get(_COPIES.get(check.name, ""), 0))
    if 0 < n_copies < FEWEST_RECORDS:
        return replace(check, sentence=_FEW_COPIES[check.name].format(n_copies), numbers=numbers)
    if check.name == shift.NAME:
        # Its classifier splits the records anew for every list of members, so its AUC is a hash of the list.
        rounding = replace(rounding, step=_COARSER * rounding.step)
    sentence = _BOTH_SIDES.sub(_ONE_SIDE, rounding.text(check.sentence))
    return replace(check, sentence=sentence, numbers=numbers)


def _gate(
    gate: GateResult, exact: Mapping[str, AttackFigures], rounded: Mapping[str, AttackFigures], of: Rounding
) -> GateResult:
    """The same outcomes, with rounded bounds."""

    def limit(outcome: LimitOutcome) -> LimitOutcome:
        bound = outcome.bound
        if bound is not None and outcome.attack is not None:
            figures = (limited(outcome, attacks[outcome.attack]) for attacks in (exact, rounded))
            bound = _same_end(bound, *figures)
        return with_bound(outcome, bound, of)

    return replace(gate, limits=tuple(map(limit, gate.limits)))


def _same_end(bound: float, exact: Figure | EpsilonFigure, rounded: Figure | EpsilonFigure) -> float | None:
    """The rounded end of the interval whose exact end is the bound."""
    names = (field.name for field in fields(exact) if getattr(exact, field.name) == bound)
    end: float | None = next((getattr(rounded, name) for name in names), None)
    return end


def _claim(claim: ClaimFigures, rounding: Rounding) -> ClaimFigures:
    verdict = claim.verdict
    evidence = tuple(_evidence(one, rounding) for one in verdict.evidence)
    supposed = tuple(_evidence(one, rounding) for one in claim.supposing_gaussian)
    return replace(claim, verdict=replace(verdict, evidence=evidence), supposing_gaussian=supposed)


def _evidence(evidence: Evidence, rounding: Rounding) -> Evidence:
    """A test of all records; on parts of them it would say what each part adds."""
    of_epsilon = _of_epsilon(rounding)
    return replace(
        evidence,
        epsilon=of_epsilon.down(evidence.epsilon),
        ceiling=of_epsilon.nearest(evidence.ceiling),
        growth=(),
    )


def _text(text: TextFigures, results: AuditResults) -> TextFigures:
    secrets, extraction = text.secrets, text.extraction
    if secrets is not None:
        rounding = rounding_of(results, secrets.secrets)
        bits = Rounding(round_up(rounding.step * secrets.most_bits))
        secrets = replace(
            secrets,
            exposure=_with_and_without(secrets.exposure, bits),
            ranked_first=_with_and_without(secrets.ranked_first, rounding),
        )
    if extraction is not None:
        rounding = rounding_of(results, extraction.documents)
        extraction = replace(extraction, share=_with_and_without(extraction.share, rounding))
    return replace(text, secrets=secrets, extraction=extraction)


def _with_and_without(figures: WithAndWithout, rounding: Rounding) -> WithAndWithout:
    """The base was not trained on any of the documents, so its figure tells nothing."""
    return replace(
        figures,
        members=rounding.figure(figures.members),
        nonmembers=rounding.figure(figures.nonmembers),
    )
