"""The most records that can be exposed: an upper bound, which a count of detected records is not.

A record whose membership shows a little looks like one whose membership does not show at all, however many
models there are. So an upper bound needs a degree of exposure: here, the per-record attack is right about the
record for at least `RIGHT_CALLS` of all models, where guessing is right for half of them.

Every record is tested for being exposed to that degree. It is ruled out where so few right calls have a
probability of at most `_MISTAKEN` if it is; the probability is computed for models that decide independently.
Of records that are exposed to that degree, a share of at most `_MISTAKEN` is expected to be ruled out, and by
Markov's inequality more than `_MISTAKEN / (1 - CONFIDENCE)` of them are ruled out with a probability of at
most `1 - CONFIDENCE`. That holds however records depend on each other; they share models, so they do.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from leakscope.array_types import BoolArray, IntArray
from leakscope.stats.per_record import RecordRisk

RIGHT_CALLS = 0.8
CONFIDENCE = 0.99
DEGREE = "the attack is right about them for at least four of five models"
_MISTAKEN = 0.001
_KEPT = 1 - _MISTAKEN / (1 - CONFIDENCE)
"""The share of such records that are not ruled out, at least, with `CONFIDENCE`."""
_WANTED_POWER = 0.95


def most_exposed_share(risk: RecordRisk) -> float:
    """Upper bound on the share of records that are exposed to the degree above, with `CONFIDENCE`."""
    table = risk.table
    is_tested = (table.n_in > 0) & (table.n_out > 0)
    right = np.rint(np.nan_to_num(table.tpr * table.n_in + (1 - table.fpr) * table.n_out))
    is_ruled_out = is_tested & _rules_out(right.astype(np.int64), table.n_in, table.n_out)
    kept_share = float((~is_ruled_out)[risk.kind].mean())
    return min(1.0, kept_share / _KEPT)


def models_to_pass(limit: float, n_records: int) -> int:
    """The smallest even number of models with which records that show nothing pass a limit on the share.

    Half of the models are trained on each record; they pass with a probability of at least 95%.
    """
    allowed = n_records if limit >= 1 else math.floor(limit * n_records * _KEPT + 1e-9)
    n_models = 2
    while scipy.special.bdtr(allowed, n_records, _kept_by_chance(n_models)) < _WANTED_POWER:
        n_models += 2
    return n_models


def _kept_by_chance(n_models: int) -> float:
    """The probability that a record about which every call is a guess is not ruled out."""
    half = np.array([n_models // 2])
    n_ruling_out = int(_rules_out(np.arange(n_models + 1), half, half).sum())
    return float(scipy.special.bdtrc(n_ruling_out - 1, n_models, 0.5)) if n_ruling_out else 1.0


def _rules_out(right: IntArray, n_in: IntArray, n_out: IntArray) -> BoolArray:
    """Whether so few right calls rule out that a record is exposed to the degree above.

    The degree is the mean of the rates of right calls about members and about non-members, which may differ.
    The fewest right calls are expected where those of the rarer side are always right. The left tail of a sum
    of unequal trials is at most that of equal ones with the same expectation (Hoeffding 1956).
    """
    n_models, rarer = n_in + n_out, np.minimum(n_in, n_out)
    rate = (rarer + (2 * RIGHT_CALLS - 1) * (n_models - rarer)) / np.maximum(n_models, 1)
    return np.asarray(scipy.special.bdtr(right, n_models, rate) <= _MISTAKEN)
