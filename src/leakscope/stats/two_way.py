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

so `together - apart` is the variance of the common changes alone. A jackknife counts effects of pairs and
triples of models two and three times. Where that makes `apart` exceed the scatter over records, which is
exact where nothing leaks, both are scaled down by the same factor. From a sample of the records, `together`
contains more of what is independent from record to record than the figure of all records does. `common` is
then the difference of two noisy numbers, of which the first alone can be too small by chance. So it is raised
towards the upper end of a one-sided 75% interval, fully where the sample is a small part of all records. Then

- *these records*, other models trained on random halves of them: `common + min(apart, scatter)`.
- *records like these*, another sample as well: `common + sampled + scatter`. Records are also trained on, and
  another sample moves all models at once, which no number of models averages out. If record i moves a model
  that is trained on it by g_i / n, where n is half of all records, models of one population vary by
  sum(g^2) / (4 n^2), and so does the mean of all of them from sample to sample. So `sampled` is the variance
  of a single model, `common` times the number of models, as far as it comes from single records of its
  training set.

A population cannot measure which part does: models also differ by their seeds, and by chance imbalances of
their training sets, which another sample does not repeat. With 100 populations each of nearest neighbors,
forests, small networks and linear models, the part was 1 for the accuracy and for attacks without reference
models on nearest neighbors, a quarter to a half for most figures of forests, and none for linear models. So
`sampled` is a bound, not an estimate. It takes the upper end of a one-sided 75% interval for `common`, and a
share of it. From 8 or 16 groups of models even that end may be next to nothing, and intervals were too narrow
in up to a third of the populations of forests. A record that is queried is trained on as well, and on average
its second role changed a figure about as much as its first. So `sampled` is at least `scatter`, and that is
all of it for an accuracy. It is limited by how far the figure is from that of a model that leaks nothing,
which no sample of records moves: where records are independent, the leakage varies from sample to sample by a
few times its size over the root of the number of records. docs/coverage.md has how often the intervals hold.

A figure without reference models, such as the accuracy, is a plain mean over models, and `common + apart` is
its variance for these records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import FloatArray

_SHARE_OF_RECORDS = {False: 0.5, True: 1 / 3}
"""Part of what models differ in that is due to single training records, without and with reference models."""
_CONFIDENCE = 0.75
"""One-sided, of the bound on the variance between models."""
_MOST_VARIATION = 3.0
_MOST_VARIATION_IN_TAIL = 0.25
"""Largest variance of what a training record adds to the leakage, as a multiple of the squared leakage; for a
TPR at an FPR it is the second divided by the FPR, where that is more: it rests on so much fewer records."""


class NoLeakage(NamedTuple):
    """What a figure is where nothing leaks.

    Attributes:
        value: an AUC of 0.5, an advantage of 0, a TPR equal to the FPR.
        fpr: the false positive rate of a TPR; 1 for other figures.
    """

    value: float
    fpr: float = 1.0

    def most_sampled(self, value: float, n_records: int) -> float:
        """The largest variance that other training records cause in a figure."""
        factor = max(_MOST_VARIATION, _MOST_VARIATION_IN_TAIL / self.fpr)
        return factor * (value - self.value) ** 2 / n_records


class Variance(NamedTuple):
    """Of one figure.

    Attributes:
        common: of changes that all records share.
        these_records: of changes that are independent from record to record, for these records.
        like_these: the same for other records.
        sampled: of what other records change in all models at once, at most.
        together: of the jackknife over models, of which `common` is a part; has `degrees` degrees of freedom.
        degrees: of freedom; 0 where only records vary.
    """

    common: float
    these_records: float
    like_these: float
    sampled: float
    together: float
    degrees: int

    def standard_error(self, *, these_records: bool) -> float:
        """For these records, or for records like these."""
        of_records = self.these_records if these_records else self.like_these + self.sampled
        return float(np.sqrt(self.common + of_records))

    def with_records_times(self, factor: float) -> Variance:
        """The same with this multiple of what is independent from record to record."""
        return self._replace(these_records=factor * self.these_records, like_these=factor * self.like_these)

    def with_share_of(self, other: Variance, share: float) -> Variance:
        """The same with a share of another variance added."""
        return Variance(
            self.common + share * other.common,
            self.these_records + share * other.these_records,
            self.like_these + share * other.like_these,
            self.sampled + share * other.sampled,
            self.together + share * other.together,
            min(self.degrees, other.degrees),
        )

    def of_plain_mean(self) -> Variance:
        """The same where the figure is a plain mean over models, which no model that is left out changes.

        The jackknife's variance as a whole then has `degrees` degrees of freedom. Taking out what is
        independent from record to record makes its quantiles too small where that is a large part.
        """
        return self._replace(
            common=self.common + self.these_records,
            these_records=0.0,
            like_these=max(self.like_these - self.these_records, 0.0),
        )

    def at_least(self, other: Variance) -> Variance:
        """The larger of two variances, component by component."""
        return Variance(
            max(self.common, other.common),
            max(self.these_records, other.these_records),
            max(self.like_these, other.like_these),
            max(self.sampled, other.sampled),
            max(self.together, other.together),
            min(self.degrees, other.degrees),
        )

    def quantile(self, level: float, *, these_records: bool) -> float:
        """Half width of the interval with this confidence, in standard errors."""
        total = self.standard_error(these_records=these_records) ** 2
        # Where `together` exceeds what is independent from record to record, the total contains all of its
        # noise, and has Satterthwaite's degrees of freedom; elsewhere none of it. A million degrees are as
        # good as infinitely many, which scipy's t distribution does not have.
        degrees = np.inf
        if self.common > 0:
            degrees = self.degrees * max(total / self.together, 1.0) ** 2
        return float(scipy.special.stdtrit(min(degrees, 1e6), (1 + level) / 2))


def two_way_variance(
    parts: FloatArray,
    without: FloatArray | None,
    n_in_left_out: FloatArray | None,
    n_records: int,
    n_models: int,
    uses_references: bool = True,
    no_leakage: NoLeakage | None = None,
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
        n_models: number of its models.
        uses_references: whether a model that is left out changes the parts of other targets.
        no_leakage: what the figure is where nothing leaks; None where it is no measure of leakage.
    """
    if len(parts) < 2:
        return Variance(0.0, float("nan"), float("nan"), 0.0, 0.0, 0)
    share = len(parts) / n_records
    scatter = float(share * len(parts) * parts.var(ddof=1))
    if without is None:
        return Variance(0.0, float("nan"), scatter, 0.0, 0.0, 0)
    influence, degrees = _influence(parts - without, n_in_left_out)
    n_groups = len(without)
    scale = (n_groups - 1) ** 2 / (n_groups * degrees)
    together = scale * float((influence.sum(axis=1) ** 2).sum())
    apart = scale * float((influence**2).sum())
    # What the design exchanges is taken out of each record's changes, and with it one of n - 1 parts of those
    # that records share.
    correction = (n_groups - 1) / degrees
    if uses_references:
        correction *= min(1.0, scatter / (share * apart)) if apart > 0 else 1.0
        of_these, of_others = min(share * apart, scatter), scatter
    else:
        of_these, of_others = share * apart, max(scatter, share * apart)
    # A chi-squared variable with `degrees` degrees of freedom exceeds this multiple of its mean so often.
    low = 2 * float(scipy.special.gammaincinv(degrees / 2, 1 - _CONFIDENCE)) / degrees
    raised = together * (share + (1 - share) / low)
    common = correction * max(raised - apart, 0.0)
    of_one_model = n_models * correction * max(together / low - apart, 0.0)
    sampled = scatter
    if no_leakage is not None:
        limit = no_leakage.most_sampled(float(parts.sum()), n_records)
        sampled = min(max(_SHARE_OF_RECORDS[uses_references] * of_one_model, scatter), limit)
    return Variance(common, of_these, of_others, sampled, correction * raised, degrees)


def _influence(changes: FloatArray, n_in_left_out: FloatArray | None) -> tuple[FloatArray, int]:
    """Changes around their mean over groups, and around the exchange that the design makes."""
    n_groups = len(changes)
    influence: FloatArray = changes - changes.mean(axis=0)
    if n_in_left_out is None or n_groups < 4:
        return influence, n_groups - 1
    counts = n_in_left_out - n_in_left_out.mean(axis=0)
    spread = (counts**2).sum(axis=0)
    if not spread.any():  # complementary models are left out together: nothing is exchanged
        return influence, n_groups - 1
    slope = (influence * counts).sum(axis=0) / np.where(spread > 0, spread, 1.0)
    return influence - slope * counts, n_groups - 2
