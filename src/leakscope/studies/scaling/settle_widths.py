"""Do more widths add power, and do dropout and weight decay defend? Settled by runs of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.stats.correlation import pearson
from leakscope.stats.intervals import Interval, clopper_pearson
from leakscope.studies.claims import Claim, Outcome, Settled
from leakscope.studies.scaling.config import PUBLISHED_WIDTHS
from leakscope.studies.scaling.evidence import SIGNIFICANT, Mean, Trainings, paired_difference, width_of
from leakscope.studies.scaling.results import ScalingResults
from leakscope.studies.scaling.tables import setting_text

_STRONGEST = "lira"
_Predictor = Callable[[Trainings], FloatArray]
"""What may predict success: float64 (initializations, widths)."""


def settle_more_widths(wide: Trainings, decisive: ScalingResults | None, claim: Claim) -> Settled:
    """In how many initializations is a correlation positive and significant, with more widths and with five?

    Reproduced if both correlations are significant more often with more widths, beyond chance; the same
    direction if one is.
    """
    n = wide.spread.n
    widths = wide.config.hidden_widths
    shown, gains = [], []
    predictors = (
        ("gap", _gaps, wide.spread.auc_vs_overfit_gap),
        ("size", _sizes, wide.spread.auc_vs_log_params),
    )
    for name, predictor, spread in predictors:
        many, few = (_n_significant(wide, part, predictor) for part in (widths, PUBLISHED_WIDTHS))
        gains.append(_exceeds(clopper_pearson(many, n), clopper_pearson(few, n)))
        assert spread is not None
        shown.append(f"{name}: mean r = {spread.mean:.3f}, p < {SIGNIFICANT} in {many} of {n} "
                     f"initializations, with 5 widths in {few}")  # fmt: skip
    outcome = Outcome.REPRODUCED if all(gains) else Outcome.SAME_DIRECTION
    return Settled(
        claim,
        outcome if any(gains) else Outcome.NOT_REPRODUCED,
        f"{'; '.join(shown)}; with the publication's seeds {_exact_text(wide)}",
        f"published data and protocol at {len(widths)} widths from {widths[0]} to {widths[-1]}; its seeds, "
        f"and {n} initializations",
        reach(decisive),
    )


def _exact_text(wide: Trainings) -> str:
    gap, size = wide.exact.correlations.auc_vs_overfit_gap, wide.exact.correlations.auc_vs_log_params
    assert gap.r is not None and size.r is not None
    return f"r = {gap.r:.3f}, p = {gap.p:.2g} and r = {size.r:.3f}, p = {size.p:.2g}"


def reach(decisive: ScalingResults | None) -> str:
    """What the published data alone cannot say."""
    if decisive is None:
        return "on the published data alone"
    auc = decisive.gap_or_size["shokri"].mean_auc
    return (
        f"on the published data alone: with new data for each repeat, the attack has a mean AUC of "
        f"{auc.value:.3f} ({auc.low:.3f} to {auc.high:.3f})"
    )


def _n_significant(trainings: Trainings, widths: tuple[int, ...], predictor: _Predictor) -> int:
    """Number of initializations with a positive correlation of AUC that is significant over these widths."""
    at = [trainings.config.hidden_widths.index(width) for width in widths]
    aucs, predicting = np.array(trainings.by_initialization("attack_auc")), predictor(trainings)
    correlations = [pearson(auc[at], x[at]) for auc, x in zip(aucs, predicting, strict=True)]
    return sum(one.r > 0 and one.p < SIGNIFICANT for one in correlations)


def _gaps(trainings: Trainings) -> FloatArray:
    return np.array(trainings.by_initialization("overfit_gap"))


def _sizes(trainings: Trainings) -> FloatArray:
    size = np.log2([trainings.config.n_params(width) for width in trainings.config.hidden_widths])
    return np.tile(size, (trainings.spread.n, 1))


def _exceeds(many: Interval, few: Interval) -> bool:
    return many.low > few.high


def settle_regularization(
    plain: ScalingResults, dropout: ScalingResults, weight_decay: ScalingResults, claim: Claim
) -> Settled:
    """Does LiRA, with reference models trained in the same way, find less? Paired by repeat.

    Reproduced if both lower its AUC, averaged over the widths; the same direction if one of them does.
    """
    parts, lower = [], []
    names = (f"dropout {dropout.config.dropout:g}", f"weight decay {weight_decay.config.weight_decay:g}")
    for name, results in zip(names, (dropout, weight_decay), strict=True):
        attack, gap = (paired_difference(results, plain, of) for of in (_STRONGEST, None))
        lower.append(attack.high < 0)
        parts.append(f"{name}: LiRA's AUC {attack.signed()}, gap {gap.signed()}{_by_width(results, plain)}")
    outcome = Outcome.REPRODUCED if all(lower) else Outcome.SAME_DIRECTION
    return Settled(
        claim,
        outcome if any(lower) else Outcome.NOT_REPRODUCED,
        "; ".join(parts),
        setting_text(dropout),
        "differences from no regularization on the same data, mean over the widths; LiRA's reference models "
        "are trained as the target is",
    )


def _by_width(results: ScalingResults, plain: ScalingResults) -> str:
    """LiRA's AUC at the narrowest and at the widest model, with and without."""
    words = []
    for row in (results.results[0], results.results[-1]):
        other = width_of(plain, row.hidden_width)
        assert other is not None
        with_it, without = (
            Mean.of([one.auc[_STRONGEST] for one in r.repeats[: results.config.n_repeats]])
            for r in (row, other)
        )
        words.append(f"{with_it.value:.3f} against {without.value:.3f} at width {row.hidden_width}")
    return f" ({', '.join(words)})"
