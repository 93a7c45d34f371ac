"""The rating in sentences: the word, what it rests on, and what could have been missed."""

from __future__ import annotations

from collections.abc import Iterator

from leakscope.evaluate.gate import GateResult
from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.levels import LEVELS, advantage_of, auc_of, tpr_of
from leakscope.evaluate.nouns import Noun
from leakscope.evaluate.rating import WORST_BITS, highest
from leakscope.evaluate.rating_results import Level, Rating, RatingPart
from leakscope.evaluate.results import AuditResults
from leakscope.report.phrases import counted, enumeration

RULE_OF_AUC = (
    "An AUC counts as low only if an interval a fifth wider than its own lies above 0.5, because one of "
    "several figures may lie above chance by luck."
)
_CHANCE = {"auc": 0.5, "canaries": 0.5, "advantage": 0.0, "worst": 0.0}
"""What guessing achieves; of a TPR, it is the FPR."""
_MOST_MORE = 2
_LIMIT_ON = {"auc": "max_auc", "advantage": "max_advantage", "tpr": "max_tpr", "exposed": "max_exposed_share"}
"""What a part of the rating is about -> the limit on that figure."""


def rating_sentence(results: AuditResults) -> str:
    """The rating and its decisive figure, or what an audit without findings could have missed."""
    rating = results.rating
    if rating.reason is not None:
        return f"Rating: inconclusive, because {rating.reason}.{_too_little(results)}"
    if rating.level == "none found":
        return f"Rating: none found.{_too_little(results)} {_nothing_found(results)}"
    decisive = next(part for part in rating.parts if part.level == rating.level)
    above = f" The intervals reach up to {rating.at_most}." if rating.at_most != rating.level else ""
    sentence = decisive_sentence(decisive, results.config.noun)
    passed = _passed_all_the_same(decisive, results.gate)
    return f"Rating: {rating.level}. {sentence}{_without_canaries(rating)}{above}{passed}"


def above_chance(results: AuditResults) -> list[str]:
    """Figures that reach no level though their intervals, as printed, lie above chance; with lower ends."""
    if undermining(results.hygiene):
        return []
    parts = [part for part in results.rating.parts if part.level == "none found" and part.low is not None]
    ends = [
        f"{part.what} at least {shown(part, part.low)}"
        for part in parts
        if (chance := _CHANCE.get(part.about, part.fpr)) is not None
        if (part.low or 0.0) > chance and shown(part, part.low) != shown(part, chance)
    ]
    checkpoints = () if results.is_of_one_model else results.leakage.checkpoints
    bits = f"{checkpoints[-1].bits.low or 0:.3f}" if checkpoints else "0"
    return [*ends, f"bits per {results.config.noun.one} at least {bits}"] if float(bits) > 0 else ends


def _too_little(results: AuditResults) -> str:
    """Why intervals above chance do not count; empty where none lies there."""
    if not (above := above_chance(results)):
        return ""
    lie = "One interval lies" if len(above) == 1 else "Some intervals lie"
    return f" {lie} above chance, but too little to count: {enumeration(above)}.{rule_of_auc(results)}"


def rule_of_auc(results: AuditResults) -> str:
    """What decides the level of an AUC beside its lower end, after a space; empty where that decides."""
    return f" {RULE_OF_AUC}" if any(name.startswith("AUC") for name in above_chance(results)) else ""


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
    level: Level = "low" if part.level == "none found" else part.level
    least, begins = _apart(part, part.low, threshold(part, level))
    what = f"The {part.what} is"
    if part.about == "worst":
        what = f"The {part.what.removeprefix('bits of the ')} reveal"
    return f"{what} at least {least}; {level} begins at {begins}."


def _apart(part: RatingPart, value: float | None, other: float | None) -> tuple[str, str]:
    """Two values of a figure, with up to two more digits than usual where they would read the same."""
    pairs = ((shown(part, value, more), shown(part, other, more)) for more in range(_MOST_MORE + 1))
    return next((pair for pair in pairs if pair[0] != pair[1]), (shown(part, value), shown(part, other)))


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
    """The interval of a figure as text, both ends with as many decimals; empty where it has none."""
    if part.low is None or part.high is None:
        return ""
    ends = shown(part, part.low), shown(part, part.high)
    if not ends[0].endswith("%"):
        return " to ".join(ends)
    decimals = max(len(end.partition(".")[2].rstrip("%")) for end in ends)
    return f"{100 * part.low:.{decimals}f}% to {100 * part.high:.{decimals}f}%"


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


def shown(part: RatingPart, value: float | None, more: int = 0) -> str:
    """A value of a figure as text, with so many digits more than usual."""
    if value is None:
        return "unknown"
    if part.about == "worst":
        return f"{max(value, 0.0):.{2 + more}f} bits"  # below 0 is noise of the correction for bias
    if part.about in ("auc", "canaries"):
        return f"{value:.{3 + more}f}"
    return f"{_rounded(100 * value, 2 + more):.10g}%"


def _rounded(percent: float, digits: int) -> float:
    """So many significant digits; beyond 99 so many decimals, for 99.6 is not 100."""
    return round(percent, digits) if percent > 99 else float(f"{percent:.{digits}g}")
