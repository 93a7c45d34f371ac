"""Lower bounds on epsilon, of each target alone and over all targets.

Each target alone gives a bound of confidence `1 - (1 - c) / 2`; we report the (lower) median over targets. It
exceeds the truth only if half of the bounds do, which by Markov's inequality has probability at most `1 - c`,
however the targets depend on each other. One target: its bound at `c`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.results import EpsilonFigure, EpsilonFigures
from leakscope.stats.epsilon import EpsilonBound, epsilon_of_split
from leakscope.stats.gdp import gaussian_tradeoff_of_split
from leakscope.stats.roc import SplitScores


def epsilon_bounds(
    side: SplitScores, config: EvaluationConfig, n_targets: int
) -> tuple[EpsilonBound, EpsilonBound]:
    """Bounds from one target: for any trade-off curve, and where it is Gaussian."""
    confidence = config.confidence if n_targets == 1 else 1 - (1 - config.confidence) / 2
    general = epsilon_of_split(side, delta=config.delta, confidence=confidence)
    return general, gaussian_tradeoff_of_split(side, delta=config.delta, confidence=confidence)


def epsilon_figures(bounds: Sequence[tuple[EpsilonBound, EpsilonBound]], confidence: float) -> EpsilonFigures:
    """Both bounds over all targets."""
    general, gaussian = zip(*bounds, strict=True)
    return EpsilonFigures(_median_bound(general, confidence), _median_bound(gaussian, confidence))


def _median_bound(bounds: Sequence[EpsilonBound], confidence: float) -> EpsilonFigure:
    """Lower median over targets; a target without a bound counts as 0, which always holds."""
    values = np.array([bound.epsilon for bound in bounds])
    undefined = np.isnan(values)
    value, reason = float("nan"), None
    if 2 * int(undefined.sum()) >= len(values):
        ((reason, _),) = Counter(bound.reason for bound in bounds if bound.reason).most_common(1)
    else:
        value = float(np.quantile(np.where(undefined, 0.0, values), 0.5, method="lower"))
    method = bounds[0].method if len(bounds) == 1 else f"median over targets of: {bounds[0].method}"
    return EpsilonFigure(value, reason, bounds[0].delta, confidence, method.split("; ")[0])
