"""Near copies: a document whose wording a model saw in another document is hardly a non-member."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.data.near_copies import LEAST_SIMILARITY, WORDS
from leakscope.evaluate.hygiene.duplicates import n_copies
from leakscope.evaluate.hygiene.outcome import Outcome, Status

NAME = "near copies"
_WARNS_ABOVE = 0.01
_NUMERALS = {2: "two", 3: "three", 4: "four", 5: "five"}


def check_near_copies(near_copies: IntArray, in_mask: BoolArray) -> Outcome:
    """Counts documents with a near copy, and non-members with one among the members.

    A warning, not a failure: the stated membership is right, but what it means changes.

    Args:
        near_copies: int64 (records,), equal numbers for documents that are nearly the same.
        in_mask: bool (targets, records).
    """
    group = np.unique(near_copies, return_inverse=True)[1]
    number, share = n_copies(group, in_mask)
    n_models = sum(_crosses(group, members) for members in in_mask)
    numbers = {
        "records_with_a_near_copy": float(number),
        "models_with_copies_on_both_sides": float(n_models),
        "share_of_nonmembers": share,
    }
    if not number:
        return Outcome(NAME, "ok", f"No document is a near copy of another ({_definition()}).", numbers)
    status: Status = "warning" if share > _WARNS_ABOVE else "ok"
    begin = f"{number:,} of {len(group):,} documents have a near copy ({_definition()})"
    if not n_models:
        sentence = (
            f"{begin}, and in no model are copies on both sides of the line between members and others."
        )
        return Outcome(NAME, status, sentence, numbers)
    models = "the model" if len(in_mask) == 1 else f"{n_models:,} of {len(in_mask):,} models"
    sentence = (
        f"{begin}. In {models}, a near copy of a member is a non-member: {share:.1%} of the non-members. "
        "Their exact wording was left out, but not their content: membership means the wording, and attacks "
        "look weaker than they are. Remove near copies, or give them one group and set population.unit to it."
    )
    return Outcome(NAME, status, sentence, numbers)


def _definition() -> str:
    words = _NUMERALS.get(WORDS, str(WORDS))
    return f"at least {LEAST_SIMILARITY:.0%} of their {words}-word sequences are the same"


def _crosses(group: IntArray, members: BoolArray) -> bool:
    """Whether a document is a member and a near copy of it is not."""
    n_members = np.bincount(group, weights=members)
    return bool(((n_members > 0) & (n_members < np.bincount(group))).any())
