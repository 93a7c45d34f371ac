"""What a check found, and the test that several of them share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from leakscope.array_types import FloatArray

Status = Literal["ok", "warning", "failed", "not checked"]

ALARM = 0.001
"""p-value, corrected for the number of targets, below which chance is ruled out."""


@dataclass(frozen=True)
class Outcome:
    """One check.

    Attributes:
        name: of the check.
        status: "failed": figures of this audit may measure the fault; "warning": read them with care.
        sentence: what was found, in words.
        numbers: what the sentence rests on.
    """

    name: str
    status: Status
    sentence: str
    numbers: dict[str, float] = field(default_factory=dict)


class OddOne(NamedTuple):
    """One value against its peers: their mean, and the p-value of lying this far off, by side."""

    expected: float
    p_lower: float
    p_upper: float
    standard_error: float


def odd_one(value: float, others: FloatArray, sampling_variance: float = 0.0) -> OddOne:
    """Student's t prediction test: could `value` be one more draw of what the others are?

    Args:
        value: of the one in question.
        others: float (others,), at least 2.
        sampling_variance: of `value` itself, a floor: peers that happen to agree exactly do not make every
            other value impossible.
    """
    n = len(others)
    expected = float(others.mean())
    standard_error = float(np.sqrt(max(others.var(ddof=1), sampling_variance) * (1 + 1 / n)))
    if standard_error == 0:
        certain = float(value == expected)
        return OddOne(expected, certain, certain, 0.0)
    t = (value - expected) / standard_error
    return OddOne(expected, float(special.stdtr(n - 1, t)), float(special.stdtr(n - 1, -t)), standard_error)
