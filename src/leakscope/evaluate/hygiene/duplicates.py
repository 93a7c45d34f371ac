"""Duplicates: a non-member that equals a member looks like a member to the model."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.evaluate.hygiene.outcome import Outcome, Status

NAME = "duplicates"
_FAILS_ABOVE = 0.01


def check_duplicates(duplicate_of: IntArray | None, in_mask: BoolArray) -> Outcome:
    """Counts non-members that equal a member in features and label, as a mean share over targets.

    Args:
        duplicate_of: int64 (records,), the first equal record; None: features are not known.
        in_mask: bool (targets, records).
    """
    if duplicate_of is None:
        return Outcome(
            NAME, "not checked", "Duplicates were not searched for: the features of the records are unknown."
        )
    copies, share = n_copies(duplicate_of, in_mask)
    numbers = {"records_with_a_copy": float(copies), "share_of_nonmembers": share}
    if not copies:
        return Outcome(NAME, "ok", "No record is an exact copy of another.", numbers)
    sentence = (
        f"{copies:,} records have an exact copy; {share:.1%} of the non-members equal a member. They count "
        "as non-members although the model was trained on a copy of them. Remove duplicates first."
    )
    if not share:
        sentence = f"{copies:,} records have an exact copy, but no non-member equals a member."
    status: Status = "failed" if share > _FAILS_ABOVE else "warning" if share else "ok"
    return Outcome(NAME, status, sentence, numbers)


def n_copies(duplicate_of: IntArray, in_mask: BoolArray) -> tuple[int, float]:
    """The number of records with a copy, and the mean share of non-members that equal a member."""
    group_size = np.bincount(duplicate_of, minlength=len(duplicate_of))
    has_copy = group_size[duplicate_of] > 1
    if not has_copy.any():
        return 0, 0.0
    shares = []
    for members in in_mask:
        n_members_alike = np.bincount(duplicate_of, weights=members, minlength=len(duplicate_of))
        straddling = ~members & (n_members_alike[duplicate_of] > 0)
        shares.append(straddling.sum() / max((~members).sum(), 1))
    return int(has_copy.sum()), float(np.mean(shares))
