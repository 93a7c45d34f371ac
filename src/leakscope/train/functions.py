"""The user's own training function, one model after the other: `train(records, indices, seed) -> predict`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import TrainingError
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import FunctionRecipe
from leakscope.signals.probabilities import log_probabilities
from leakscope.train.loop import BlockSignals, Progress, signals_of_outputs
from leakscope.types import Design, Records
from leakscope.user_code import user_errors

_SUM_TOLERANCE = 1e-3


def call_block(
    records: Records,
    design: Design,
    recipe: FunctionRecipe,
    models: IntArray,
    seed: int,
    signal_names: tuple[str, ...],
    progress: Progress = lambda _: None,
) -> BlockSignals:
    """Trains the models of one block with the user's function and evaluates them on their records."""
    outputs, labels = [], []
    for model in models.tolist():
        own_seed = seed_integer(seed, model, Purpose.ESTIMATOR, bits=31)
        with user_errors(recipe.name):
            predict = recipe.train(records, design.members(model), own_seed)
        queried = np.arange(len(records)) if design.columns is None else design.columns[model]
        outputs.append(_outputs(predict, records, queried, recipe.name))
        labels.append(records.labels[queried])
        progress(1)
    return signals_of_outputs(
        np.stack(outputs), np.stack(labels), design.in_mask[models], signal_names, "function"
    )


def _outputs(predict: Callable[[AnyArray], AnyArray], records: Records, at: IntArray, name: str) -> AnyArray:
    """One model's outputs as float32 (columns, outputs); probabilities become floored logarithms."""
    if not callable(predict):
        raise TrainingError(f"{name} returned {type(predict).__name__}; return a function predict(features)")
    with user_errors(f"predict of {name}"):
        outputs = np.asarray(predict(records.features[at]), dtype=np.float32)
    expected = (len(at), records.n_classes)
    if not records.is_classification:
        outputs = outputs.reshape(len(outputs), -1)
    if outputs.shape != expected:
        raise TrainingError(
            f"{name}: predict returned shape {outputs.shape} for {len(at)} records; expected {expected}, "
            "logits or probabilities of every class"
        )
    if records.is_classification and _are_probabilities(outputs):
        return log_probabilities(outputs)
    return outputs


def _are_probabilities(outputs: AnyArray) -> bool:
    """All within [0, 1] and every row adding up to 1, which logits never do on many records."""
    within = (outputs >= 0).all() and (outputs <= 1).all()
    return bool(within and (np.abs(outputs.sum(axis=1) - 1) < _SUM_TOLERANCE).all())
