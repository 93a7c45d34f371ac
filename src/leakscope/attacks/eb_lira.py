"""EB-LiRA: likelihood ratios that borrow strength across records. leakscope's own attack, and its default.

LiRA asks whether a model's answer about a record is more likely if the record was in, and fits two
Gaussians a record to find out; with few models those fits are mostly noise. EB-LiRA learns from all
records at once what kinds of records there are (`stats/record_types.py`), and scores

    log p(reference answers, target's answer as IN) - log p(reference answers, target's answer as OUT)

where both probabilities average over the kinds and over the record's unknown means. Nothing is tuned
by dataset, and every record gets a score, however few models it has on a side.

Every model can be the target in turn: with all models' sums at hand, one of the two probabilities is
the same for all targets, and the other moves a single value across. The kinds are learned without
the target's membership, from the models outside its fold.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from leakscope.attacks.base import Attack, learned_elsewhere
from leakscope.stats.record_types import (
    RecordTypes,
    SideSums,
    fit_record_types,
    log_marginal,
    side_sums,
)
from leakscope.types import AnyArray, BoolArray, Design, FloatArray, IntArray, Signals

_RECORDS_AT_ONCE = 16_384
_MOST_FOLDS = 8


@dataclass(frozen=True)
class EbLira(Attack):
    """Empirical-Bayes LiRA on log-odds.

    Attributes:
        n_types: kinds of records.
        fitted_records: records, drawn at random, that the kinds are learned from when there are more.
        seed: of that draw.
    """

    n_types: int = 6
    fitted_records: int = 10_000
    seed: int = 0

    name = "eb_lira"
    needs = ("log_odds",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """Log ratio of the two probabilities; float64 (targets, columns)."""
        log_odds = signals.last("log_odds")
        centre, spread = _centre_and_spread(log_odds)
        folds = [
            (rows, self._types(log_odds, design.in_mask, others, centre, spread))
            for rows, others in learned_elsewhere(design.n_models, targets, _MOST_FOLDS)
        ]
        scores = np.empty((len(targets), design.n_columns))

        def score(columns: slice) -> None:
            values = (log_odds[:, columns].astype(np.float64) - centre) / spread
            in_mask = design.in_mask[:, columns]
            sums = side_sums(values, in_mask)
            for rows, types in folds:
                scores[rows, columns] = _ratios(types, sums, values, in_mask, targets[rows])

        starts = range(0, design.n_columns, _RECORDS_AT_ONCE)
        with ThreadPoolExecutor() as threads:  # numpy works outside Python's lock
            list(threads.map(score, (slice(start, start + _RECORDS_AT_ONCE) for start in starts)))
        return scores

    def _types(
        self, log_odds: AnyArray, in_mask: BoolArray, models: IntArray, centre: float, spread: float
    ) -> RecordTypes:
        n_records = in_mask.shape[1]
        if n_records > self.fitted_records:
            drawn = np.random.default_rng(self.seed).choice(n_records, self.fitted_records, replace=False)
            columns = np.sort(drawn)
        else:
            columns = np.arange(n_records)
        at = np.ix_(models, columns)
        values = (log_odds[at].astype(np.float64) - centre) / spread
        return fit_record_types(side_sums(values, in_mask[at]), self.n_types)


def _ratios(
    types: RecordTypes, sums: SideSums, values: FloatArray, in_mask: BoolArray, targets: IntArray
) -> FloatArray:
    """Scores of some targets on a block of records; (targets, records)."""
    as_it_was = log_marginal(types, sums)
    ratios = np.empty((len(targets), values.shape[1]))
    for row, target in enumerate(targets):
        was_in = in_mask[target]
        on_other_side = log_marginal(types, sums.moved(values[target], to_in=~was_in))
        ratios[row] = np.where(was_in, as_it_was - on_other_side, on_other_side - as_it_was)
    return ratios


def _centre_and_spread(log_odds: AnyArray) -> tuple[float, float]:
    """Mean and standard deviation of all values, so that what follows is free of their scale."""
    spread = float(log_odds.std(dtype=np.float64))
    return float(log_odds.mean(dtype=np.float64)), spread if spread > 0 else 1.0
