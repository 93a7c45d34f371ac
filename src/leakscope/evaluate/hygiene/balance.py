"""Balance: enough members and non-members, and enough reference models with and without each record."""

from __future__ import annotations

from leakscope.array_types import BoolArray
from leakscope.evaluate.hygiene.outcome import Outcome, Status
from leakscope.evaluate.nouns import RECORD, Noun
from leakscope.report.phrases import counted

NAME = "balance"
_LEAST_RECORDS, _FEW_RECORDS = 10, 100
_LEAST_MODELS = 2
_WARNS_ABOVE = 0.05


def _smaller_side(n_least: int, n_targets: int, noun: Noun) -> str:
    target = "Every target" if n_targets > 1 else "The target"
    if noun == RECORD:
        return f"{target} has at least {counted(n_least, 'member')} and {counted(n_least, 'non-member')}"
    return f"{target} was trained on at least {noun.counted(n_least)}, and at least as many were left out"


def check_balance(target_mask: BoolArray, reference_mask: BoolArray, noun: Noun = RECORD) -> Outcome:
    """Counts members and non-members, and the models trained with and without each record.

    Args:
        target_mask: bool (targets, records).
        reference_mask: bool (references, records); may have no rows.
        noun: what members are.
    """
    n_members = target_mask.sum(axis=1)
    n_least = int(min(n_members.min(), (target_mask.shape[1] - n_members).min()))
    n_in = reference_mask.sum(axis=0)
    is_thin = (n_in < _LEAST_MODELS) | (len(reference_mask) - n_in < _LEAST_MODELS)
    thin_share = float(is_thin.mean()) if len(reference_mask) else 0.0
    status: Status = "ok"
    if n_least < _FEW_RECORDS or thin_share > _WARNS_ABOVE:
        status = "failed" if n_least < _LEAST_RECORDS else "warning"
    sentence = _smaller_side(n_least, len(target_mask), noun)
    if n_least < _FEW_RECORDS:
        sentence += f"; fewer than {_FEW_RECORDS} give wide intervals"
    if thin_share > 0:
        share = f"{thin_share:.1%}" if thin_share >= 0.001 else "less than 0.1%"
        sentence += (
            f"; {share} of the {noun.many} have fewer than {_LEAST_MODELS} models trained with "
            "them, or without them"
        )
    return Outcome(NAME, status, f"{sentence}.", {"smaller_side": n_least, "thin_share": thin_share})
