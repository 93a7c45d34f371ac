"""The loss of every record after an epoch, for a monitor inside somebody else's training loop.

A trainer shuffles, collates and accumulates, and computes one number per batch. The monitor needs one loss
per record, and the index of the record. So the callback takes a pass of its own over the training set, in
order: the index of a record is its position in the training set, whatever sampler and collator do. The pass
restores the state of every random generator and the mode of every module, so the trained weights are the same
with and without the monitor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from leakscope.array_types import FloatArray
from leakscope.dynamics.monitor import Monitor
from leakscope.errors import InputError
from leakscope.integrations.dataset_records import restored_generators

Losses = Callable[[Any, Any], torch.Tensor]
"""(model, batch) -> float (records of the batch,), at least 0."""


class EpochLosses:
    """Gives a monitor the losses of all records after every `every`-th epoch.

    Attributes:
        losses: the loss of each record of a batch.
        every: epochs from one pass to the next.
    """

    def __init__(self, losses: Losses, every: int) -> None:
        if every < 1:
            raise InputError(f"every={every}: must be at least 1")
        self.losses, self.every = losses, every
        self._monitor: Monitor | None = None

    @property
    def monitor(self) -> Monitor:
        """The monitor; records are numbered by their positions in the training set."""
        if self._monitor is None:
            raise InputError(
                "no epoch was watched yet: train first; of several processes, only rank zero has the monitor"
            )
        return self._monitor

    def try_first_batch(self, model: Any, loader: Any, move: Callable[[Any], Any]) -> None:
        """Raises before the first epoch what the pass after it would raise."""
        self._of_batches(model, _in_order(loader), move, most=1)

    def watch(self, model: Any, loader: Any, move: Callable[[Any], Any]) -> None:
        """Takes the pass, and updates the monitor; records whose loss is not finite are left out."""
        values = self._of_batches(model, _in_order(loader), move)
        if self._monitor is None:
            self._monitor = Monitor(len(values))
        finite = np.flatnonzero(np.isfinite(values))
        if len(finite) < len(values):
            n_bad = len(values) - len(finite)
            warnings.warn(
                f"leakscope: the losses of {n_bad:,} of {len(values):,} records are NaN or infinite; the "
                "monitor leaves these records out of this epoch",
                stacklevel=2,
            )
        if len(finite):
            self._monitor.update(values[finite], finite)

    def _of_batches(
        self, model: Any, loader: Any, move: Callable[[Any], Any], most: int | None = None
    ) -> FloatArray:
        values: list[FloatArray] = []
        with undisturbed(model):
            for number, batch in enumerate(loader):
                if number == most:
                    break
                values.append(self.losses(model, move(batch)).detach().double().cpu().numpy())
        together: FloatArray = np.concatenate(values)
        n_expected = len(loader.dataset) if most is None else min(loader.batch_size, len(loader.dataset))
        if together.shape != (n_expected,):
            raise InputError(
                f"losses gave shape {together.shape} for {n_expected:,} records; give one number per record"
            )
        return together


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards, random states and modes are what they were before."""
    modes = [(module, module.training) for module in model.modules()]
    with restored_generators(), torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            for module, is_training in modes:
                module.training = is_training


def _in_order(loader: Any) -> DataLoader[Any]:
    """The records of a training loader, in the order of its dataset, none left out."""
    dataset = getattr(loader, "dataset", None)
    if dataset is None or isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InputError(
            f"the training set is {type(loader if dataset is None else dataset).__name__}: the monitor needs "
            "one DataLoader over a dataset with a length; else call Monitor.update in a loop of your own"
        )
    batch_size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 32
    return DataLoader(
        dataset, batch_size=batch_size, collate_fn=loader.collate_fn, num_workers=loader.num_workers
    )
