"""How well a model's output fits a record's label: one number per model and record, higher for members.

For a classifier these are the log-odds of the label, and for a document those of its mean token. An attack on
another signal reads that one in standard deviations from its mean over all models and records, which takes
the place of log-odds. A regression model gives no probability, so one is
assumed: the label is the output plus noise from Student's t distribution with 2 degrees of freedom. Heavy
tails fit labels with outliers, and cost little where the noise is Gaussian (docs/regression.md has figures).
The density is relative to its maximum, hence between 0 and 1, and 1 for a perfect prediction.

The scale of the noise is that of out-of-sample residuals, estimated without regard to who is a member, which
is what an attack infers: the 90th percentile of all absolute residuals. Members' residuals are the smaller
ones, so they hardly affect it. It is the same for all models, so a smaller residual always has a higher
density.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.blocks import Block, Blocks
from leakscope.signals.registry import QUERY_LOG_ODDS, members_have_low

CLASSIFIER, REGRESSION = "log_odds", "scaled_residual"
_DEGREES = 2.0
_SHARE, _NORMAL_QUANTILE = 0.9, 1.645  # the absolute value of a standard normal variable is below it in 90%
_STEPS = 128  # counted per factor of 2: the scale is exact to half a percent
_SMALLEST, _LARGEST = -30, 10  # powers of 2 of scaled residuals


@dataclass(frozen=True)
class LabelFit:
    """The fit of labels to the outputs of a population.

    Attributes:
        noise_scale: of regression models, in the unit of scaled residuals; None: it is not assumed.
        name: of the signal that is read where no scale is assumed.
        centre: is subtracted from the signal.
        size: divides it; negative where members have low values.
    """

    noise_scale: float | None
    name: str = CLASSIFIER
    centre: float = 0.0
    size: float = 1.0

    @classmethod
    def to(cls, blocks: Blocks) -> LabelFit:
        """The fit for the models of these blocks."""
        if REGRESSION in blocks.needs:
            return cls(_noise_scale(blocks))
        if QUERY_LOG_ODDS in blocks.needs or CLASSIFIER in blocks.needs:
            return cls(None)
        centre, spread = _centre_and_spread(blocks)
        return cls(None, blocks.needs[0], centre, -spread if members_have_low(blocks.needs[0]) else spread)

    def of(self, block: Block) -> FloatArray:
        """Log-odds, or log-densities, of the labels, the mean over queries; float64 (models, records)."""
        if QUERY_LOG_ODDS in block.arrays:
            return np.asarray(block.arrays[QUERY_LOG_ODDS][:, -1].mean(axis=-1, dtype=np.float64))
        if self.noise_scale is None:
            return (block.signal(self.name) - self.centre) / self.size
        ratio = np.sinh(block.signal(REGRESSION)) / self.noise_scale
        return np.asarray(-(_DEGREES + 1) / 2 * np.log1p(ratio**2 / _DEGREES))

    def probability(self, block: Block, temperature: float) -> FloatArray:
        """The label's probability, or its relative density; what gives it is divided by the temperature."""
        values = self.of(block) / temperature
        return np.asarray(np.exp(values if self.noise_scale is not None else -np.logaddexp(0.0, -values)))


def _centre_and_spread(blocks: Blocks) -> tuple[float, float]:
    """Mean and standard deviation of the signal over all models and records; 1 where all values are equal."""
    name = blocks.needs[0]

    def sums(block: Block) -> FloatArray:
        values = block.signal(name)
        return np.array([values.size, values.sum(), (values**2).sum()])

    n, total, squares = np.sum(blocks.map(sums), axis=0)
    centre = float(total / n)
    return centre, float(np.sqrt(max(squares / n - centre**2, 0.0))) or 1.0


def _noise_scale(blocks: Blocks) -> float:
    """From counts of residuals by size, which do not depend on the order of models and records."""
    counts = np.sum(blocks.map(_counts), axis=0)
    at = int(np.searchsorted(np.cumsum(counts), _SHARE * counts.sum()))
    return float(np.sinh(2.0 ** (_SMALLEST + (at + 0.5) / _STEPS)) / _NORMAL_QUANTILE)


def _counts(block: Block) -> IntArray:
    """Number of residuals in each step of size."""
    with np.errstate(divide="ignore"):
        size = np.log2(np.abs(block.signal(REGRESSION)))
    steps = (np.clip(size, _SMALLEST, _LARGEST - 1 / _STEPS) - _SMALLEST) * _STEPS
    return np.bincount(steps.astype(np.int64).ravel(), minlength=(_LARGEST - _SMALLEST) * _STEPS)
