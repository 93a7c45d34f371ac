"""The rating in sentences: the word, what it rests on, and what could have been missed."""

from __future__ import annotations

from collections.abc import Iterator

from leakscope.evaluate.gate import GateResult
from leakscope.evaluate.levels import LEVELS, advantage_of, auc_of, tpr_of
from leakscope.evaluate.nouns import Noun
from leakscope.evaluate.rating import WORST_BITS, highest
from leakscope.evaluate.rating_results import Level, Rating, RatingPart
from leakscope.evaluate.results import AuditResults
from leakscope.report.phrases import counted, enumeration

_LIMIT_ON = {"auc": "max_auc", "advantage": "max_advantage", "tpr": "max_tpr", "exposed": "max_exposed_share"}
"""What a part of the rating is about -> the limit on that figure."""


def rating_sentence(results: AuditResults) -> str:
    """The rating and its decisive figure, or what an audit without findings could have missed."""
    rating = results.rating
    if rating.reason is not None:
        return f"Rating: inconclusive, because {rating.reason}."
    if rating.level == "none found":
        return f"Rating: none found. {_nothing_found(results)}"
    decisive = next(part for part in rating.parts if part.level == rating.level)
    above = f" The intervals reach up to {rating.at_most}." if rating.at_most != rating.level else ""
    sentence = decisive_sentence(decisive, results.config.noun)
    passed = _passed_all_the_same(decisive, results.gate)
    return f"Rating: {rating.level}. {sentence}{_without_canaries(rating)}{above}{passed}"


def _passed_all_the_same(decisive: RatingPart, gate: GateResult | None) -> str:
    """Why a gate passed beside a rating of moderate or worse; empty where it limits the decisive figure."""
    if gate is None or gate.outcome != "passed" or decisive.level not in LEVELS[LEVELS.index("moderate") :]:
        return ""
    limited = {(limit.limit_on, limit.fpr) for limit in gate.limits}
    if (_LIMIT_ON.get(decisive.about), decisive.fpr) in limited:
        return ""
    return " The gate passed because it sets no limit on this figure."


def _without_canaries(rating: Rating) -> str:
    """What the rating would be of the audited records alone; empty where the canaries do not raise it."""
    alone = highest([part.level for part in rating.parts if part.about != "canaries"])
    return "" if alone == rating.level else f" Without the canaries, the rating would be {alone}."


def decisive_sentence(part: RatingPart, noun: Noun) -> str:
    """Why a figure reaches its level."""
    if part.about == "gate":
        return "The gate failed, which counts as at least moderate."
    if part.about == "exposed":
        return f"The membership of {part.value or 0:.2%} of the {noun.many} is individually detectable."
    low = f"The {part.what} is at least {shown(part, part.low)}"
    if part.about == "worst":
        low = f"The {part.what.removeprefix('bits of the ')} reveal at least {shown(part, part.low)}"
    if part.level == "none found":
        return f"{low}; low begins at {shown(part, threshold(part, 'low'))}."
    return f"{low}; {part.level} begins at {shown(part, threshold(part, part.level))}."


def rating_rows(results: AuditResults) -> list[list[str]]:
    """One row per figure: its name, value, interval, level, the level of its upper end.

    A gate that did not fail says nothing about the level.
    """
    rows = []
    for part in results.rating.parts:
        if part.about == "gate" and part.level == "none found":
            continue
        value = "" if part.value is None else shown(part, part.value)
        rows.append([part.what, value, interval_of(part), part.level, part.at_most])
    return rows


def interval_of(part: RatingPart) -> str:
    """The interval of a figure as text; empty where it has none."""
    if part.low is None or part.high is None:
        return ""
    return f"{shown(part, part.low)} to {shown(part, part.high)}"


def threshold(part: RatingPart, level: Level) -> float | None:
    """Where a level begins for a figure; None for figures without a scale, and for "none found"."""
    if level not in LEVELS[1:]:
        return None
    if part.about in ("auc", "canaries"):
        return auc_of(level)
    if part.about == "advantage":
        return advantage_of(level)
    if part.about == "tpr" and part.fpr is not None:
        return tpr_of(level, part.fpr)
    return WORST_BITS[level] if part.about == "worst" else None


def _nothing_found(results: AuditResults) -> str:
    """What could have been missed; the attacks on a given model depend on its reference models."""
    missed = f"could have missed {_missed(results)}"
    n_references = results.config.n_references(results.population.models)
    if n_references is None:
        return f"An audit of this size {missed}."
    given, more = f"With {counted(n_references, 'reference model')}", "more reference models"
    if not n_references:
        given, more = "Without reference models", "reference models"
    return (
        f"{given}, these attacks {missed}. This bounds what these attacks detect, not what the model leaks: "
        f"{more} make attacks stronger."
    )


def _missed(results: AuditResults) -> str:
    return enumeration(list(_ends(results)), "or")


def _ends(results: AuditResults) -> Iterator[str]:
    """The upper end of each figure, in words."""
    many = results.config.noun.many
    articles = {"auc": "an AUC", "advantage": "an advantage", "tpr": "a TPR"}
    for part in results.rating.parts:
        if part.about in articles and part.high is not None:
            at = f" at {100 * part.fpr:g}% FPR" if part.fpr is not None else ""
            least = 0.5 if part.about == "auc" else 0.0  # below is worth no more to an attacker than guessing
            yield f"{articles[part.about]} of up to {shown(part, max(part.high, least))}{at}"
        elif part.about == "canaries" and part.high is not None:
            yield f"an AUC of up to {shown(part, part.high)} on canaries"
        elif part.about == "worst" and part.high is not None:
            yield f"up to {shown(part, max(part.high, 0.0))} about the most exposed 1% of {many}"
    exposed = results.exposed
    if exposed is not None and exposed.fewest_detectable > exposed.tested:
        yield f"any number of exposed {many}"
    elif exposed is not None and exposed.reason is not None:
        yield f"fewer than {exposed.fewest_detectable:,} exposed {many}"


def shown(part: RatingPart, value: float | None) -> str:
    """A value of a figure as text."""
    if value is None:
        return "unknown"
    if part.about == "worst":
        return f"{max(value, 0.0):.2f} bits"  # below 0 is noise of the correction for bias
    return f"{value:.3f}" if part.about in ("auc", "canaries") else f"{100 * value:.2g}%"
