"""A member list that is wrong: stated members that were never trained on look like non-members.

Every model of a population can be attacked by the others. An attack whose score r is a log likelihood ratio
gives each record a belief tanh(r / 2) in (-1, 1) that it was in; a model's *recognition* is the mean belief
of its stated members minus that of the others. Unlike an AUC it gives no weight to the many records nobody
can tell, which halves its noise. When a share w of the stated members was not in training (a hidden
validation split, a list of another run), recognition falls to `(1 - w)` of what the other models show.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks
from leakscope.evaluate.hygiene.outcome import ALARM, Outcome, Status, odd_one

NAME = "members"
_LEAST_OTHERS = 3
_WARNS_FROM, _FAILS_FROM = 0.1, 0.25


class EveryModel(NamedTuple):
    """Log ratios of every model attacked by the others, about all records or some drawn at random.

    Attributes:
        scores: float64 (models, records).
        in_mask: bool (models, records), as stated.
    """

    scores: FloatArray
    in_mask: BoolArray


def check_members(every_model: EveryModel | None, targets: IntArray) -> Outcome:
    """Are a target's stated members less recognisable than those of the other models in turn?

    Args:
        every_model: attacked by the others; None: cannot be.
        targets: model indices in question.
    """
    recognised = np.zeros(0) if every_model is None else recognition(*every_model)
    has_both = ~np.isnan(recognised)
    if has_both.sum() <= _LEAST_OTHERS or not has_both[targets].any():
        why = f"{_LEAST_OTHERS} other models with members and non-members are needed"
        return Outcome(NAME, "not checked", f"The member list was not checked: {why}.")
    found = [_numbers(recognised, int(target), len(targets)) for target in targets[has_both[targets]]]
    numbers = min(found, key=lambda numbers: numbers["p_value"])
    status, sentence = _in_words(numbers)
    return Outcome(NAME, status, sentence, numbers)


def recognition(scores: FloatArray, in_mask: BoolArray) -> FloatArray:
    """Mean belief of members minus that of non-members; float64 (models,), in [-2, 2], NaN without both."""

    def totals(columns: slice) -> FloatArray:
        belief, mask = np.tanh(np.clip(scores[:, columns], -50, 50) / 2), in_mask[:, columns]
        members = np.where(mask, belief, 0).sum(axis=1)
        return np.stack([members, belief.sum(axis=1) - members, mask.sum(axis=1)])

    found = np.sum(over_blocks(in_mask.shape[1], totals, scores, in_mask), axis=0)  # (3, models)
    members, others, n_members = found
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(members / n_members - others / (in_mask.shape[1] - n_members))


def _numbers(recognised: FloatArray, target: int, n_targets: int) -> dict[str, float]:
    others = np.delete(recognised, target)
    others = others[~np.isnan(others)]
    found = odd_one(float(recognised[target]), others)
    alarm_at = -float(special.stdtrit(len(others) - 1, ALARM / n_targets))  # standard errors
    share = 1 - recognised[target] / found.expected if found.expected > 0 else 0.0
    visible = alarm_at * found.standard_error / found.expected if found.expected > 0 else 1.0
    return {
        "target_recognition": float(recognised[target]),
        "others_recognition": found.expected,
        "p_value": min(found.p_lower * n_targets, 1.0),
        "wrong_share": float(np.clip(share, 0, 1)),
        "visible_share": float(min(visible, 1.0)),
    }


def _in_words(numbers: dict[str, float]) -> tuple[Status, str]:
    wrong = numbers["wrong_share"]
    if numbers["p_value"] < ALARM and wrong >= _WARNS_FROM and numbers["visible_share"] < 1:
        sentence = (
            f"About {wrong:.0%} of a target's stated members look as if it never saw them (recognition "
            f"{numbers['target_recognition']:.3f}, the other models' {numbers['others_recognition']:.3f}). "
            "Check who was trained on (a hidden validation split? another run's list?), or whether it was "
            "trained otherwise than they were."
        )
        return ("failed" if wrong >= _FAILS_FROM else "warning"), sentence
    if numbers["visible_share"] >= 1:
        return "not checked", "A wrong member list could not be seen: the models leak too little to tell."
    return "ok", (
        "Members are as recognisable as those of the other models; a list with more than about "
        f"{numbers['visible_share']:.0%} wrong members would have shown."
    )
