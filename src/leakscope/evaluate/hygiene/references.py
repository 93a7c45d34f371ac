"""References of one target: whom they were trained on, and on how many records.

A score compares the target's output on a record with those of reference models trained with the record and
without it. If the references were trained on the target's non-members only, these counts alone reveal who is
a member, and the attack measures the design of the audit. If the references were trained on many more records
than the target, or many fewer, they do not behave like it.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import BoolArray
from leakscope.disk.scratch import over_blocks
from leakscope.evaluate.hygiene.outcome import Outcome, Status

OVERLAP, SIZE = "overlap", "size"
_WARNS_FROM, _FAILS_FROM = 0.1, 0.25
_STANDARD_ERRORS = 4
_WARNS_RATIO, _FAILS_RATIO = 1.2, 1.5


def check_overlap(in_mask: BoolArray, target: int) -> Outcome:
    """Compares how many references were trained on the target's members and on its non-members.

    Args:
        in_mask: bool (models, records).
        target: index of the target.
    """
    in_share = _in_share(in_mask, target)
    is_member = np.array(in_mask[target])
    members, nonmembers = in_share[is_member], in_share[~is_member]
    difference = float(members.mean() - nonmembers.mean())
    standard_error = float(np.sqrt(members.var() / len(members) + nonmembers.var() / len(nonmembers)))
    numbers = {"of_members": float(members.mean()), "of_nonmembers": float(nonmembers.mean())}
    if abs(difference) < max(_WARNS_FROM, _STANDARD_ERRORS * standard_error):
        sentence = "The reference models were trained on members and non-members of the target alike."
        return Outcome(OVERLAP, "ok", sentence, numbers)
    sentence = (
        f"The reference models were trained on {members.mean():.0%} of the target's members and on "
        f"{nonmembers.mean():.0%} of its non-members, on average. This alone reveals who is a member, so the "
        "figures measure the choice of references. Train each reference on a random part of all records, or "
        "on none of them."
    )
    return Outcome(OVERLAP, "failed" if abs(difference) >= _FAILS_FROM else "warning", sentence, numbers)


def check_size(in_mask: BoolArray, target: int) -> Outcome:
    """Compares the number of members of the target and of its references.

    Args:
        in_mask: bool (models, records).
        target: index of the target.
    """
    n_members = np.array(in_mask.sum(axis=1))
    own, others = float(n_members[target]), float(np.delete(n_members, target).mean())
    numbers = {"target": own, "references": others}
    if others == 0:
        sentence = "Sizes were not compared: the references were trained on none of the records."
        return Outcome(SIZE, "not checked", sentence, numbers)
    ratio = max(own / others, others / own)
    if ratio < _WARNS_RATIO:
        return Outcome(
            SIZE, "ok", "The target and its references have training sets of similar size.", numbers
        )
    sentence = (
        f"The target was trained on {own:,.0f} of these records, its reference models on {others:,.0f} on "
        "average. A model trained on more records reveals less about each, so they are poor references. "
        "Train them on as many records as the target; where it was trained on nearly all records, or on few, "
        "this takes more references."
    )
    status: Status = "failed" if ratio >= _FAILS_RATIO else "warning"
    return Outcome(SIZE, status, sentence, numbers)


def _in_share(in_mask: BoolArray, target: int) -> np.ndarray:
    """Share of the references trained on each record; float64 (records,)."""
    in_share = np.empty(in_mask.shape[1])

    def fill(columns: slice) -> None:
        block = in_mask[:, columns]
        in_share[columns] = (block.sum(axis=0) - block[target]) / (len(in_mask) - 1)

    over_blocks(in_mask.shape[1], fill, in_mask)
    return in_share
