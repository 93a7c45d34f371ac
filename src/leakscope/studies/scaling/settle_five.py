"""Statements of the publication about its five widths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.stats.correlation import pearson
from leakscope.studies.claims import Claim, Outcome, Settled
from leakscope.studies.scaling.config import PUBLISHED_WIDTHS
from leakscope.studies.scaling.evidence import MOST, SIGNIFICANT, Trainings, event
from leakscope.studies.scaling.published import FIGURES, PUBLISHED
from leakscope.studies.scaling.results import ScalingResults, Spread
from leakscope.studies.scaling.settle_widths import reach
from leakscope.studies.scaling.tables import spread_text

_AT_64, _AT_128 = PUBLISHED_WIDTHS.index(64), PUBLISHED_WIDTHS.index(128)
_MODEST = 0.6
"""An AUC below this we call modest."""


def both_text(exact: str, spread: Spread | None, n: int) -> str:
    """A figure with the publication's seeds, and over initializations."""
    over = f"; {spread_text(spread)} over {n} initializations" if spread else ""
    return f"{exact} with the publication's seeds{over}"


def five_widths_protocol(n: int) -> str:
    """How our figures of the five widths were measured."""
    return f"published data and protocol; its seeds, and {n} initializations"


def statements(
    trainings: Trainings, decisive: ScalingResults | None, claims: Mapping[str, Claim]
) -> Iterator[Settled]:
    """One entry per statement."""
    n = trainings.spread.n
    protocol = five_widths_protocol(n)
    for key, outcome, ours, why in (
        _gap_ahead(trainings),
        _both_nonsignificant(trainings),
        _growth_strongest(trainings),
        _protocol(trainings),
        _regime(trainings),
        _auc_rises(trainings),
        *_shapes(trainings),
        _modest_success(trainings, decisive),
    ):
        yield Settled(claims[key], outcome, ours, protocol, why)


_Entry = tuple[str, Outcome, str, str]


def _gap_ahead(trainings: Trainings) -> _Entry:
    exact, difference = trainings.exact.correlations, trainings.spread.difference
    assert difference is not None and exact.auc_vs_overfit_gap.r is not None
    assert exact.auc_vs_log_params.r is not None
    ahead = exact.auc_vs_overfit_gap.r - exact.auc_vs_log_params.r
    share = float(np.mean(np.array(difference.values) > 0))
    ours = both_text(f"difference {ahead:+.3f}", difference, trainings.spread.n)
    return "gap_ahead", event(ahead > 0, share), ours, _in_share(share, trainings.spread.n)


def _p_values(trainings: Trainings, figure: str) -> list[float]:
    """p-values of the correlation of AUC with the gap or with size, one per initialization."""
    success = trainings.by_initialization("attack_auc")
    gaps = trainings.by_initialization("overfit_gap")
    others = gaps if figure == "overfit_gap" else [tuple(_size(trainings))] * len(success)
    return [pearson(one, other).p for one, other in zip(success, others, strict=True)]


def _both_nonsignificant(trainings: Trainings) -> _Entry:
    exact = trainings.exact.correlations
    p_values = [exact.auc_vs_overfit_gap.p or 0.0, exact.auc_vs_log_params.p or 0.0]
    by_gap, by_size = _p_values(trainings, "overfit_gap"), _p_values(trainings, "size")
    pairs = zip(by_gap, by_size, strict=True)
    share = float(np.mean([min(pair) > SIGNIFICANT for pair in pairs]))
    ours = f"p = {p_values[0]:.3f} and {p_values[1]:.3f} with the publication's seeds"
    holds = min(p_values) > SIGNIFICANT
    outcome = Outcome.REPRODUCED if holds and share >= 0.5 else event(holds, share)
    return "both_nonsignificant", outcome, ours, _in_share(share, trainings.spread.n)


def _growth_strongest(trainings: Trainings) -> _Entry:
    """Positive and the largest of the three correlations; significance is reported beside it."""
    exact, spread, n = trainings.exact.correlations, trainings.spread, trainings.spread.n
    growth, others = spread.gap_vs_log_params, (spread.auc_vs_log_params, spread.auc_vs_overfit_gap)
    r, p = exact.gap_vs_log_params.r, exact.gap_vs_log_params.p
    assert r is not None and p is not None and growth is not None
    rivals = np.max([other.values for other in others if other is not None], axis=0)
    is_strongest = (np.array(growth.values) > 0) & (np.array(growth.values) > rivals)
    p_values = [pearson(gap, _size(trainings)).p for gap in trainings.by_initialization("overfit_gap")]
    significant = float(np.mean(np.array(p_values) < SIGNIFICANT))
    holds = r > max(0.0, exact.auc_vs_log_params.r or 0.0, exact.auc_vs_overfit_gap.r or 0.0)
    share = float(is_strongest.mean())
    why = f"the largest of the three in {share:.0%} of {n} initializations, significant in {significant:.0%}"
    ours = both_text(f"r = {r:.3f}, p = {p:.3f}", growth, n)
    return "growth_strongest", event(holds and p < SIGNIFICANT, share), ours, why


def _size(trainings: Trainings) -> FloatArray:
    return np.log2([trainings.config.n_params(width) for width in trainings.config.hidden_widths])


def _protocol(trainings: Trainings) -> _Entry:
    """The whole table at once: how many of its cells the publication's seeds give."""
    differences = []
    for row in trainings.exact.widths:
        for figure in FIGURES:
            tolerance = trainings.sd_tolerance if figure.startswith("std_") else trainings.tolerance
            theirs = getattr(PUBLISHED[row.hidden_width], figure)
            differences.append(abs(getattr(row, figure) - theirs) <= tolerance)
    share = float(np.mean(differences))
    ours = f"{sum(differences)} of {len(differences)} cells of the table within rounding and one record"
    outcome = Outcome.REPRODUCED if share >= MOST else Outcome.NOT_REPRODUCED
    return "protocol", outcome, ours, "with its seeds, classes of standard deviation 1.5 and batches of 64"


def _regime(trainings: Trainings) -> _Entry:
    def holds(train_acc: tuple[float, ...]) -> bool:
        return train_acc[0] < 0.99 and train_acc[-1] >= 0.99

    exact = trainings.exact_values("train_acc")
    share = trainings.share(holds, "train_acc")
    ours = f"train accuracy {exact[0]:.3f} at width 16, {exact[-1]:.3f} at width 256"
    return "regime", event(holds(exact), share), ours, _in_share(share, trainings.spread.n)


def _auc_rises(trainings: Trainings) -> _Entry:
    r, spread = trainings.exact.correlations.auc_vs_log_params.r, trainings.spread.auc_vs_log_params
    assert r is not None and spread is not None
    share = float(np.mean(np.array(spread.values) > 0))
    exact = trainings.exact_values("attack_auc")
    ours = both_text(f"{exact[0]:.3f} to {exact[-1]:.3f}, r = {r:.3f}", spread, trainings.spread.n)
    return "auc_rises", event(r > 0, share), ours, _in_share(share, trainings.spread.n)


def _shapes(trainings: Trainings) -> Iterator[_Entry]:
    n = trainings.spread.n
    auc, gap = trainings.exact_values("attack_auc"), trainings.exact_values("overfit_gap")

    def dips(of_auc: tuple[float, ...], of_gap: tuple[float, ...]) -> bool:
        return of_auc[_AT_128] < of_auc[_AT_64] and of_gap[_AT_128] > of_gap[_AT_64]

    pairs = zip(*map(trainings.by_initialization, ("attack_auc", "overfit_gap")), strict=True)
    share = float(np.mean([dips(*pair) for pair in pairs]))
    ours = (
        f"AUC {auc[_AT_128]:.3f} against {auc[_AT_64]:.3f}, gap {gap[_AT_128]:.3f} against {gap[_AT_64]:.3f}"
    )
    yield "not_monotone", event(dips(auc, gap), share), ours, _in_share(share, n)

    def rises(values: tuple[float, ...]) -> bool:
        return all(first < second for first, second in pairwise(values))

    share = trainings.share(rises, "overfit_gap")
    yield "gap_monotone", event(rises(gap), share), f"{gap[0]:.3f} to {gap[-1]:.3f}", _in_share(share, n)


def _modest_success(trainings: Trainings, decisive: ScalingResults | None) -> _Entry:
    """All widths share one dataset: where other data give no success, this dataset's is chance."""

    def modest(values: tuple[float, ...]) -> bool:
        return all(0.5 < value < _MODEST for value in values)

    auc, share = trainings.exact_values("attack_auc"), trainings.share(modest, "attack_auc")
    outcome = event(modest(auc), share)
    finding = None if decisive is None else decisive.gap_or_size.get("shokri")
    if outcome is Outcome.REPRODUCED and finding is not None and finding.verdict == "no success":
        outcome = Outcome.NOISE
    why = f"{_in_share(share, trainings.spread.n)}, {reach(decisive)}"
    return "auc_modest", outcome, f"{min(auc):.3f} to {max(auc):.3f}", why


def _in_share(share: float, n: int) -> str:
    return f"holds in {share:.0%} of {n} initializations"
