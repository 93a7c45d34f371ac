"""Rules that settle claims about single records beside the others; see `rules`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakscope.stats.intervals import clopper_pearson
from leakscope.studies.claims import Outcome
from leakscope.studies.leakage.results import LeakageResults
from leakscope.studies.leakage.rules import Finding, points_of, protocol

_SHARE_RULE = "the rule asks for all points, and for more than half of them for the same direction"


def by_share(holds: Sequence[bool]) -> Outcome:
    """The verdict on what is claimed of all points: reproduced at all, same direction at more than half."""
    share = sum(holds) / len(holds)
    if share == 1:
        return Outcome.REPRODUCED
    return Outcome.SAME_DIRECTION if share > 0.5 else Outcome.NOT_REPRODUCED


def outliers(results: LeakageResults) -> Finding | None:
    """Points whose box plot has values above the upper whisker.

    Other records of the same size of box have other outliers, so the share of points is given its interval:
    not reproduced only if that lies below half.
    """
    points = points_of(results)
    if not points:
        return None
    holds = [any(value > p.advantage.box.whisker_high for value in p.advantage.box.outliers) for p in points]
    ours = f"at {sum(holds)} of {len(points)} points, some record is above the upper whisker"
    outcome = Outcome.REPRODUCED if all(holds) else Outcome.SAME_DIRECTION
    if clopper_pearson(sum(holds), len(holds)).high < 0.5:
        outcome = Outcome.NOT_REPRODUCED
    why = (
        "the rule asks for all points, and for an interval of their share that reaches half for the same "
        "direction. The more records a box has, the more outliers; the publication does not say how many"
    )
    return Finding(outcome, ours, protocol(results), why)


def order_infinity(results: LeakageResults) -> Finding | None:
    """Leakage of order infinity of the most exposed record beside the mean, as attained."""
    points = [point for point in points_of(results) if point.maximal_bits.attained > 0]
    if not points:
        return None
    ratios = [point.maximal_bits.attained_largest / point.maximal_bits.attained for point in points]
    holds = [ratio >= 2 for ratio in ratios]
    ours = f"log2(1 + TV) attained: largest record over mean, median of points {np.median(ratios):.2g}"
    ours += f"; at least 2 at {sum(holds)} of {len(points)} points"
    rule = f"an average hides a record of at least twice its size; {_SHARE_RULE}. The largest is selected"
    return Finding(by_share(holds), ours, protocol(results), f"{rule}, hence high")


def distinct(results: LeakageResults) -> Finding | None:
    """Over the records of figure 1, the advantage against the distance from the other records."""
    if 1 not in results.figures:
        return None
    points = results.figures[1].points
    found = [point.distinctness for point in points]
    if any(one.low is None for one in found):
        return None
    holds = [one.low is not None and one.low > 0 for one in found]
    ours = ", ".join(
        f"{one.spearman:+.2f} ({one.low:+.2f} to {one.high:+.2f}) at {point.value:g}"
        for one, point in ((found[0], points[0]), (found[-1], points[-1]))
    )
    return Finding(
        by_share(holds),
        f"rank correlation of the likelihood-ratio adversary's advantage with the distance {ours}; above 0 "
        f"at {sum(holds)} of {len(holds)} sizes",
        f"{protocol(results)}; Mahalanobis distance from the mean of these records, n = 10 to "
        f"{points[-1].value:g}",
        "the less, the larger the training set" if all(holds) else _SHARE_RULE,
    )
