"""The trainings of the network figure: five tanh layers of fifty units, crossed like the regressions.

Ten thousand parameters from a random initialization are far too many for a Gaussian fitted to K trainings. So
the network's output on the record is measured instead: one number, all that a black-box attacker sees. By
data processing its leakage is at most that of the parameters. In the terms of the experiment, the output is
the one parameter, and its input is 1.

IN and OUT of a draw share their initialization as well as all but one record, and so do all sizes: common
random numbers. Every size trains for the same number of full-batch steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.leakage.experiment import Experiment, experiment, stacked
from leakscope.leakage.regressions import draw_others
from leakscope.randomness import Purpose, generator
from leakscope.recipe import Recipe
from leakscope.studies.leakage.config import N_FEATURES, LeakageConfig, Setting
from leakscope.studies.leakage.universe import Universe
from leakscope.types import Design, Records

_STACK_SIZE = 128  # networks trained together
_WHOLE_SET = 1 << 20  # batch size, above any training set: full-batch steps

RECIPE = Recipe(
    net="mlp",
    net_options=(("activation", "tanh"), ("depth", 5), ("width", 50)),
    lr=0.003,
    batch_size=_WHOLE_SET,
    epochs=60,
)
"""How one network is trained: Adam, full batches, no regularization."""


def network_experiments(
    config: LeakageConfig,
    universe: Universe,
    figure: int,
    points: tuple[Setting, ...],
    log: Callable[[str], None],
) -> list[Experiment]:
    """One experiment per size, with all chosen records; some of the sizes are trained as with all others."""
    largest = max(config.network_sizes)
    others = np.stack([_others(config, universe, rank, largest) for rank in range(config.network_records)])
    experiments = []
    for point in points:
        log(f"figure {figure}: {2 * others.shape[0] * others.shape[1]:,} networks at n = {point.size}")
        experiments.append(_at_size(config, universe, others[..., : point.size]))
    return experiments


def _others(config: LeakageConfig, universe: Universe, rank: int, size: int) -> IntArray:
    """Draws of other records; int64 (2 K, size)."""
    rng = generator(config.seed, 1 + rank, Purpose.DESIGN)
    record = int(universe.chosen[rank])
    return draw_others(rng, len(universe.targets), record, 2 * config.network_trials, size)


def _at_size(config: LeakageConfig, universe: Universe, others: IntArray) -> Experiment:
    """The experiment from draws (records, 2 K, n)."""
    n_records, n_draws, size = others.shape
    record = np.broadcast_to(universe.chosen[:n_records, None, None], (n_records, n_draws, 1))
    columns = np.concatenate([others, record], axis=2).reshape(-1, size + 1)  # the record comes last
    targets = universe.targets[columns].reshape(n_records, 2, -1, size + 1)
    sides, losses = [], []
    for left_out in (size - 1, size):  # IN: the last other; OUT: the record
        in_mask = np.arange(size + 1) != left_out
        outputs = _outputs(config, universe, columns, in_mask).reshape(targets.shape)
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


def _outputs(config: LeakageConfig, universe: Universe, columns: IntArray, in_mask: BoolArray) -> FloatArray:
    """Outputs of networks trained on their members, on all of their columns; float64 (models, columns)."""
    from leakscope.engine.local import device_of
    from leakscope.train.dense import DenseStack
    from leakscope.train.loop import initial_nets, inputs_from, train
    from leakscope.train.losses import PLAIN
    from leakscope.train.plan import BatchPlan

    device = device_of("cpu")  # other devices round differently, and a study must be reproducible to the byte
    inputs = inputs_from(_as_records(universe), device)
    design = Design(np.broadcast_to(in_mask, columns.shape), columns)
    outputs = []
    for models in np.split(np.arange(len(columns)), range(_STACK_SIZE, len(columns), _STACK_SIZE)):
        stack = DenseStack(initial_nets(RECIPE, inputs, models, config.seed), PLAIN, device)
        plan = BatchPlan(design, models, RECIPE.batch_size, config.seed)
        for _ in train(stack, inputs, plan, RECIPE):
            pass
        outputs.append(stack.outputs(inputs.x[columns[models]])[..., 0].numpy().astype(np.float64))
    return np.concatenate(outputs)


def _as_records(universe: Universe) -> Records:
    """The components scaled to standard deviation 1, for the network."""
    x = universe.features[:, :N_FEATURES]
    return Records((x / x.std(axis=0)).astype(np.float32), universe.targets.astype(np.float32), universe.ids,
                   name=universe.name)  # fmt: skip
