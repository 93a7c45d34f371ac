"""Near-empty sides: too few members or non-members to judge, or records with too few models to compare."""

from __future__ import annotations

from leakscope.array_types import BoolArray
from leakscope.evaluate.hygiene.outcome import Outcome, Status

NAME = "sides"
_LEAST_ON_SIDE, _FEW_ON_SIDE = 10, 100
_LEAST_MODELS = 2
_THIN_SHARE = 0.05


def check_sides(target_mask: BoolArray, reference_mask: BoolArray) -> Outcome:
    """Counts of members and non-members, and of reference models on each side of a record.

    Args:
        target_mask: bool (targets, records).
        reference_mask: bool (references, records); may have no rows.
    """
    n_members = target_mask.sum(axis=1)
    n_least = int(min(n_members.min(), (target_mask.shape[1] - n_members).min()))
    n_in = reference_mask.sum(axis=0)
    is_thin = (n_in < _LEAST_MODELS) | (len(reference_mask) - n_in < _LEAST_MODELS)
    thin_share = float(is_thin.mean()) if len(reference_mask) else 0.0
    status: Status = "ok"
    if n_least < _FEW_ON_SIDE or thin_share > _THIN_SHARE:
        status = "failed" if n_least < _LEAST_ON_SIDE else "warning"
    sentence = f"The smaller side has {n_least:,} records"
    if n_least < _FEW_ON_SIDE:
        sentence += f"; below {_FEW_ON_SIDE} little can be resolved"
    if len(reference_mask):
        sentence += f"; {thin_share:.1%} of the records have fewer than {_LEAST_MODELS} models on a side"
    return Outcome(NAME, status, f"{sentence}.", {"smaller_side": n_least, "thin_share": thin_share})
