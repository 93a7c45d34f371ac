"""The Gaussian mechanism: how much noise makes a release (epsilon, delta)-differentially private.

The classical calibration is `sigma = sqrt(2 ln(1.25/delta)) Delta / epsilon` (Dwork and Roth 2014, Theorem
A.1), proved for epsilon below 1 only. The analytic one (Balle and Wang 2018) is tight at any epsilon: the
smallest sigma whose exact delta is small enough.
"""

from __future__ import annotations

import numpy as np

from leakscope.errors import InputError
from leakscope.stats.gdp import gdp_delta

_RELATIVE = 1e-12


def classical_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Standard deviation of the noise by the classical rule; epsilon in (0, 1), where it is proved."""
    _check(epsilon, delta, sensitivity)
    if epsilon >= 1:
        raise InputError(f"epsilon={epsilon}: the classical rule holds below 1; use analytic_sigma")
    return float(np.sqrt(2 * np.log(1.25 / delta)) * sensitivity / epsilon)


def analytic_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Smallest standard deviation that is (epsilon, delta)-private, to 1e-12 (relative), rounded up."""
    _check(epsilon, delta, sensitivity)
    low = high = sensitivity
    while delta_of(high, epsilon, sensitivity) > delta:
        high *= 2
    while delta_of(low, epsilon, sensitivity) <= delta:
        low /= 2
    while high - low > _RELATIVE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle, epsilon, sensitivity) <= delta else (middle, high)
    return high


def delta_of(sigma: float, epsilon: float, sensitivity: float) -> float:
    """The exact delta of this noise at epsilon: that of a (sensitivity / sigma)-GDP mechanism."""
    if not sigma > 0 or not epsilon >= 0 or not sensitivity > 0:
        given = f"sigma={sigma}, epsilon={epsilon}, sensitivity={sensitivity}"
        raise InputError(f"{given}: sigma and sensitivity must be above 0, epsilon 0 or more")
    return gdp_delta(sensitivity / sigma, epsilon)


def _check(epsilon: float, delta: float, sensitivity: float) -> None:
    if not (epsilon > 0 and 0 < delta < 1 and sensitivity > 0 and np.isfinite([epsilon, sensitivity]).all()):
        given = f"epsilon={epsilon}, delta={delta}, sensitivity={sensitivity}"
        raise InputError(f"{given}: epsilon and sensitivity must be above 0, delta between 0 and 1")
