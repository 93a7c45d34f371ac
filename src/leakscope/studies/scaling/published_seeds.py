"""Targets and shadow models trained as the publication trains them, seed by seed.

The engine draws initial weights and batches from streams of its own, so that models can be trained side by
side. The publication seeds torch's global generator before it builds a model and again before it trains it.
This loop does the same, one model after another: what differs from the published table then is floating-point
rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.run_folder import stored_array
from leakscope.data.gaussian import member_order
from leakscope.disk.storage import write_array
from leakscope.studies.scaling.config import ScalingConfig, recipe
from leakscope.studies.scaling.population import repeat_seed, split_seeds
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from torch import nn

FOLDER = "published_seeds"
"""Folder of the logits in a run folder, one array per width."""


def logits_file(out: Path, width: int) -> Path:
    """The logits of one width: float32 (models, records, classes), targets first, then shadow models."""
    return out / FOLDER / f"width-{width:05d}.npy"


def train_missing(
    config: ScalingConfig, records: Records, design: Design, out: Path, progress: Callable[[float], None]
) -> None:
    """Trains every width whose logits are not yet in the run folder."""
    for width in config.hidden_widths:
        file = logits_file(out, width)
        if not file.exists():
            write_array(file, _trained_width(config, width, records, design, progress))


def stored_logits(config: ScalingConfig, out: Path) -> list[AnyArray]:
    """The logits of all widths; empty unless the study uses the publication's seeds."""
    return [stored_array(logits_file(out, w)) for w in config.hidden_widths] if config.published_seeds else []


def training_seeds(config: ScalingConfig) -> list[int]:
    """torch's seeds: one per target, then one per shadow model."""
    repeats = [repeat_seed(config, repeat) for repeat in range(config.n_repeats)]
    return [*repeats, *(seed + 3000 + 50 * i for seed in repeats for i in range(config.n_shadow))]


def _trained_width(
    config: ScalingConfig, width: int, records: Records, design: Design, progress: Callable[[float], None]
) -> npt.NDArray[np.float32]:
    import torch

    assert design.columns is not None
    logits = []
    seeds = zip(training_seeds(config), split_seeds(config), strict=True)
    with torch.random.fork_rng(devices=[]):
        for rows, (seed, split_seed) in zip(design.columns, seeds, strict=False):
            features, labels = records.features[rows], records.labels[rows]
            members = member_order(split_seed, config.n_samples, config.train_fraction)
            net = _trained(config, width, features[members], labels[members], seed)
            with torch.inference_mode():
                logits.append(net(torch.from_numpy(features)).numpy())
            progress(1)
    return np.stack(logits)


def _trained(config: ScalingConfig, width: int, features: AnyArray, labels: IntArray, seed: int) -> nn.Module:
    """One model. The order of the records is part of the protocol: batches are drawn from it."""
    import torch
    from torch import nn

    published = recipe(width)
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(config.n_features, width), nn.ReLU(), nn.Linear(width, config.n_classes))
    torch.manual_seed(seed)
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=published.lr)
    for _ in range(published.epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x), published.batch_size):
            batch = order[start : start + published.batch_size]
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(net(x[batch]), y[batch]))
            optimizer.step()
    return net
