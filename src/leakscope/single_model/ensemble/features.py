"""Ten features of a model's output on one record, and the global likelihood ratio.

Everything is computed from logits with logsumexp, in float64 and without torch; definitions and directions
are those of `leakscope.signals`. The features are highly correlated on purpose: a classifier on all of them
finds combinations that no threshold on one of them can express.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.signals.of_arrays import (
    at_label,
    entropy,
    gradient_proxy,
    log_odds,
    modified_entropy,
    top2_margin,
)
from leakscope.single_model.results import Readings

DEFAULT_READINGS = Readings()
_LEAST_SD = 1e-6  # a density needs a spread, even where all values are equal


@dataclass(frozen=True)
class GlobalLira:
    """Log ratio of two Gaussians of the true-class confidence, the same for every record.

    The likelihood ratio of Carlini et al. (2022) with one pair of densities for all records, fitted on
    records of known membership, because there are no shadow models to fit one pair per record.
    """

    mean_in: float
    sd_in: float
    mean_out: float
    sd_out: float

    @classmethod
    def fit(cls, confidence: FloatArray, is_member: BoolArray) -> GlobalLira:
        """The densities of members and of non-members; there must be at least one of each."""
        (mean_in, sd_in), (mean_out, sd_out) = (
            (float(values.mean()), max(float(values.std()), _LEAST_SD))
            for values in (confidence[is_member], confidence[~is_member])
        )
        return cls(mean_in, sd_in, mean_out, sd_out)

    def score(self, confidence: FloatArray) -> FloatArray:
        """Log density under members minus under non-members; higher means member."""
        log_in = _log_density(confidence, self.mean_in, self.sd_in)
        return log_in - _log_density(confidence, self.mean_out, self.sd_out)


def _log_density(values: FloatArray, mean: float, sd: float) -> FloatArray:
    """Of a Gaussian, without the constant that all of them share."""
    return np.asarray(-(((values - mean) / sd) ** 2) / 2 - np.log(sd))


def features(
    logits: AnyArray, labels: IntArray, readings: Readings = DEFAULT_READINGS
) -> dict[str, FloatArray]:
    """The class probabilities and nine other features by name; float64 (records,) each."""
    z = logits.astype(np.float64)
    p = scipy.special.softmax(z, axis=1)
    odds = log_odds(z, labels)
    of_output = entropy(z)
    wrong = scipy.special.expit(-odds)  # the probability of all wrong classes
    return {
        **{f"prob_{c}": p[:, c] for c in range(p.shape[1])},
        "loss": np.logaddexp(0, -odds),
        "entropy": of_output,
        f"{readings.entropy}_entropy": (
            wrong * of_output if readings.entropy == "adjusted" else modified_entropy(z, labels)
        ),
        "top2_margin": top2_margin(z),
        "true_prob": scipy.special.expit(odds),
        "correct": (z.argmax(axis=1) == labels).astype(np.float64),
        "max_logit": z.max(axis=1),
        "true_logit": at_label(z, labels),
        "gradient_proxy": wrong if readings.gradient == "true_logit" else gradient_proxy(z, labels),
    }


def confidence(logits: AnyArray, labels: IntArray, readings: Readings = DEFAULT_READINGS) -> FloatArray:
    """What the densities of the global likelihood ratio are fitted to; float64 (records,)."""
    odds = log_odds(logits, labels)
    return np.asarray(scipy.special.expit(odds)) if readings.confidence == "probability" else odds
