"""How much a mean over targets would vary: with other models on the same records, or with other records as
well.

The targets of a population share reference models and records, so their spread says little about the spread
of their mean. What is known instead, for a figure that is a sum of parts of records
(`leakscope.stats.parts`):

- the parts, whose scatter over *records* is what another sample of records would change. Whatever happens
  within a record (targets and references that share its outputs, members of one that are non-members of
  another) is inside its part, so no assumption is made about it;
- how each part changes when a group of models is left out, as targets and as references.

Leaving out models changes a figure for two reasons. Some changes go in the same direction for all records (a
model that overfits more than others): they do not average out over records. Others are independent from
record to record, and do. With influences D (groups, records), scaled as in a delete-a-group jackknife,

    together = sum over groups of (sum over records of D)^2
    apart    = sum over groups of the sum over records of D^2

so `together - apart` is the variance of the common changes alone. Then

- *these records*, another training on another random half of them: `common + min(apart, scatter)`. A
  jackknife counts effects of pairs and triples of models two and three times, so `apart` is too large where
  nothing leaks; the scatter over records is exact there, and too large where records differ in what they
  leak.
- *records like these*, another sample as well: `common + scatter`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from leakscope.array_types import FloatArray


class Variance(NamedTuple):
    """Of one figure.

    Attributes:
        common: of changes that all records share; has `degrees` degrees of freedom.
        apart: of changes that are independent from record to record, for these records.
        scatter: of the parts, over records.
        degrees: of freedom.
    """

    common: float
    apart: float
    scatter: float
    degrees: int

    def half_width(self, level: float, *, these_records: bool) -> float:
        """Of the interval with this confidence, for these records or for records like these."""
        rest = min(self.apart, self.scatter) if these_records else self.scatter
        total = self.common + rest
        # Satterthwaite's degrees of freedom, on the safe side: `common` is itself a difference.
        degrees = self.degrees * total / self.common if self.common > 0 else np.inf
        quantile = (
            special.stdtrit(degrees, (1 + level) / 2) if degrees < 1e6 else special.ndtri((1 + level) / 2)
        )
        return float(quantile * np.sqrt(total))


def two_way_variance(
    parts: FloatArray,
    without: FloatArray | None,
    n_in_left_out: FloatArray | None,
    n_records: int,
) -> Variance:
    """The variance of a figure from its parts.

    Args:
        parts: float64 (records,), of all records or of a random sample of them.
        without: float64 (groups, records), the parts without each group of models, at least 3; None where
            only records vary, as for one given model.
        n_in_left_out: float64 (groups, records), how many models of each group were trained with the record,
            where the design fixes the total: what a record loses with a member it gains elsewhere, so only
            deviations from that exchange count. None where memberships are independent.
        n_records: number of records of the population.
    """
    share = len(parts) / n_records
    scatter = float(share * len(parts) * parts.var(ddof=1))
    if without is None:
        return Variance(0.0, float("nan"), scatter, 0)
    influence, degrees = _influence(parts - without, n_in_left_out)
    n_groups = len(without)
    scale = (n_groups - 1) ** 2 / (n_groups * degrees)
    together = scale * float((influence.sum(axis=1) ** 2).sum())
    apart = scale * float((influence**2).sum())
    return Variance(max(together - apart, 0.0), share * apart, scatter, degrees)


def _influence(changes: FloatArray, n_in_left_out: FloatArray | None) -> tuple[FloatArray, int]:
    """Changes around their mean over groups, and around the exchange that the design makes."""
    n_groups = len(changes)
    influence: FloatArray = changes - changes.mean(axis=0)
    if n_in_left_out is None or n_groups < 4:
        return influence, n_groups - 1
    counts = n_in_left_out - n_in_left_out.mean(axis=0)
    spread = (counts**2).sum(axis=0)
    slope = (influence * counts).sum(axis=0) / np.where(spread > 0, spread, 1.0)
    return influence - slope * counts, n_groups - 2
