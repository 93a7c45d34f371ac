"""Small perceptrons trained and evaluated without torch, whose loading would take longer than their training.

They have the parameters that torch would give them: the same initialisation, the same batches, the same
compiled code. Only their outputs are computed by numpy, so these differ by rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.disk.scratch import on_threads
from leakscope.models.perceptron import ACTIVATIONS, Floats, Perceptron, perceptron_of
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import Recipe
from leakscope.signals.of_arrays import signals_of_logits, signals_of_numbers
from leakscope.signals.registry import find_signal, task_of_records
from leakscope.signals.residuals import label_spread
from leakscope.train import compiled
from leakscope.train.block import UNFOLLOWED, BlockSignals, Follow
from leakscope.train.compiled import Batches, CompiledTraining, Layers, knows_settings, perceptron_library
from leakscope.train.plan import BatchPlan, all_members, batch_shape, trained_on
from leakscope.train.smoothing import smoothing_of
from leakscope.types import Design, Records

MOST_PRODUCTS = 10e9
"""In the training of one model, about a second: nothing is saved before a model is trained."""
_MOST_BYTES = 1 << 26
"""Of features: more of them are read from disk block by block."""


@dataclass(frozen=True, eq=False)
class Perceptrons:
    """The networks of one recipe on some records.

    Attributes:
        records: the records.
        recipe: how to train.
        net: the networks' shape.
        products: multiplications in the training of the largest model.
    """

    records: Records
    recipe: Recipe
    net: Perceptron
    products: float

    @classmethod
    def of(cls, records: Records, recipe: Recipe, signal_names: tuple[str, ...]) -> Perceptrons | None:
        """None where torch has to train: another network or recipe, other signals, or long training."""
        shape, n_outputs = tuple(records.features.shape[1:]), records.n_classes
        net = perceptron_of(recipe.net, dict(recipe.net_options), shape, n_outputs)
        if net is None or net.n_parameters > compiled.MOST_PARAMETERS or not _knows(records, recipe):
            return None
        signals = [find_signal(name, task_of_records(records)) for name in signal_names]
        if any(signal.is_own or signal.inputs == "queries" for signal in signals):
            return None
        n_rows = len(records) if records.copies is None else int(records.copies.sum())
        batch, steps = batch_shape(n_rows, recipe.batch_size)
        products = 3.0 * batch * steps * recipe.epochs * net.n_parameters
        if products > MOST_PRODUCTS or perceptron_library() is None:
            return None
        return cls(records, recipe, net, products)

    @property
    def models_at_once(self) -> int:
        """As many as are trained in about a second."""
        return max(1, int(_n_threads() * MOST_PRODUCTS / self.products))

    @cached_property
    def _x(self) -> Floats:
        return np.ascontiguousarray(self.records.features.reshape(len(self.records), -1))

    @cached_property
    def _centre(self) -> float:
        """The lower median of numeric labels, as torch has it."""
        labels = self.records.labels
        return float(np.partition(labels, (len(labels) - 1) // 2)[(len(labels) - 1) // 2])

    @cached_property
    def _spread(self) -> float:
        return label_spread(self.records.labels)

    @cached_property
    def _y(self) -> AnyArray:
        """Class indices, or numeric labels with median 0 and spread 1."""
        labels = self.records.labels
        if self.records.is_classification:
            return np.ascontiguousarray(labels, dtype=np.int64)
        return ((labels.astype(np.float64) - self._centre) / self._spread).astype(np.float32)

    def train(
        self,
        design: Design,
        models: IntArray,
        seed: int,
        signal_names: tuple[str, ...],
        follow: Follow = UNFOLLOWED,
    ) -> BlockSignals:
        """Trains these models and evaluates them on all records."""
        block = _Block(self, self._plan(design, models, seed), seed)
        checkpoints, diverged_at, n_done = [], np.zeros(len(models), dtype=np.int64), 0
        for epoch in block.train(self._x, self._y):
            follow.progress(len(models) * (epoch - n_done) / self.recipe.epochs)
            n_done = epoch
            if epoch not in self.recipe.evaluated_epochs:
                continue
            checkpoints.append(self._signals(block, signal_names))
            is_finite = block.is_finite() & _are_finite(checkpoints[-1])
            diverged_at[(diverged_at == 0) & ~is_finite] = epoch
        signals = {name: np.stack([at[name] for at in checkpoints], axis=1) for name in signal_names}
        return BlockSignals(signals, diverged_at, "dense")

    def _plan(self, design: Design, models: IntArray, seed: int) -> BatchPlan:
        own, copies = trained_on(self.records, design, self.recipe)
        return BatchPlan(own, models, self.recipe.batch_size, seed, all_members(own, models, copies))

    def _signals(self, block: _Block, names: tuple[str, ...]) -> dict[str, AnyArray]:
        """Name -> (models, records[, classes])."""
        from threadpoolctl import threadpool_limits

        def of_model(own: list[Floats]) -> dict[str, AnyArray]:
            with np.errstate(all="ignore"):  # a model may diverge
                return self._of_outputs(self.net.outputs(own, self._x), names)

        n_numbers = len(self.records) * sum(self.net.sizes)
        with threadpool_limits(1, user_api="blas"):  # its threads would wait awake for cores in use
            of_models = on_threads(of_model, [*block.of_models()], n_numbers)
        return {name: np.stack([signals[name] for signals in of_models]) for name in names}

    def _of_outputs(self, outputs: Floats, names: tuple[str, ...]) -> dict[str, AnyArray]:
        if self.records.is_classification:
            return signals_of_logits(outputs, self.records.labels, names)
        numbers = np.float32(self._centre) + np.float32(self._spread) * outputs[:, 0]
        return signals_of_numbers(numbers, self.records.labels, self._spread, names)


class _Block:
    """Some models in training."""

    def __init__(self, of: Perceptrons, plan: BatchPlan, seed: int) -> None:
        self._plan, self._recipe, self._net = plan, of.recipe, of.net
        n_hidden = len(of.net.sizes) - 2
        self._layers = Layers.of(of.net.sizes, [ACTIVATIONS.index(of.net.activation) + 1] * n_hidden + [0])
        seeds = [seed_integer(seed, int(model), Purpose.INITIALISATION) for model in plan.models]
        drawn = zip(*map(of.net.initial, seeds), strict=True)
        self._parameters = [*map(self._stored, range(2 * n_hidden + 2), map(np.stack, drawn))]

    def _stored(self, position: int, values: Floats) -> Floats:
        """As perceptrons.c has them: the longer side of a weight last."""
        is_tall = position % 2 == 0 and self._layers.is_tall[position // 2]
        return np.ascontiguousarray(values.transpose(0, 2, 1) if is_tall else values)

    def train(self, x: Floats, y: AnyArray) -> Iterator[int]:
        """Trains to the end; yields the number of epochs done, at least at the recipe's checkpoints."""
        recipe, plan = self._recipe, self._plan
        n_moments = 2 if recipe.optimizer != "sgd" else int(recipe.momentum > 0)
        moments = [[np.zeros_like(p) for p in self._parameters] for _ in range(n_moments)]
        smoothing = smoothing_of(recipe.label_smoothing, recipe.label_entropy, self._net.sizes[-1])
        state, library = [self._parameters, *moments], perceptron_library()
        assert library is not None, "Perceptrons.of found it"
        training = CompiledTraining(library, self._layers, state, plan, recipe, smoothing, _n_threads())
        training.train_on(x, y)
        most = max(1, int(compiled.PRODUCTS_WORTH_A_CALL / (training.products_per_step * plan.steps)))
        waiting, evaluated = list[AnyArray](), set(recipe.evaluated_epochs)
        for epoch, order in enumerate(plan.epochs(recipe.epochs)):
            waiting.append(order)
            done = epoch + 1
            if done in evaluated or done == recipe.epochs or len(waiting) >= most:
                training.take(self._batches(waiting, done), (done - len(waiting)) * plan.steps)
                waiting = []
                yield done

    def _batches(self, orders: list[AnyArray], until: int) -> Batches:
        """Those of the last epochs before `until`."""
        plan, recipe = self._plan, self._recipe
        steps = np.arange((until - len(orders)) * plan.steps, until * plan.steps)
        lr = [recipe.lr * recipe.lr_factor(step / plan.steps) for step in steps.tolist()]
        weight, idle = (np.concatenate([each] * len(orders)) for each in (plan.row_weight, plan.idle))
        return Batches(np.concatenate(orders), weight, np.zeros(len(steps)), idle, lr)

    def of_models(self) -> Iterator[list[Floats]]:
        """Each model's weights (units, inputs) and biases (units,) in turn."""
        for model in range(len(self._plan.models)):
            yield [
                values[model].T if n % 2 == 0 and self._layers.is_tall[n // 2] else values[model]
                for n, values in enumerate(self._parameters)
            ]

    def is_finite(self) -> BoolArray:
        """bool (models,): all parameters are."""
        return np.asarray(np.all([_finite(values) for values in self._parameters], axis=0))


def _knows(records: Records, recipe: Recipe) -> bool:
    """Whether compiled code trains on these records in this way, without a state that has to be saved."""
    is_plain = recipe.privacy is None and recipe.treatment is None and recipe.distillation is None
    is_usual = recipe.precision == "float32" and recipe.trainer != "serial"
    is_small = records.features.dtype == np.float32 and records.features.nbytes <= _MOST_BYTES
    return is_plain and is_usual and is_small and records.frame is None and knows_settings(recipe)


def _n_threads() -> int:
    """As many as torch would use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else len(os.sched_getaffinity(0))


def _are_finite(signals: dict[str, AnyArray]) -> BoolArray:
    return np.asarray(np.all([_finite(values) for values in signals.values()], axis=0))


def _finite(values: AnyArray) -> BoolArray:
    return np.asarray(np.isfinite(values).all(axis=tuple(range(1, values.ndim))))
