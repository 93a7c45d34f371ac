"""Every measure of hardness and the signals it needs; high always means hard.

To add one, write a function of signals and a bool (models, records) mask in this package, and add a line to
`MEASURES`.
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
        needs: the signals it is computed from.
        n_checkpoints: the smallest number of checkpoints it is defined for.
        compute: from signals and membership, bool (models, records), to float64 (records,); high means hard,
            NaN for a record without any of the models that the measure averages over.
    """

    needs: tuple[str, ...]
    n_checkpoints: int
    compute: Callable[[Signals, BoolArray], FloatArray]


_LABELS = {
    "epistemic": "epistemic uncertainty",
    "aleatoric": "aleatoric uncertainty",
    "el2n": "EL2N",
    "loss_trace_spread": "loss-trace spread",
    "grand": "GraNd",
    "tracin": "TracIn",
}


def measure_label(measure: str) -> str:
    """The name of a measure as reports print it."""
    name = measure.removesuffix("_own_class")
    return _LABELS.get(name, name.replace("_", " ")) + (" (own class)" if name != measure else "")


def measured(signals: Signals, design: Design) -> dict[str, FloatArray]:
    """Every measure that the stored signals allow; name -> float64 (records,), NaN where undefined.

    `correct`, `loss` and `log_odds`, which a bank stores by default, give six measures; `logits` adds the
    entropies over all classes and EL2N. For GraNd and TracIn see `gradient_measures`.
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
    """GraNd and TracIn, from the gradient norms of a few retrained models (`train.gradient_norms`).

    Args:
        gradient_norms: float (retrained models, checkpoints, records).
        learning_rates: float (checkpoints,).
        epochs: epochs of the checkpoints.
        in_mask: bool (retrained models, records).

    Returns:
        "grand" and "tracin" -> float64 (records,), high means hard, NaN for a record in none of the models.
    """
    return {
        "grand": gradient_norm.early_norm(gradient_norms, in_mask, epochs),
        "tracin": self_influence.mean_tracin(gradient_norms, learning_rates, in_mask),
    }


def _uncertainty(part: str) -> Callable[[Signals, BoolArray], FloatArray]:
    def compute(signals: Signals, in_mask: BoolArray) -> FloatArray:
        return np.asarray(getattr(uncertainty.uncertainty_of_logits(signals.last("logits"), ~in_mask), part))

    return compute


def _own_class(part: str) -> Callable[[Signals, BoolArray], FloatArray]:
    def compute(signals: Signals, in_mask: BoolArray) -> FloatArray:
        return np.asarray(
            getattr(uncertainty.own_class_uncertainty(signals.last("log_odds"), ~in_mask), part)
        )

    return compute


def _el2n(signals: Signals, in_mask: BoolArray) -> FloatArray:
    early = gradient_norm.early_checkpoint(signals.epochs)
    return side_mean(gradient_norm.el2n(signals.arrays["logits"][:, early], signals.labels), in_mask)


MEASURES: dict[str, Measure] = {
    # Over OUT models at the last checkpoint: mutual information, mean entropy, entropy of the mean.
    "epistemic": Measure(("logits",), 1, _uncertainty("epistemic")),
    "aleatoric": Measure(("logits",), 1, _uncertainty("aleatoric")),
    "predictive_entropy": Measure(("logits",), 1, _uncertainty("predictive")),
    # The same for the two-way prediction "its own class or another".
    "epistemic_own_class": Measure(("log_odds",), 1, _own_class("epistemic")),
    "aleatoric_own_class": Measure(("log_odds",), 1, _own_class("aleatoric")),
    "predictive_entropy_own_class": Measure(("log_odds",), 1, _own_class("predictive")),
    # Over IN models.
    "el2n": Measure(("logits",), 2, _el2n),
    "epoch_first_learned": Measure(
        ("correct",), 2, lambda s, m: learning.mean_epoch_first_learned(s.arrays["correct"], m, s.epochs)
    ),
    "forgetting_events": Measure(
        ("correct",), 2, lambda s, m: learning.mean_forgetting_events(s.arrays["correct"], m)
    ),
    "loss_trace_spread": Measure(
        ("loss",), 2, lambda s, m: loss_trace.mean_loss_trace_spread(s.arrays["loss"], m)
    ),
}
"""Name -> measure."""
