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

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack, cross_fit_folds
from leakscope.disk.scratch import gather_records, over_blocks
from leakscope.stats.record_types import (
    RecordTypes,
    fit_record_types,
    log_marginal,
    resolution_variance,
    side_sums,
)
from leakscope.types import Design, Signals

_MOST_FOLDS = 8
_DECIMALS = 4


@dataclass(frozen=True)
class EbLira(Attack):
    """Empirical-Bayes LiRA on log-odds.

    Attributes:
        checkpoints: "last", or "all": several checkpoints (or several augmented queries, kept on the same
            axis) are first combined into one number, by the weights that best tell IN from OUT.
        n_types: kinds of records.
        fitted_records: records, drawn at random, that the kinds are learned from when there are more.
        seed: of that draw.
    """

    checkpoints: Literal["last", "all"] = "last"
    n_types: int = 6
    fitted_records: int = 10_000
    seed: int = 0

    name = "eb_lira"
    needs = ("log_odds",)
    references = "both"
    default_for = ("population", "references")
    source = "leakscope"

    @property
    def is_log_ratio(self) -> bool:
        """Whether the score is a log likelihood ratio."""
        return True

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Log ratio of the two probabilities."""
        first = -1 if self.checkpoints == "last" else 0
        answers = signals.arrays["log_odds"][:, first:]  # (models, checkpoints, columns)
        ratios_of = _ratios_of_a_balanced_design if _is_balanced(design) else _ratios
        sample, sample_mask = self._sample(answers, design.in_mask)
        split = list(cross_fit_folds(design.n_models, targets, _MOST_FOLDS))
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # numpy works outside Python's lock
            learned = threads.map(lambda fold: self._learned(sample[fold[1]], sample_mask[fold[1]]), split)
            folds = [(rows, *found) for (rows, _), found in zip(split, learned, strict=True)]

        def score(columns: slice) -> None:
            in_mask = design.in_mask[:, columns]
            for rows, scale, types in folds:
                values = scale.apply(answers[:, :, columns])
                ratios = ratios_of(types, values, in_mask, targets[rows])
                # A fit that stopped a hair elsewhere moves their far digits: no evidence, so no order.
                scores[rows, columns] = ratios.round(_DECIMALS)

        over_blocks(design.n_records, score, answers, design.in_mask, scores)

    def _sample(self, answers: AnyArray, in_mask: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Answers (models, checkpoints, records) and design of the records that are learned from."""
        n_records = in_mask.shape[1]
        columns = np.arange(n_records)
        if n_records > self.fitted_records:
            rng = np.random.default_rng(self.seed)
            columns = np.sort(rng.choice(n_records, self.fitted_records, replace=False))
        return gather_records(answers, columns, 2).astype(np.float64), gather_records(in_mask, columns, 1)

    def _learned(self, sample: FloatArray, in_mask: BoolArray) -> tuple[Scale, RecordTypes]:
        """How to read the answers, and the kinds of records, from some of the models."""
        scale = _scale(sample, in_mask)
        values = scale.apply(sample)
        return scale, fit_record_types(side_sums(values, in_mask), self.n_types, resolution_variance(values))


class Scale(NamedTuple):
    """Reads a model's answers as one number of about unit size."""

    weights: FloatArray  # (checkpoints,)
    centre: float

    def apply(self, answers: AnyArray) -> FloatArray:
        """(models, checkpoints, columns) -> (models, columns)."""
        combined: FloatArray = np.einsum("mtc,t->mc", answers, self.weights, dtype=np.float64) - self.centre
        return combined


def _scale(answers: FloatArray, in_mask: BoolArray) -> Scale:
    """Weights for several checkpoints by Fisher's discriminant, and the overall centre and size.

    The discriminant sets the gap between IN and OUT means against the scatter around each record's own
    means, both pooled over records with at least two models on each side.
    """
    weights = np.ones(1) if answers.shape[1] == 1 else _discriminant(answers, in_mask)
    combined = np.einsum("mtc,t->mc", answers, weights)
    size = float(combined.std())
    size = size if size > 0 else 1.0
    return Scale(weights / size, float(combined.mean()) / size)


def _discriminant(answers: FloatArray, in_mask: BoolArray) -> FloatArray:
    n_checkpoints = answers.shape[1]
    last: FloatArray = np.eye(n_checkpoints)[-1]
    both = (in_mask.sum(axis=0) > 1) & ((~in_mask).sum(axis=0) > 1)
    if not both.any():
        return last
    values, mask = answers[:, :, both], in_mask[:, None, both]
    scatter, means = np.zeros((n_checkpoints, n_checkpoints)), []
    for side in (mask, ~mask):
        mean = np.where(side, values, 0.0).sum(axis=0) / side.sum(axis=0)  # (checkpoints, columns)
        off = np.where(side, values - mean, 0.0)
        scatter += np.einsum("mtc,muc->tu", off, off)
        means.append(mean)
    gap = (means[0] - means[1]).mean(axis=1)
    ridge = 1e-3 * np.trace(scatter) / n_checkpoints
    if ridge <= 0:
        return last
    weights: FloatArray = np.linalg.solve(scatter + ridge * np.eye(n_checkpoints), gap)
    total = float(np.abs(weights).sum())
    return weights / total if total > 0 else last


def _is_balanced(design: Design) -> bool:
    """Whether every record is in equally many models, with at least two on each side."""

    def ends(columns: slice) -> tuple[int, int]:
        n_in = design.in_mask[:, columns].sum(axis=0)
        return int(n_in.min()), int(n_in.max())

    found = over_blocks(design.n_records, ends, design.in_mask)
    fewest, most = min(low for low, _ in found), max(high for _, high in found)
    return fewest == most and 1 < fewest < design.n_models - 1


def _ratios(types: RecordTypes, values: FloatArray, in_mask: BoolArray, targets: IntArray) -> FloatArray:
    """Scores of some targets on a block of records; (targets, records)."""
    sums = side_sums(values, in_mask)
    as_it_was = log_marginal(types, sums)
    ratios = np.empty((len(targets), values.shape[1]))
    for row, target in enumerate(targets):
        was_in = in_mask[target]
        across = np.where(was_in, -1.0, 1.0)  # from its own side to the other
        on_other_side = log_marginal(types, sums.added(values[target], across, -across))
        ratios[row] = np.where(was_in, as_it_was - on_other_side, on_other_side - as_it_was)
    return ratios


def _ratios_of_a_balanced_design(
    types: RecordTypes, values: FloatArray, in_mask: BoolArray, targets: IntArray
) -> FloatArray:
    """The same, blind to how many references stand on each side.

    Where every record is in equally many models, a target's record has one reference fewer on the target's
    own side. Those counts are the design's doing, not the model's, but they enter the probabilities (fewer
    values, more uncertainty), and would show membership where the answers show nothing. So both sides count
    as if they had the same number of references for every record.
    """
    sums = side_sums(values, in_mask)
    n_in = float(sums.n_in[0]) * (len(values) - 1) / len(values)
    n_out = len(values) - 1 - n_in
    ratios = np.empty((len(targets), values.shape[1]))
    for row, target in enumerate(targets):
        was_in = in_mask[target].astype(np.float64)
        references = sums.added(values[target], -was_in, was_in - 1).weighed_as(n_in, n_out)
        as_in = log_marginal(types, references.added(values[target], 1.0, 0.0))
        as_out = log_marginal(types, references.added(values[target], 0.0, 1.0))
        ratios[row] = as_in - as_out
    return ratios
