"""Gap or size: which predicts an attack's success better over widths, by three coefficients.

Pearson's coefficient measures how close to a line the points are, Spearman's and Kendall's how well one
quantity orders the other. A conclusion that only one of them, or only one choice of widths, supports is no
conclusion: then the verdict is "undecided".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.stats import correlation as stats
from leakscope.stats.correlation import COEFFICIENTS, Coefficient
from leakscope.stats.estimate import Estimate
from leakscope.stats.intervals import Interval, mean_over_targets
from leakscope.studies.scaling.config import PUBLISHED_WIDTHS
from leakscope.studies.scaling.results import (
    Compared,
    Correlation,
    Favored,
    GapOrSize,
    OverWidths,
    Verdict,
    WidthResults,
)

_SUBJECTS = {
    "shokri": "the shadow-model attack",
    "correctness": "correctness alone",
    "loss": "the loss threshold",
    "lira": "LiRA",
}
"""Attack -> what sentences call it."""
_CONCLUSIONS: Mapping[Verdict, str] = {
    "gap": "The overfitting gap predicts the success of {} better than model size does.",
    "size": "Model size predicts the success of {} better than the overfitting gap does.",
    "neither": "Neither the overfitting gap nor model size predicts the success of {} better.",
    "undecided": "Whether the gap or size predicts the success of {} better is undecided: it depends on the "
    "coefficient and the widths.",
    "no success": "There is no success of {} to predict: it does not beat guessing.",
    "undefined": "Whether the gap or size predicts the success of {} better cannot be computed.",
}


def gap_or_size(widths: Sequence[WidthResults], attack: str, seed: int, n_draws: int) -> GapOrSize:
    """Which predicts the attack's AUC better over widths: the gap, or log2 of the number of parameters?

    Correlations are over the means of the widths; intervals resample repeats, and a resample keeps a repeat's
    models at all widths together.
    """
    by_repeat = _auc(widths, attack)
    mean_auc = estimate(*mean_over_targets(by_repeat.mean(axis=1)))
    over = tuple(_over_widths(part, attack, seed, n_draws) for part in _ranges(widths))
    verdict = verdict_of(mean_auc, over)
    return GapOrSize(
        mean_auc=mean_auc,
        over=over,
        verdict=verdict,
        answer=_CONCLUSIONS[verdict].format(_SUBJECTS[attack]),
        evidence=_evidence(verdict, mean_auc, over, len(by_repeat)),
    )


def _ranges(widths: Sequence[WidthResults]) -> Iterator[Sequence[WidthResults]]:
    """All widths, and the published ones if there are others too."""
    yield widths
    published = [w for w in widths if w.hidden_width in PUBLISHED_WIDTHS]
    if len(published) == len(PUBLISHED_WIDTHS) < len(widths):
        yield published


def _auc(widths: Sequence[WidthResults], attack: str) -> FloatArray:
    """float64 (repeats, widths)."""
    return np.stack([[one.auc[attack] for one in w.repeats] for w in widths], axis=1)


def _over_widths(widths: Sequence[WidthResults], attack: str, seed: int, n_draws: int) -> OverWidths:
    auc = _auc(widths, attack)
    gaps = np.stack([[one.overfit_gap for one in w.repeats] for w in widths], axis=1)
    size = np.log2([w.n_params for w in widths])
    compared = {}
    for by in COEFFICIENTS:
        drawn = stats.compare_predictors(auc, gaps, size, seed=seed, n_draws=n_draws, by=by)
        of_gap, of_size, difference = map(estimate, drawn.estimate, drawn.intervals)
        compared[by] = Compared(of_gap, of_size, difference, _favored(difference))
    partials = []
    for rank in (False, True):
        success, gap = (stats.mean_over(values, ranked=rank) for values in (auc, gaps))
        partials += [
            correlation(stats.partial_correlation(success, *pair, rank=rank))
            for pair in ((gap, size), (size, gap))
        ]
    return OverWidths(tuple(w.hidden_width for w in widths), compared, *partials)


def _favored(difference: Estimate) -> Favored:
    if difference.low is None or difference.high is None:
        return "undefined"
    if difference.low <= 0 <= difference.high:
        return "neither"
    return "gap" if difference.low > 0 else "size"


def verdict_of(mean_auc: Estimate, over: Sequence[OverWidths]) -> Verdict:
    """What all coefficients over all ranges of widths say together."""
    if mean_auc.low is not None and mean_auc.low <= 0.5:
        return "no success"
    favored = {compared.favors for part in over for compared in part.coefficients.values()}
    return favored.pop() if len(favored) == 1 else "undecided"


def _evidence(verdict: Verdict, mean_auc: Estimate, over: Sequence[OverWidths], n_repeats: int) -> str:
    """The numbers of a verdict, in one sentence."""
    whole = over[0].hidden_widths
    setting = f"Over {len(whole)} widths from {min(whole)} to {max(whole)} and {n_repeats} repeats"
    if verdict == "no success":
        interval = f"95% interval {mean_auc.low:.3f} to {mean_auc.high:.3f}"
        return f"{setting}, its mean AUC is {mean_auc.value:.3f} ({interval})."
    if verdict == "undefined":
        return f"{setting}, the difference of the two correlations is undefined: too few widths or repeats."
    texts = [f"{setting}: {_coefficients_text(over[0].coefficients)}"]
    texts += [
        f"over the published widths alone: {_coefficients_text(part.coefficients)}" for part in over[1:]
    ]
    return "; ".join(texts) + "."


def _coefficients_text(coefficients: Mapping[Coefficient, Compared]) -> str:
    return ", ".join(
        f"{by.capitalize()} {one.gap.value:.3f} for the gap and {one.size.value:.3f} for size (difference "
        f"{one.difference.value:+.3f}, 95% interval {one.difference.low:+.3f} to {one.difference.high:+.3f}; "
        f"favors {one.favors})"
        if one.difference.low is not None and one.gap.value is not None
        else f"{by.capitalize()} undefined"
        for by, one in coefficients.items()
    )


def correlation(one: stats.Correlation) -> Correlation:
    """A correlation as results.json stores it."""
    return Correlation(*map(_defined, (one.r, one.p, one.interval.low, one.interval.high)))


def estimate(value: float, interval: Interval) -> Estimate:
    """A figure with its interval as results.json stores it."""
    return Estimate(*map(_defined, (value, interval.low, interval.high)))


def _defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
