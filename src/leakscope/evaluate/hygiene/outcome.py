"""The outcome of a check, and the test that several checks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import scipy

from leakscope.array_types import FloatArray
from leakscope.types import Prose

Status = Literal["ok", "warning", "unreliable", "failed", "not checked"]

ALARM = 0.001
"""Checks raise an alarm below this p-value, corrected for the number of targets."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check.

    Attributes:
        name: name of the check.
        status: "failed": the figures of this audit may measure the fault; "unreliable": they are too noisy to
            conclude anything; "warning": read them with care.
        sentence: the finding as a sentence.
        numbers: the numbers behind the sentence.
        causes: what may have gone wrong where the check failed, the most likely first.
    """

    name: str
    status: Status
    sentence: Prose
    numbers: dict[str, float] = field(default_factory=dict)
    causes: tuple[Prose, ...] = ()


def undermining(checks: Sequence[Outcome]) -> list[Outcome]:
    """The checks after which nothing can be concluded."""
    return [check for check in checks if check.status in ("failed", "unreliable")]


def why_undermined(checks: Sequence[Outcome]) -> str | None:
    """Why nothing can be concluded, with the names of the checks; None where something can.

    Only a check that failed makes the audit inconclusive; unreliable figures are those of too few models, and
    stand beside a warning.
    """
    failed = [check.name for check in checks if check.status == "failed"]
    if failed:
        return f"checks of the audit failed ({', '.join(failed)})"
    unreliable = [check.name for check in undermining(checks)]
    return f"its figures are unreliable ({', '.join(unreliable)})" if unreliable else None


class PredictionTest(NamedTuple):
    """One value against its peers.

    Attributes:
        expected: mean of the peers.
        p_lower: probability that a peer lies as low as the value, or lower.
        p_upper: probability that a peer lies as high as the value, or higher.
        standard_error: of the difference between the value and `expected`.
    """

    expected: float
    p_lower: float
    p_upper: float
    standard_error: float


class UsualSpread(NamedTuple):
    """What is known of a variance beforehand, worth as much as so many more observations.

    Attributes:
        variance: the usual one.
        weight: degrees of freedom.
    """

    variance: float
    weight: int


def prediction_test(
    value: float,
    others: FloatArray,
    sampling_variance: float = 0.0,
    usual: UsualSpread = UsualSpread(0.0, 0),  # noqa: B008
) -> PredictionTest:
    """Student's t prediction test: could `value` come from the same distribution as the others?

    Args:
        value: the value in question.
        others: float (others,), at least 2.
        sampling_variance: variance of `value` itself, a lower bound: where the others happen to agree
            exactly, not every other value is impossible.
        usual: the usual variance, averaged with that of the others (Smyth's moderated t, 2004): that of three
            or four values alone is so uncertain that no test has power.
    """
    n, degrees = len(others), len(others) - 1 + usual.weight
    expected = float(others.mean())
    pooled = ((n - 1) * float(others.var(ddof=1)) + usual.weight * usual.variance) / degrees
    standard_error = float(np.sqrt(max(pooled, sampling_variance) * (1 + 1 / n)))
    if standard_error == 0:
        certain = float(value == expected)
        return PredictionTest(expected, certain, certain, 0.0)
    t = (value - expected) / standard_error
    p_lower, p_upper = float(scipy.special.stdtr(degrees, t)), float(scipy.special.stdtr(degrees, -t))
    return PredictionTest(expected, p_lower, p_upper, standard_error)
