"""Whose coins a test of a claim may guess: independent and fair, and unknown to whoever guesses.

A model's memberships are such coins in a "bernoulli" design. In a "balanced" design they are not: a record
is in exactly half of the models, so the other models' memberships give the target's away, and a model without
the record has another record in its place, so that two models differ by two records and not by one. A
training that keeps its promise could be refuted.

Where somebody else drew the members of one model, we suppose that every choice of as many members was equally
likely. Given their number, such members are fair coins that happened to give this number. An event is then at
most `1 / P(number)` times as likely as with fair coins, and the error of a bound is divided by that.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.errors import InputError
from leakscope.types import Design

_FEWEST_TO_TELL, _FEWEST_TO_COMPARE = 8, 16
_RAREST = 1e-6
"""Independent fair coins are refused as rarely as this, for each reason."""
_LARGEST_Z = 5.0
"""References that are independent of the target's members exceed this in one of two million audits."""


def check_coins(design: Design) -> None:
    """Refuses a population whose memberships are not independent fair coins.

    Raises:
        InputError: records are in equally many models, or models have equally many records, or either vary
            less or more than coins do; or two records go together in all models.
    """
    is_in = design.in_mask
    reasons = [
        _why_no_coins(is_in.sum(axis=0), design.n_models, "records are in", "models"),
        _why_no_coins(is_in.sum(axis=1), design.n_records, "models have", "records"),
        _why_records_are_tied(is_in),
    ]
    for reason in filter(None, reasons):
        raise InputError(
            f"claim: {reason}, so memberships are no independent coins; train the models with "
            'design = "bernoulli"'
        )


def _why_no_coins(counts: IntArray, n_coins: int, what: str, counted: str) -> str:
    """Why these are no numbers of heads among so many fair coins; empty if they may be."""
    from scipy import stats  # slow to import

    if len(counts) < _FEWEST_TO_TELL:
        return ""
    if n_coins > 1 and (counts == counts[0]).all():
        return f"all {what} equally many {counted}"
    if min(len(counts), n_coins) < _FEWEST_TO_COMPARE:
        return ""
    square = 4 / n_coins * float(((counts - n_coins / 2) ** 2).sum())
    if stats.chi2.cdf(square, len(counts)) < _RAREST:
        return f"{what} more equally many {counted} than by chance"
    if stats.chi2.sf(square, len(counts)) < _RAREST:
        return f"{what} numbers of {counted} that differ more than by chance"
    return ""


def _why_records_are_tied(is_in: BoolArray) -> str:
    """Which records have the same or opposite coins in all models; empty: none, or too few models to tell."""
    n_models, n_records = is_in.shape
    if n_records**2 * 2.0**-n_models > _RAREST:
        return ""
    alike = np.packbits(is_in ^ is_in[:1], axis=0)  # opposite columns become equal
    _, first, counts = np.unique(alike, axis=1, return_index=True, return_counts=True)
    tied = np.flatnonzero(counts > 1)
    return f"record {first[tied[0]]} is tied to another one in all models" if len(tied) else ""


def check_references(references: BoolArray, is_member: BoolArray) -> None:
    """Refuses reference models that give the target's members away.

    Args:
        references: bool (references, records), their training sets.
        is_member: bool (records,), the target's.

    Raises:
        InputError: the number of references trained on a record says whether the target was.
    """
    n_in = references.sum(axis=0).astype(np.float64)
    if n_in.std() == 0 or is_member.all() or not is_member.any():
        return
    z = float(np.corrcoef(n_in, is_member)[0, 1]) * np.sqrt(len(is_member))
    if abs(z) > _LARGEST_Z:
        raise InputError(
            "claim: the training sets of the reference models depend on the target's (its members are in "
            f"{'more' if z > 0 else 'fewer'} of them); "
            "a claim needs references whose training sets were drawn independently"
        )


def balanced_records(is_member: BoolArray) -> IntArray:
    """As many members as non-members, at random from the larger side; int64 (records,), ascending."""
    sides = [np.flatnonzero(is_member), np.flatnonzero(~is_member)]
    n_each, rng = min(map(len, sides)), np.random.default_rng(0)
    return np.sort(np.concatenate([rng.choice(side, n_each, replace=False) for side in sides]))


def probability_of_size(is_in: BoolArray) -> float:
    """The probability that fair coins give as many members as there are."""
    from scipy import stats  # slow to import

    return float(stats.binom.pmf(int(is_in.sum()), is_in.size, 0.5))
