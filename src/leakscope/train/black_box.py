"""Models trained by code that is not ours: scikit-learn estimators, and the user's own training function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import UntrainableError
from leakscope.frames.frame import Frame
from leakscope.models.outputs import are_probabilities
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import EstimatorRecipe, FunctionRecipe
from leakscope.signals.asked import NOTHING_ELSE, Asked, check_queries_of_table
from leakscope.signals.functions import classification_signals, regression_signals
from leakscope.signals.probabilities import log_probabilities
from leakscope.signals.queries import (
    label_robustness_of,
    query_log_odds_of,
    table_label_robustness,
)
from leakscope.signals.registry import LABEL_ROBUSTNESS, QUERY_LOG_ODDS, of_outputs
from leakscope.signals.residuals import label_spread
from leakscope.train.block import BlockSignals, Progress
from leakscope.train.estimators import Predict, fitted_estimator
from leakscope.train.plan import rows_of
from leakscope.train.queries import Drawn, random_inputs, returned
from leakscope.types import Design, Records
from leakscope.user_code import user_errors


def fit_block(
    records: Records,
    design: Design,
    recipe: EstimatorRecipe | FunctionRecipe,
    models: IntArray,
    seed: int,
    signal_names: tuple[str, ...],
    progress: Progress = lambda _: None,
    asked: Asked = NOTHING_ELSE,
) -> BlockSignals:
    """Fits models one after the other and evaluates them on their records."""
    trainer = "function" if isinstance(recipe, FunctionRecipe) else "estimators"
    shown = asked.outputs
    at_random = random_inputs(records.features, seed) if shown.random_values else None
    outputs, again, names = [], list[dict[str, AnyArray]](), of_outputs(signal_names)
    for m in models.tolist():
        if isinstance(recipe, FunctionRecipe):
            predict = _called(recipe, records, design, seed, m)
        else:
            predict = fitted_estimator(recipe, records, design, seed, m)
        answers = predict(_inputs_of(recipe, records, _queried(design, m)))
        of_random = answers[:0] if at_random is None else predict(at_random)
        drawn = Drawn(seed, m, len(answers))
        outputs.append(returned(answers, of_random, shown, drawn))
        answering = Answering(of_random, drawn, _table(recipe, records))
        again.append(queried_again(predict, records, signal_names, asked, answering))
        progress(1)
    labels = np.stack([records.labels[_queried(design, m)] for m in models.tolist()])
    spread = 1.0 if records.is_classification else label_spread(records.labels)
    block = _signals_of_outputs(np.stack(outputs), labels, spread, names, trainer)
    for name in again[0]:
        block.signals[name] = np.stack([one[name] for one in again])[:, None]
    return block


def _inputs_of(recipe: EstimatorRecipe | FunctionRecipe, records: Records, rows: slice | IntArray) -> Any:
    """A copy of what a model is queried with: its user's code may change it."""
    table = _table(recipe, records)
    if table is None:
        return np.array(records.features[rows])
    return table.rows(None if isinstance(rows, slice) else rows)


def _table(recipe: EstimatorRecipe | FunctionRecipe, records: Records) -> Frame | None:
    """The table that models get as it is; None: they get features."""
    return None if isinstance(recipe, FunctionRecipe) else records.frame


class Answering(NamedTuple):
    """How one model answers.

    Attributes:
        of_random_inputs: its outputs on random inputs, where queries return their values.
        drawn: what decides which of these answers.
        table: what the model is queried with; None: features of the records.
    """

    of_random_inputs: AnyArray
    drawn: Drawn
    table: Frame | None = None


def queried_again(
    predict: Predict, records: Records, signal_names: tuple[str, ...], asked: Asked, answering: Answering
) -> dict[str, AnyArray]:
    """The signals for which one model is queried about changed records; name -> (records[, queries])."""
    features, labels, signals = records.features, records.labels, dict[str, AnyArray]()
    if LABEL_ROBUSTNESS in signal_names and answering.table is not None:
        signals[LABEL_ROBUSTNESS] = table_label_robustness(predict, answering.table, labels)
    elif LABEL_ROBUSTNESS in signal_names:
        signals[LABEL_ROBUSTNESS] = label_robustness_of(predict, features, labels)
    if QUERY_LOG_ODDS in signal_names:
        check_queries_of_table(answering.table)

        def shown(changed: AnyArray, rows: slice, query: int) -> AnyArray:
            drawn = answering.drawn._replace(query=query)
            return returned(predict(changed), answering.of_random_inputs, asked.outputs, drawn, rows)

        signals[QUERY_LOG_ODDS] = query_log_odds_of(shown, features, labels, asked.queries)
    return signals


def _queried(design: Design, model: int) -> slice | IntArray:
    """The records that a model is queried about."""
    return slice(None) if design.columns is None else design.columns[model]


def _called(recipe: FunctionRecipe, records: Records, design: Design, seed: int, model: int) -> Predict:
    """One model of the user's function."""
    name, own_seed = recipe.name, seed_integer(seed, model, Purpose.ESTIMATOR, bits=31)
    with user_errors(name):
        predict = recipe.train(records, rows_of(design, model, records.copies), own_seed)
    if not callable(predict):
        raise UntrainableError(
            f"{name} returned {type(predict).__name__}; return a function predict(features)"
        )
    return partial(_answers, recipe.name, predict, records)


def _answers(name: str, predict: Callable[..., Any], records: Records, features: AnyArray) -> AnyArray:
    """The outputs of a user's model, checked; probabilities become floored logarithms."""
    with user_errors(f"predict of {name}"):
        outputs = np.asarray(predict(features), dtype=np.float32)
    expected = (len(features), records.n_classes)
    if not records.is_classification:
        outputs = outputs.reshape(len(outputs), -1)
    if outputs.shape != expected:
        meaning = "logits or probabilities of every class" if records.is_classification else "one number each"
        raise UntrainableError(
            f"{name}: predict returned shape {outputs.shape} for {len(features)} records; expected "
            f"{expected}, {meaning}"
        )
    if records.is_classification and are_probabilities(outputs):
        return log_probabilities(np.clip(outputs, 0, 1))
    return outputs


def _signals_of_outputs(
    outputs: AnyArray, labels: AnyArray, spread: float, signal_names: tuple[str, ...], trainer: str
) -> BlockSignals:
    """The signals of models that were trained elsewhere and evaluated once.

    Outputs are float32 (models, columns, outputs), labels are (models, columns); `spread` is that of numeric
    labels.
    """
    z, y = torch.from_numpy(outputs), torch.from_numpy(labels)
    # Model by model: the last bits of a vectorised sum depend on what is computed beside it.
    alone = [slice(model, model + 1) for model in range(len(z))]
    if y.is_floating_point():
        parts = [regression_signals(z[m, :, 0], y[m], spread, signal_names) for m in alone]
    else:
        parts = [classification_signals(z[m], y[m], signal_names) for m in alone]
    one_checkpoint = {
        name: torch.cat([part[name] for part in parts]).numpy()[:, None] for name in signal_names
    }
    diverged_at = np.asarray(~np.isfinite(outputs).all(axis=(1, 2)), dtype=np.int64)
    return BlockSignals(one_checkpoint, diverged_at, trainer)
