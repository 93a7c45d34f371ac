"""The network figure's trainings: five tanh layers of fifty units, crossed like the regressions.

Ten thousand parameters from a random initialisation are far too many for a Gaussian from K trainings, so what
is measured is the network's answer about the record: one number, which an attacker who may only ask gets to
see. By data processing its leakage is at most that of the parameters: a lower bound on the white-box leakage.
In the experiment's terms the answer is the one parameter, and its input is 1.

IN and OUT of a draw share their initialisation as well as all but one record, and so do all sizes: common
random numbers. Every size trains for the same number of full-batch steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.leakage.experiment import Experiment, experiment, stacked
from leakscope.leakage.regressions import draw_others
from leakscope.randomness import Purpose, generator
from leakscope.recipe import Recipe
from leakscope.studies.leakage.study import N_FEATURES, LeakageConfig, Setting
from leakscope.studies.leakage.universe import Universe
from leakscope.types import Design, Records

_TOGETHER = 128  # networks in a stack
_WHOLE_SET = 1 << 20  # batch size, above any training set: full-batch steps

RECIPE = Recipe(
    net="mlp",
    net_options=(("activation", "tanh"), ("depth", 5), ("width", 50)),
    lr=0.003,
    batch_size=_WHOLE_SET,
    epochs=60,
)
"""How one network is trained: Adam, full batches, no regularisation."""


def network_experiments(
    config: LeakageConfig,
    everyone: Universe,
    figure: int,
    points: tuple[Setting, ...],
    say: Callable[[str], None],
) -> list[Experiment]:
    """One experiment a size, all chosen records in it."""
    largest = max(point.size for point in points)
    others = np.stack([_others(config, everyone, rank, largest) for rank in range(config.network_records)])
    found = []
    for point in points:
        say(f"figure {figure}: {2 * others.shape[0] * others.shape[1]:,} networks at n = {point.size}")
        found.append(_at_size(config, everyone, others[..., : point.size]))
    return found


def _others(config: LeakageConfig, everyone: Universe, rank: int, size: int) -> IntArray:
    """int64 (2 K, size)."""
    rng = generator(config.seed, 1 + rank, Purpose.DESIGN)
    record = int(everyone.chosen[rank])
    return draw_others(rng, len(everyone.targets), record, 2 * config.network_trials, size)


def _at_size(config: LeakageConfig, everyone: Universe, others: IntArray) -> Experiment:
    """The experiment from draws (records, 2 K, n)."""
    n_records, n_draws, size = others.shape
    record = np.broadcast_to(everyone.chosen[:n_records, None, None], (n_records, n_draws, 1))
    columns = np.concatenate([others, record], axis=2).reshape(-1, size + 1)  # the record is asked about last
    targets = everyone.targets[columns].reshape(n_records, 2, -1, size + 1)
    sides, losses = [], []
    for left_out in (size - 1, size):  # IN: the last other; OUT: the record
        in_mask = np.arange(size + 1) != left_out
        outputs = _answers(config, everyone, columns, in_mask).reshape(targets.shape)
        sides.append(outputs[..., -1])  # (records, 2, K)
        losses.append(np.square(outputs - targets)[..., in_mask].mean(axis=-1))
    threshold = np.mean(losses, axis=(0, 2, 3))  # (records,)
    about = zip(sides[0], sides[1], targets[:, 0, 0, -1], threshold, strict=True)
    return stacked(
        [
            experiment(inside[..., None], outside[..., None], np.ones(1), float(y), float(limit),
                       with_neighbours=True)
            for inside, outside, y, limit in about
        ]
    )  # fmt: skip


def _answers(config: LeakageConfig, everyone: Universe, columns: IntArray, in_mask: BoolArray) -> FloatArray:
    """Outputs of networks trained on their members, about all of their columns; float64 (models, columns)."""
    from leakscope.engine.local import device_of
    from leakscope.train.dense import DenseStack
    from leakscope.train.loop import initial_nets, inputs_from, train
    from leakscope.train.plan import BatchPlan

    device = device_of("cpu")  # another device rounds differently, and a study must give the same bytes
    inputs = inputs_from(_as_records(everyone), device)
    design = Design(np.broadcast_to(in_mask, columns.shape), columns)
    found = []
    for models in _stacks(len(columns)):
        stack = DenseStack(initial_nets(RECIPE, inputs, models, config.seed), 0.0, device)
        plan = BatchPlan(design, models, RECIPE.batch_size, config.seed)
        for _ in train(stack, inputs, plan, RECIPE):
            pass
        found.append(stack.outputs(inputs.x[columns[models]])[..., 0].numpy().astype(np.float64))
    return np.concatenate(found)


def _stacks(n_models: int) -> Iterator[IntArray]:
    for start in range(0, n_models, _TOGETHER):
        yield np.arange(start, min(start + _TOGETHER, n_models))


def _as_records(everyone: Universe) -> Records:
    """The components scaled to sd 1, as a network wants them."""
    x = everyone.features[:, :N_FEATURES]
    return Records((x / x.std(axis=0)).astype(np.float32), everyone.targets.astype(np.float32), everyone.ids,
                   name=everyone.name)  # fmt: skip
