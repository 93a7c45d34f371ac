"""Every measure of hardness, what it needs, and all of them at once.

Adding one: a function of signals and a bool (models, records) mask in a file of this room, and a line in
`MEASURES`. High always means hard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.hardness import gradient_norm, learning, loss_trace, self_influence, uncertainty
from leakscope.hardness.in_out_mean import record_mask, side_mean
from leakscope.types import Design, Signals


class Measure(NamedTuple):
    """One measure of hardness.

    Attributes:
        needs: signals it is computed from; all must be kept.
        n_checkpoints: fewest checkpoints it makes sense with.
        compute: from signals and who was in, bool (models, records), to float64 (records,); high = hard,
            NaN for a record without a model on the side the measure looks at.
        says: one line for a table or a caption.
    """

    needs: tuple[str, ...]
    n_checkpoints: int
    compute: Callable[[Signals, BoolArray], FloatArray]
    says: str


def measured(signals: Signals, design: Design) -> dict[str, FloatArray]:
    """Every measure the kept signals allow; name -> float64 (records,), high = hard, NaN where undefined.

    `correct`, `loss` and `log_odds` (what a bank keeps when nobody asks for more) give six of them;
    `logits` adds the entropies over all classes and EL2N. For GraNd and TracIn see `gradient_measures`.
    """
    in_mask = record_mask(design)
    return {
        name: measure.compute(signals, in_mask)
        for name, measure in MEASURES.items()
        if all(n in signals.arrays for n in measure.needs) and len(signals.epochs) >= measure.n_checkpoints
    }


def gradient_measures(
    gradient_norms: AnyArray, learning_rates: AnyArray, epochs: tuple[int, ...], in_mask: BoolArray
) -> dict[str, FloatArray]:
    """GraNd and TracIn, from what `train.gradient_norms` finds by training chosen models again.

    Args:
        gradient_norms: float (chosen models, checkpoints, records).
        learning_rates: float (checkpoints,).
        epochs: the checkpoints' epochs.
        in_mask: bool (chosen models, records).

    Returns:
        "grand" and "tracin" -> float64 (records,), high = hard, NaN for a record in none of the models.
    """
    return {
        "grand": gradient_norm.early_norm(gradient_norms, in_mask, epochs),
        "tracin": self_influence.mean_tracin(gradient_norms, learning_rates, in_mask),
    }


def _uncertainty(part: str) -> Callable[[Signals, BoolArray], FloatArray]:
    def compute(signals: Signals, in_mask: BoolArray) -> FloatArray:
        found = uncertainty.uncertainty_of_logits(signals.last("logits"), ~in_mask)
        return np.asarray(getattr(found, part))

    return compute


def _own_class(part: str) -> Callable[[Signals, BoolArray], FloatArray]:
    def compute(signals: Signals, in_mask: BoolArray) -> FloatArray:
        found = uncertainty.own_class_uncertainty(signals.last("log_odds"), ~in_mask)
        return np.asarray(getattr(found, part))

    return compute


def _el2n(signals: Signals, in_mask: BoolArray) -> FloatArray:
    early = gradient_norm.early_checkpoint(signals.epochs)
    return side_mean(gradient_norm.el2n(signals.arrays["logits"][:, early], signals.labels), in_mask)


MEASURES: dict[str, Measure] = {
    "epistemic": Measure(("logits",), 1, _uncertainty("epistemic"), "mutual information, OUT models"),
    "aleatoric": Measure(("logits",), 1, _uncertainty("aleatoric"), "mean entropy, OUT models"),
    "predictive_entropy": Measure(
        ("logits",), 1, _uncertainty("predictive"), "entropy of the mean prediction, OUT models"
    ),
    "epistemic_own_class": Measure(
        ("log_odds",), 1, _own_class("epistemic"), "mutual information of own class or another, OUT models"
    ),
    "aleatoric_own_class": Measure(
        ("log_odds",), 1, _own_class("aleatoric"), "mean entropy of own class or another, OUT models"
    ),
    "predictive_entropy_own_class": Measure(
        ("log_odds",), 1, _own_class("predictive"), "entropy of own class or another, OUT models"
    ),
    "el2n": Measure(("logits",), 2, _el2n, "error norm at a tenth of training, IN models"),
    "epoch_first_learned": Measure(
        ("correct",),
        2,
        lambda s, m: learning.mean_epoch_first_learned(s.arrays["correct"], m, s.epochs),
        "epoch first right, IN models",
    ),
    "forgetting_events": Measure(
        ("correct",),
        2,
        lambda s, m: learning.mean_forgetting_events(s.arrays["correct"], m),
        "times right then wrong, IN models",
    ),
    "loss_trace_spread": Measure(
        ("loss",),
        2,
        lambda s, m: loss_trace.mean_loss_trace_spread(s.arrays["loss"], m),
        "inter-quartile range of one model's loss over epochs, mean over IN models",
    ),
}
"""Name -> measure; high = hard."""
