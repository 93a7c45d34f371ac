"""Every measure of hardness and the signals it needs; high always means hard.

To add one, write a function of signals and a bool (models, records) mask in this package, and add a line to
`MEASURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.hardness import training
from leakscope.hardness.in_out_mean import side_mean
from leakscope.hardness.uncertainty import Uncertainty, own_class_uncertainty, uncertainty_of_logits
from leakscope.types import Design, Signals


class Measure(NamedTuple):
    """One measure of hardness.

    Attributes:
        needs: the signal it is computed from.
        n_checkpoints: the smallest number of checkpoints it is defined for.
        compute: from signals and membership, bool (models, records), to float64 (records,); high means hard,
            NaN for a record without any of the models that the measure averages over.
    """

    needs: str
    n_checkpoints: int
    compute: Callable[[Signals, BoolArray], FloatArray]


_LABELS = {
    "epistemic": "epistemic uncertainty",
    "aleatoric": "aleatoric uncertainty",
    "el2n": "EL2N",
    "loss_trace_spread": "loss-trace spread",
    "loss_trace_spread_one_model": "loss-trace spread of one model",
    "monitor_one_model": "Monitor on one model",
    "epistemic_dropout": "epistemic uncertainty (dropout)",
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

    Raises:
        InputError: models were queried about different records, so columns are not records.
    """
    if design.columns is not None:
        raise InputError(
            "design.columns is set: hardness needs the same records for every model; "
            "measure each universe of records separately"
        )
    return {
        name: measure.compute(signals, design.in_mask)
        for name, measure in MEASURES.items()
        if measure.needs in signals.arrays and len(signals.epochs) >= measure.n_checkpoints
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
        "grand": side_mean(gradient_norms[:, training.early_checkpoint(epochs)], in_mask),
        "tracin": side_mean(training.tracin(gradient_norms, learning_rates), in_mask),
    }


def _over_in_models(signal: str, compute: Callable[[Signals], FloatArray]) -> Measure:
    """The mean over the models trained on a record of what `compute` gives, (models, records)."""
    return Measure(signal, 2, lambda signals, in_mask: side_mean(compute(signals), in_mask))


def _over_out_models(signal: str, split: Callable[[AnyArray, BoolArray], Uncertainty], part: str) -> Measure:
    """One part of the uncertainty at the last checkpoint over the models not trained on a record."""
    return Measure(
        signal, 1, lambda signals, in_mask: np.asarray(getattr(split(signals.last(signal), ~in_mask), part))
    )


def _early_el2n(signals: Signals) -> FloatArray:
    early = training.early_checkpoint(signals.epochs)
    return training.el2n(signals.arrays["logits"][:, early], signals.labels)


MEASURES: dict[str, Measure] = {
    # Over OUT models at the last checkpoint: mutual information, mean entropy, entropy of the mean, variance.
    "epistemic": _over_out_models("logits", uncertainty_of_logits, "epistemic"),
    "aleatoric": _over_out_models("logits", uncertainty_of_logits, "aleatoric"),
    "predictive_entropy": _over_out_models("logits", uncertainty_of_logits, "predictive"),
    "ensemble_variance": _over_out_models("logits", uncertainty_of_logits, "variance"),
    # The same for the two-way prediction "its own class or another".
    "epistemic_own_class": _over_out_models("log_odds", own_class_uncertainty, "epistemic"),
    "aleatoric_own_class": _over_out_models("log_odds", own_class_uncertainty, "aleatoric"),
    "predictive_entropy_own_class": _over_out_models("log_odds", own_class_uncertainty, "predictive"),
    "el2n": _over_in_models("logits", _early_el2n),
    "epoch_first_learned": _over_in_models(
        "correct", lambda signals: training.epoch_first_learned(signals.arrays["correct"], signals.epochs)
    ),
    "forgetting_events": _over_in_models(
        "correct", lambda signals: training.forgetting_events(signals.arrays["correct"])
    ),
    "loss_trace_spread": _over_in_models(
        "loss", lambda signals: training.loss_trace_spread(signals.arrays["loss"])
    ),
}
"""Name -> measure."""
