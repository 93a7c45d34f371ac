"""Exposed records, and how many models it takes to detect them.

A record is tested with Fisher's exact test over the targets trained with it and without it. If every target
is right about it, the p-value is one over the number of ways to choose `n_in` of all targets. That is the
smallest there is: 1/70 for 8 models. Benjamini and Hochberg's procedure lists k of n records only if their
p-values are at most q k / n, so few models cannot detect few records, however exposed these are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.evaluate.exposed_share import most_exposed_share
from leakscope.evaluate.nouns import RECORD, Noun
from leakscope.evaluate.results import ExposedRecords
from leakscope.stats.per_record import RecordRisk

FALSE_DISCOVERY_RATE = 0.05


def exposed_records(risk: RecordRisk, decision: str, noun: Noun) -> ExposedRecords:
    """The records that are exposed, or why they cannot be counted."""
    exposed = risk.exposed(FALSE_DISCOVERY_RATE)
    n_in, n_out = risk.column("n_in"), risk.column("n_out")
    is_tested = (n_in > 0) & (n_out > 0)
    n_tested = int(is_tested.sum())
    # The typical record: with a Bernoulli design, each has its own counts.
    p_value = float(np.median(smallest_p_value(n_in[is_tested], n_out[is_tested]))) if n_tested else 1.0
    fewest, reason = _detectable(p_value, int((n_in + n_out).max()), n_tested, noun)
    is_known = reason is None or bool(exposed.any())
    return ExposedRecords(
        records=int(exposed.sum()) if is_known else None,
        share=float(exposed.mean()) if is_known else None,
        at_most=most_exposed_share(risk),
        false_discovery_rate=FALSE_DISCOVERY_RATE,
        decision=decision,
        tested=n_tested,
        fewest_detectable=fewest,
        reason=reason,
    )


class ExposureFlags(NamedTuple):
    """Whether each record is exposed; bool (records,) each.

    Attributes:
        exposed: listed at the false discovery rate.
        resolved: whether the targets can tell. A record that is not resolved would not join the list even if
            every target were right about it, so its absence means nothing.
    """

    exposed: BoolArray
    resolved: BoolArray


def exposure_flags(risk: RecordRisk) -> ExposureFlags:
    """The exposed records, and the records of which that can be known."""
    exposed = risk.exposed(FALSE_DISCOVERY_RATE)
    n_in, n_out = risk.table.n_in, risk.table.n_out
    is_tested = (n_in > 0) & (n_out > 0)
    n_tested = int(is_tested[risk.kind].sum())
    needed = smallest_p_value(n_in, n_out) * n_tested / FALSE_DISCOVERY_RATE  # on the list, this one included
    is_resolved = is_tested & (needed <= int(exposed.sum()) + 1 + 1e-9)
    return ExposureFlags(exposed, exposed | is_resolved[risk.kind])


class Detectable(NamedTuple):
    """What a number of models can detect.

    Attributes:
        fewest: fewer exposed records than this cannot be detected.
        reason: what cannot be detected, in words; None where a single exposed record can.
    """

    fewest: int
    reason: str | None


def detectable_records(n_models: int, n_records: int) -> Detectable:
    """What so many models can detect when half of them are trained on each record."""
    half = np.array([n_models // 2])
    return _detectable(float(smallest_p_value(half, n_models - half)[0]), n_models, n_records, RECORD)


def models_needed(n_records: int) -> int:
    """The smallest even number of models that can detect a single exposed record among so many."""
    n_models = 2
    while math.comb(n_models, n_models // 2) * FALSE_DISCOVERY_RATE < n_records:
        n_models += 2
    return n_models


def smallest_p_value(n_in: IntArray, n_out: IntArray) -> FloatArray:
    """Fisher's p-value of records about which every target is right."""
    return np.asarray(1 / scipy.special.binom(n_in + n_out, n_in))


def _detectable(p_value: float, n_models: int, n_tested: int, noun: Noun) -> Detectable:
    fewest = max(1, math.ceil(p_value * n_tested / FALSE_DISCOVERY_RATE - 1e-9))
    return Detectable(fewest, None if fewest == 1 else _reason(n_models, n_tested, fewest, noun))


def _reason(n_models: int, n_tested: int, fewest: int, noun: Noun) -> str:
    undetectable = f"fewer than {fewest:,} exposed {noun.many} among {n_tested:,} cannot be detected"
    if fewest > n_tested:
        undetectable = f"no {noun.one} can be detected, however exposed it is"
    enough = f"it takes {models_needed(n_tested)} models to detect a single one"
    return f"not resolvable with {n_models} models: {undetectable}; {enough}"
