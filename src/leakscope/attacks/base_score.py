"""BASE: the target's likelihood of the label against the references' mean. (Lassila et al. 2025)

    score = log p_target - log mean of p over the reference models

the Bayes-optimal rule where a model's loss is the energy of its posterior. The mean is over all references,
half of which are expected to be trained with the record; which ones they are is not used. Offline it is over
the OUT references, and its log is multiplied by `offline_a`, which makes up for the missing half. With as
many IN as OUT references, BASE orders records as RMIA with gamma 1 does.

The temperature and `offline_a` are those of the authors' released code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.base import Attack, References
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.label_fit import REGRESSION, LabelFit

_LOST_DIGITS = 1e-6  # of a sum that its two left-out terms dominate, a difference has too few digits


@dataclass(frozen=True)
class Base(Attack):
    """BASE on the probability (of a regression: the relative density) of the label.

    Attributes:
        online: the mean is over IN and OUT references; offline: over OUT references only.
        temperature: divides the log-odds, or the log-density, before they become probabilities.
        offline_a: multiplies the log mean offline.
    """

    online: bool = True
    temperature: float = 2.0
    offline_a: float = 0.33

    name = "base"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    source = "Lassila et al. 2025"

    @property
    def references(self) -> References:
        """The offline variant reads models trained without the record only."""
        return "both" if self.online else "out"

    def statistics(self, blocks: Blocks) -> LabelFit:
        """How labels fit."""
        return LabelFit.to(blocks)

    def score(self, block: Block) -> FloatArray:
        """Log probability minus the references' log mean; of a record without references, the former alone.

        Offline, a record that no OUT reference has gets the mean of its IN references.
        """
        log_p = _log_probability(block, self.temperature)
        everyone = np.ones_like(block.in_mask)
        log_mean = left_out_log_mean(log_p, everyone, block)
        if not self.online:
            of_out = left_out_log_mean(log_p, ~block.in_mask, block)
            log_mean = self.offline_a * np.where(np.isfinite(of_out), of_out, log_mean)
        return np.asarray(log_p[block.targets] - np.where(np.isfinite(log_mean), log_mean, 0.0))


def _log_probability(block: Block, temperature: float) -> FloatArray:
    """Log of the label's probability, or of its relative density; (models, records)."""
    fit: LabelFit = block.statistics
    values = fit.of(block) / temperature
    return values if fit.noise_scale is not None else np.asarray(-np.logaddexp(0.0, -values))


def left_out_log_mean(log_p: FloatArray, mask: BoolArray, block: Block) -> FloatArray:
    """Log of the mean of exp(log_p) over each target's masked references; (targets, records), -inf without.

    One sum over all models serves all targets, minus the terms of the target and its partner. Where hardly
    anything remains, those two dominate the sum, and the references are summed anew.
    """
    top = log_p.max(axis=0)
    weights = np.where(mask, np.exp(log_p - top), 0.0)
    total, n_all = weights.sum(axis=0), mask.sum(axis=0)
    log_means = np.empty((len(block.targets), log_p.shape[1]))
    for row, target in enumerate(block.targets):
        rest, n = total - weights[target], n_all - mask[target]
        if block.partners is not None:
            partner, columns = block.partners[row], np.arange(log_p.shape[1])
            has = partner >= 0
            rest = rest - np.where(has, weights[partner, columns], 0.0)
            n = n - (has & mask[partner, columns])
        with np.errstate(divide="ignore", invalid="ignore"):
            log_means[row] = np.where(n > 0, np.log(rest / n) + top, -np.inf)
        (again,) = np.nonzero((n > 0) & (rest < _LOST_DIGITS * total))
        if len(again):
            used = (block.is_reference(row) & mask)[:, again]
            log_means[row, again] = _log_mean(log_p[:, again], used)
    return log_means


def _log_mean(log_p: FloatArray, used: BoolArray) -> FloatArray:
    """Log of the mean of exp(log_p) over the used models, at least one per record."""
    references = np.where(used, log_p, -np.inf)
    top = references.max(axis=0)
    return np.asarray(top + np.log(np.exp(references - top).sum(axis=0) / used.sum(axis=0)))
