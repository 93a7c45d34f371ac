"""Ten features of a model's output on one record, and the global likelihood ratio.

Everything is computed from logits with logsumexp, in float64 and without torch; definitions and directions
are those of `leakscope.signals`. The features are highly correlated on purpose: a classifier on all of them
finds combinations that no threshold on one of them can express.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
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
        log_in = stats.norm.logpdf(confidence, self.mean_in, self.sd_in)
        return np.asarray(log_in - stats.norm.logpdf(confidence, self.mean_out, self.sd_out))


def features(
    logits: AnyArray, labels: IntArray, readings: Readings = DEFAULT_READINGS
) -> dict[str, FloatArray]:
    """The class probabilities and nine other features by name; float64 (records,) each."""
    z = logits.astype(np.float64)
    p = special.softmax(z, axis=1)
    odds = log_odds(z, labels)
    second, first = np.sort(p, axis=1)[:, -2:].T
    entropy = special.entr(p).sum(axis=1)
    wrong = special.expit(-odds)  # the probability of all wrong classes
    return {
        **{f"prob_{c}": p[:, c] for c in range(p.shape[1])},
        "loss": np.logaddexp(0, -odds),
        "entropy": entropy,
        f"{readings.entropy}_entropy": (
            wrong * entropy if readings.entropy == "adjusted" else modified_entropy(z, labels)
        ),
        "top2_margin": first - second,
        "true_prob": special.expit(odds),
        "correct": (z.argmax(axis=1) == labels).astype(np.float64),
        "max_logit": z.max(axis=1),
        "true_logit": _at_label(z, labels),
        "gradient_proxy": wrong if readings.gradient == "true_logit" else gradient_proxy(z, labels),
    }


def confidence(logits: AnyArray, labels: IntArray, readings: Readings = DEFAULT_READINGS) -> FloatArray:
    """What the densities of the global likelihood ratio are fitted to; float64 (records,)."""
    odds = log_odds(logits, labels)
    return np.asarray(special.expit(odds)) if readings.confidence == "probability" else odds


def log_odds(logits: AnyArray, labels: IntArray) -> FloatArray:
    """Logit-scaled true-class confidence `z_y - logsumexp(z without y)`; float64 (records,)."""
    z = logits.astype(np.float64)
    return np.asarray(_at_label(z, labels) - special.logsumexp(_without_label(z, labels), axis=1))


def modified_entropy(logits: FloatArray, labels: IntArray) -> FloatArray:
    """Song and Mittal (2021): `-(1-p_y) log p_y - sum_{c != y} p_c log(1-p_c)`, in nats."""
    odds = log_odds(logits, labels)
    p = special.softmax(logits, axis=1)
    wrong = np.where(_is_label(logits, labels), 0.0, p * _log_one_minus(logits)).sum(axis=1)
    return np.asarray(special.expit(-odds) * np.logaddexp(0, -odds) - wrong)


def gradient_proxy(logits: FloatArray, labels: IntArray) -> FloatArray:
    """Norm of the loss gradient at the logits, `||softmax(z) - onehot(y)||`."""
    p = special.softmax(logits, axis=1)
    others = np.where(_is_label(logits, labels), 0.0, p)
    return np.asarray(np.hypot(np.linalg.norm(others, axis=1), special.expit(-log_odds(logits, labels))))


def _log_one_minus(logits: FloatArray) -> FloatArray:
    """log(1 - p_c) for each class; the largest p, which may round to 1, through the other logits."""
    top = logits.argmax(axis=1)
    others = special.logsumexp(_without_label(logits, top), axis=1)
    log_not_top = others - special.logsumexp(logits, axis=1)
    is_top = _is_label(logits, top)
    p = np.where(is_top, 0.0, special.softmax(logits, axis=1))
    return np.where(is_top, log_not_top[:, None], np.log1p(-p))


def _at_label(values: FloatArray, labels: IntArray) -> FloatArray:
    return np.asarray(np.take_along_axis(values, labels[:, None], axis=1)[:, 0])


def _is_label(logits: FloatArray, labels: IntArray) -> BoolArray:
    """bool (records, classes), true at each record's label."""
    return np.asarray(np.arange(logits.shape[1]) == labels[:, None])


def _without_label(logits: FloatArray, labels: IntArray) -> FloatArray:
    return np.where(_is_label(logits, labels), -np.inf, logits)
