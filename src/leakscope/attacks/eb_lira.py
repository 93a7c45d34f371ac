"""EB-LiRA: likelihood ratios that borrow strength across records. leakscope's own attack, and its default.

LiRA tests whether a model's log-odds on a record are more likely if the record was a member, with two
Gaussians per record; with few models those fits are mostly noise. EB-LiRA learns from all records at once
what kinds of records there are (`stats/record_types.py`), and scores

    log p(reference outputs, target's output as IN) - log p(reference outputs, target's output as OUT)

where both probabilities average over the kinds and over the record's unknown means. Nothing is tuned per
dataset, and every record gets a score, however few models it has on a side.

Every model can be the target in turn: given the sums over all models, one of the two probabilities is
the same for all targets, and the other moves a single value across. The kinds are learned without
the target's membership, from the models outside its fold.

With `online=false` no model that was trained with the record is needed (`eb_lira_offline.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack, References, cross_fit_folds
from leakscope.attacks.blocks import Block, Blocks, equal_counts
from leakscope.attacks.discriminant import Scale, combined, weights_of
from leakscope.attacks.eb_lira_offline import OfflineFit, offline_fits, offline_scores
from leakscope.attacks.label_fit import REGRESSION
from leakscope.attacks.queries import SeveralQueries
from leakscope.disk.scratch import blocks, gather_records, on_threads
from leakscope.errors import InputError
from leakscope.stats.record_types import RecordTypes, continued, fit_beside, fit_each, log_marginal
from leakscope.stats.side_sums import SideSums, resolution_variance, side_sums
from leakscope.types import Design, Signals

_MOST_FOLDS = 8
_DECIMALS = 4
_MORE_ROUNDS = 4
"""By which a fit is continued when models are left out. Twenty change a standard error by 2% more."""
_FEW_REFERENCES = 2
"""Up to so many models, the target's outputs are learned from as well, with its memberships unknown."""
_FITTED_TOGETHER = 16_384
"""Records times folds up to which all folds are fitted at once: numpy's overhead is then paid once."""
_SCORED_TOGETHER = 16_384
"""Records times targets up to which targets are scored at once, for the same reason."""


@dataclass(frozen=True)
class EbLira(SeveralQueries):
    """Empirical-Bayes LiRA on log-odds (of a regression: residuals).

    Attributes:
        checkpoints: "last", or "all": all checkpoints are combined into one number (`discriminant.py`).
        n_types: number of kinds of records.
        fitted_records: the kinds are learned from at most this many records, drawn at random.
        seed: of that draw.
        online: IN and OUT references; offline: OUT references only, and the target's own outputs show how
            members differ.
        queries: "one": the record itself; "all": every stored query is combined into that number.
        signal: the signal that is read; None: log-odds or residuals.
    """

    checkpoints: Literal["last", "all"] = "last"
    n_types: int = 6
    fitted_records: int = 10_000
    seed: int = 0
    online: bool = True
    queries: Literal["one", "all"] = "one"
    signal: str | None = None

    name = "eb_lira"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    is_log_ratio = True
    default_for = ("population", "references")
    source = "leakscope"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.online and self.checkpoints == "all":
            raise InputError(
                f"attack={self.label!r}: only IN and OUT references show how to combine checkpoints; "
                "set checkpoints=last, or online=true"
            )

    @property
    def references(self) -> References:
        """The offline variant reads models trained without the record only."""
        return "both" if self.online else "out"

    @property
    def reads_checkpoints(self) -> bool:
        """True with `checkpoints=all`."""
        return self.checkpoints == "all"

    def statistics(self, blocks: Blocks) -> list[_Fold] | list[OfflineFit]:
        """The scale and the kinds of records, fitted per fold of models."""
        if not self.online:
            return offline_fits(blocks, self._sampled_records(blocks.design.n_records), self.n_types)
        outputs = self._outputs(blocks.signals.arrays[blocks.needs[0]])
        records = self._sampled_records(blocks.design.n_records)
        sample, in_mask = (
            gather_records(outputs, records, 2),
            gather_records(blocks.design.in_mask, records, 1),
        )
        has_steps = REGRESSION not in blocks.needs
        folds = list(cross_fit_folds(blocks.design.n_models, blocks.targets, _MOST_FOLDS))

        def prepared(fold: tuple[IntArray, IntArray]) -> _Prepared:
            rows, others = fold
            used = None
            complements = blocks.complements[blocks.targets[rows]] if blocks.leaves_pairs_out else None
            if complements is not None and (complements >= 0).all():  # whole pairs remain
                others = np.setdiff1d(others, complements)
            elif complements is not None:
                n_fewer, numbers = len(in_mask) - len(others), blocks.design.numbers[others]
                used = equal_counts(in_mask[others], n_fewer, numbers, blocks.unit_numbers(records))
            learned = _Learned(sample, in_mask, blocks.design.numbers, others, used)
            target = int(blocks.targets[rows[0]]) if len(in_mask) <= 1 + _FEW_REFERENCES else None
            return _prepared(rows, learned, has_steps, target)

        def fitted(some: list[tuple[IntArray, IntArray]]) -> list[_Fold]:
            ready = [prepared(fold) for fold in some]
            types = _kinds(ready, self.n_types)
            return [_Fold(one.rows, one.scale, own, one) for one, own in zip(ready, types, strict=True)]

        together = len(records) * len(folds) <= _FITTED_TOGETHER
        parts = [folds] if together else [[fold] for fold in folds]
        return [fold for part in on_threads(fitted, parts, sample.size) for fold in part]

    def score(self, block: Block) -> FloatArray:
        """Log ratio of the two probabilities."""
        if not self.online:
            return offline_scores(block).round(_DECIMALS)
        scores = np.empty((len(block.targets), block.in_mask.shape[1]))
        outputs = self._outputs(*block.arrays.values())
        folds: list[_Fold] = block.statistics
        for rows, scale, types, _ in folds:
            values = combined(outputs, scale)
            if block.partners is None:
                scores[rows] = _ratios(types, values, block.in_mask, block.targets[rows])
            else:
                scores[rows] = _paired_ratios(types, values, block, rows)
        # Where an iterative fit stops changes the last digits: they are no evidence, so they give no order.
        return scores.round(_DECIMALS)

    def _outputs(self, values: AnyArray) -> AnyArray:
        """The checkpoints and queries to read; (models, checkpoints, records, queries)."""
        read = values[:, -1 if self.checkpoints == "last" else 0 :]
        return read if self.queries == "all" else read[..., None]

    def _sampled_records(self, n_records: int) -> IntArray:
        """The records that are learned from."""
        if n_records <= self.fitted_records:
            return np.arange(n_records)
        rng = np.random.default_rng(self.seed)
        return np.sort(rng.choice(n_records, self.fitted_records, replace=False))

    def fitted(self, signals: Signals, design: Design, targets: IntArray) -> Attack:
        """The attack with the fit of each target's fold, which models that are left out change a little."""
        blocks = Blocks(
            signals, design, targets, self.reads_from(signals), allows_pairs=self.leaves_pairs_out
        )
        numbers = design.numbers[targets]
        folds = tuple(fold._replace(rows=numbers[fold.rows]) for fold in self.statistics(blocks))
        fitted = _FittedEbLira(**{field.name: getattr(self, field.name) for field in fields(self)})
        object.__setattr__(fitted, "folds", folds)
        return fitted


class _FittedEbLira(EbLira):
    """EB-LiRA with given fits; the rows of its folds are the targets' numbers in the population."""

    folds: ClassVar[tuple[_Fold, ...] | tuple[OfflineFit, ...]]

    def fitted(self, signals: Signals, design: Design, targets: IntArray) -> Attack:
        """It is."""
        return self

    def statistics(self, blocks: Blocks) -> Any:
        """The given fits, for those targets that are left, without the models that are left out."""
        numbers = blocks.design.numbers[blocks.targets]
        own = [fold._replace(rows=np.flatnonzero(np.isin(numbers, fold.rows))) for fold in self.folds]
        left = [fold for fold in own if len(fold.rows)]
        if not self.online:
            return left
        return _without_others(cast(list[_Fold], left), blocks.design.numbers)


class _Learned(NamedTuple):
    """What the kinds of records of one fold are learned from.

    Attributes:
        outputs: (models, checkpoints, records, queries), of all models.
        in_mask: bool (models, records).
        numbers: int64 (models,), the models' numbers.
        others: int64, the models outside the fold.
        used: bool (models outside the fold, records), which of their outputs count; None: all.
    """

    outputs: AnyArray
    in_mask: BoolArray
    numbers: IntArray
    others: IntArray
    used: BoolArray | None

    def gone(self, numbers: IntArray) -> IntArray:
        """int64, positions among the models outside the fold of those that have none of these numbers."""
        return np.flatnonzero(~np.isin(self.numbers[self.others], numbers))

    def sums_without(self, gone: IntArray, sums: SideSums, scale: Scale) -> SideSums:
        """The sums over all models outside the fold, less those of these."""
        models = self.others[gone]
        values = combined(self.outputs[models], scale)
        of_gone = side_sums(values, self.in_mask[models], None if self.used is None else self.used[gone])
        return SideSums(*(all_of - own for all_of, own in zip(sums, of_gone, strict=True)))


class _Prepared(NamedTuple):
    """What the kinds of records of one fold are fitted to.

    Attributes:
        rows: of the targets that are scored with them.
        scale: of the outputs.
        sums: over the models outside the fold.
        coarseness: a lower bound on variances.
        learned: where the sums come from.
        of_target: (records,), the only target's outputs, where they are learned from; else None.
    """

    rows: IntArray
    scale: Scale
    sums: SideSums
    coarseness: float
    learned: _Learned
    of_target: FloatArray | None


class _Fold(NamedTuple):
    """What the targets at `rows` are scored with, and what it was fitted to."""

    rows: IntArray
    scale: Scale
    types: RecordTypes
    fitted_to: _Prepared


def _without_others(folds: list[_Fold], numbers: IntArray) -> list[_Fold]:
    """The folds, with kinds of records learned from the models with these numbers only.

    A chance difference between members and non-members enters the kinds, and through them the scores of all
    records alike. If the kinds stayed, leaving models out would not show it, and intervals would be too
    narrow. The fit resumes where it stopped, so that the kinds differ by the models that are gone, and not by
    where an iterative fit stops.
    """
    gone = [fold.fitted_to.learned.gone(numbers) for fold in folds]
    changed = [(fold, own) for fold, own in zip(folds, gone, strict=True) if len(own)]
    if not changed:
        return folds
    ready = [fold.fitted_to for fold, _ in changed]
    sums = [
        one.learned.sums_without(own, one.sums, one.scale)
        for one, (_, own) in zip(ready, changed, strict=True)
    ]
    started, coarseness = [fold.types for fold, _ in changed], [one.coarseness for one in ready]
    types = iter(continued(started, sums, coarseness, _MORE_ROUNDS))
    return [
        fold._replace(types=next(types)) if len(own) else fold for fold, own in zip(folds, gone, strict=True)
    ]


def _prepared(rows: IntArray, learned: _Learned, has_steps: bool, target: int | None) -> _Prepared:
    """The outputs of some of the models on one scale, as sums.

    Equal log-odds mean that probabilities come in steps, as a forest's do. Equal residuals mean that a model
    knows the label by heart, which must not count as coarse.
    """
    in_mask = learned.in_mask[learned.others]
    scale, values = _on_scale(learned.outputs[learned.others], in_mask)
    sums, of_target = side_sums(values, in_mask, learned.used), None
    if target is not None:
        of_target = combined(learned.outputs[[target]], scale)[0]
        values = np.vstack([values, of_target])  # one reference alone shows no ties
    coarseness = resolution_variance(values) if has_steps else 0.0
    return _Prepared(rows, scale, sums, coarseness, learned, of_target)


def _kinds(ready: list[_Prepared], n_types: int) -> list[RecordTypes]:
    """The kinds of records of some folds."""
    beside = [
        fit_beside(one.of_target, one.sums, n_types, one.coarseness)
        for one in ready
        if one.of_target is not None
    ]
    return beside or fit_each([one.sums for one in ready], n_types, [one.coarseness for one in ready])


def _on_scale(outputs: AnyArray, in_mask: BoolArray) -> tuple[Scale, FloatArray]:
    """What combines these outputs into numbers of mean 0 and standard deviation 1, and these numbers."""
    weights = weights_of(outputs, in_mask)
    values = combined(outputs, Scale(weights, 0.0))
    centre, size = float(values.mean()), float(values.std())
    size = size if size > 0 else 1.0
    values -= centre
    values /= size
    return Scale(weights / size, centre / size), values


def _ratios(types: RecordTypes, values: FloatArray, in_mask: BoolArray, targets: IntArray) -> FloatArray:
    """Log ratios of some targets on a block of records; (targets, records)."""
    sums = side_sums(values, in_mask)
    as_it_was = log_marginal(types, sums)
    ratios = np.empty((len(targets), values.shape[1]))
    for rows in _together(*ratios.shape):
        was_in, target = in_mask[targets[rows]], values[targets[rows]]
        across = np.where(was_in, -1.0, 1.0)  # from its own side to the other
        on_other_side = log_marginal(types, sums.added(target, across, -across))
        ratios[rows] = np.where(was_in, as_it_was - on_other_side, on_other_side - as_it_was)
    return ratios


def _paired_ratios(types: RecordTypes, values: FloatArray, block: Block, rows: IntArray) -> FloatArray:
    """The same where each target is left out together with a partner from the other side."""
    assert block.partners is not None
    sums, columns = side_sums(values, block.in_mask), np.arange(values.shape[1])
    ratios = np.empty((len(rows), values.shape[1]))
    for some in _together(*ratios.shape):
        targets, partner = block.targets[rows[some]], block.partners[rows[some]]
        target, was_in = values[targets], block.in_mask[targets].astype(np.float64)
        has_partner = (partner >= 0).astype(np.float64)
        references = sums.added(target, -was_in, was_in - 1).added(
            values[partner, columns], has_partner * (was_in - 1), -has_partner * was_in
        )
        as_in = log_marginal(types, references.added(target, 1.0, 0.0))
        as_out = log_marginal(types, references.added(target, 0.0, 1.0))
        ratios[some] = as_in - as_out
    return ratios


def _together(n_targets: int, n_records: int) -> Iterator[slice]:
    """Targets that are scored at once: numpy's calls take longer than their work on few records."""
    size = max(1, _SCORED_TOGETHER // max(n_records, 1))
    return blocks(n_targets, size)
