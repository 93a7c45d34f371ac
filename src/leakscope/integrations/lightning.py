"""PyTorch Lightning: the monitor as a callback, and an audit of a LightningModule.

from leakscope.integrations import lightning

watch = lightning.monitor_callback()
Trainer(callbacks=[watch]).fit(model, loader)
watch.monitor.top(0.05)

verdict = lightning.audit(LitModel, make_trainer, train_set, batch_size=64, out="runs/mine")
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from leakscope.array_types import AnyArray, IntArray
from leakscope.audits.run import audit as run_audit
from leakscope.code_identity.description import name_of
from leakscope.disk.scratch import blocks
from leakscope.errors import InputError
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations.dataset_records import (
    fixed_draws,
    part_of,
    records_of,
    require_exact,
    seed_everything,
)
from leakscope.integrations.epoch_losses import EpochLosses, Losses
from leakscope.recipe import FunctionRecipe
from leakscope.types import Records

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_WHOLE_MODELS = ("SingleDeviceStrategy", "DDPStrategy")
_RECORDS_AT_ONCE = 1024


def monitor_callback(losses: Losses | None = None, every: int = 1) -> Any:
    """A callback whose `monitor` ranks the records of the training set by exposure.

    After every epoch, rank zero takes a pass over the training set; see `EpochLosses`.

    Args:
        losses: `losses(module, batch)` gives the loss of each record of a batch; by default, a batch is a
            pair (x, y), and the loss is the cross entropy of `module(x)`, or the squared error where y are
            real numbers.
        every: epochs from one pass to the next.
    """
    base = _lightning().Callback
    return type("MonitorCallback", (_Hooks, base), {})(losses or pair_losses, every)


def pair_losses(module: Any, batch: Any) -> torch.Tensor:
    """The loss of each record of a batch (x, y)."""
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        raise InputError(
            f"a batch is {type(batch).__name__}, not a pair (x, y); give losses=, a function of (module, "
            "batch) with one loss per record"
        )
    x, y = batch
    outputs = module(x)
    if y.is_floating_point():
        errors: torch.Tensor = outputs.reshape(len(y), -1) - y.reshape(len(y), -1)
        return errors.square().mean(dim=1)
    return functional.cross_entropy(outputs, y, reduction="none")


def audit(
    make_module: Callable[[], Any],
    make_trainer: Callable[[], Any],
    dataset: Any,
    batch_size: int = 32,
    out: Path | str = "runs/audit",
    **settings: Any,
) -> Verdict:
    """Audits a LightningModule: trains many on random halves of a dataset, and attacks them.

    Args:
        make_module: makes a new module, such as its class; `module(x)` gives logits or probabilities.
        make_trainer: makes a new trainer, without a logger, checkpoints and progress bar.
        dataset: of pairs (x, y), with a length.
        batch_size: of training.
        out: run folder.
        **settings: as in `leakscope.audit`, such as `models=16`.
    """
    train = training_function(make_module, make_trainer, batch_size, dataset)
    return run_audit(records(dataset), FunctionRecipe(train), out, **settings)


def records(dataset: Any) -> Records:
    """The records of a dataset of pairs (x, y), in its order."""
    with fixed_draws():
        pairs = [dataset[at] for at in range(len(dataset))]
    labels = torch.as_tensor([float(y) if _is_real(y) else int(y) for _, y in pairs])
    inputs = torch.stack([torch.as_tensor(x) for x, _ in pairs])
    require_exact("x", inputs)
    classes = [] if labels.is_floating_point() else list(map(str, range(int(labels.max()) + 1)))
    return records_of(inputs.float().numpy(), labels, classes, type(dataset).__name__)


def training_function(
    make_module: Callable[[], Any],
    make_trainer: Callable[[], Any],
    batch_size: int = 32,
    dataset: Any = None,
) -> Callable[[Records, IntArray, int], Callable[[AnyArray], AnyArray]]:
    """A training function for a population: `train(records, indices, seed) -> predict`.

    Args:
        make_module: makes a new module.
        make_trainer: makes a new trainer.
        batch_size: of training.
        dataset: what `indices` are positions in, with its augmentation; None: the features and labels of
            the records.
    """
    dtype = torch.float32 if dataset is None else torch.as_tensor(dataset[0][0]).dtype

    def train(records: Records, indices: IntArray, seed: int) -> Callable[[AnyArray], AnyArray]:
        seed_everything(seed)
        module = make_module()
        rows = _pairs(records, indices) if dataset is None else part_of(dataset, indices)
        order = torch.Generator().manual_seed(seed)
        loader = DataLoader(rows, batch_size=batch_size, shuffle=True, generator=order)
        with _without_notes():
            make_trainer().fit(module, loader)
        return lambda features: _outputs(module, features, dtype)

    train.__qualname__ = f"training_function({name_of(make_module)})"
    return train


@contextmanager
def _without_notes() -> Iterator[None]:
    """Switches off the notes of Lightning, which are the same for every model."""
    loggers = [logging.getLogger(name) for name in _PACKAGES]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _pairs(records: Records, indices: IntArray) -> TensorDataset:
    return TensorDataset(
        torch.from_numpy(records.features[indices]), torch.from_numpy(records.labels[indices])
    )


def _outputs(module: Any, features: AnyArray, dtype: torch.dtype) -> AnyArray:
    """Outputs of a trained module, which takes inputs of this type; (records, outputs)."""
    module.eval()
    parts = [torch.from_numpy(features[some]) for some in blocks(len(features), _RECORDS_AT_ONCE)]
    with torch.no_grad():
        outputs = [module(part.to(module.device, dtype)).float().cpu() for part in parts]
    return torch.cat(outputs).numpy()


def _is_real(label: Any) -> bool:
    return torch.as_tensor(label).is_floating_point()


class _Hooks(EpochLosses):
    """What the callback does, whichever package its base is from."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Tries the first batch, so that what is wrong is known before an epoch is trained."""
        strategy = type(trainer.strategy).__name__
        if trainer.world_size > 1 and strategy not in _WHOLE_MODELS:
            raise InputError(
                f"strategy={strategy}: rank zero does not hold the whole model, which the monitor needs; "
                "train with strategy='ddp' or on one device"
            )
        if trainer.is_global_zero:
            with trainer.precision_plugin.forward_context():
                self.try_first_batch(pl_module, trainer.train_dataloader, _mover(trainer, pl_module))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Watches the epoch, on rank zero."""
        if trainer.is_global_zero and (trainer.current_epoch + 1) % self.every == 0:
            with trainer.precision_plugin.forward_context():
                self.watch(pl_module, trainer.train_dataloader, _mover(trainer, pl_module))


def _mover(trainer: Any, module: Any) -> Callable[[Any], Any]:
    return lambda batch: trainer.strategy.batch_to_device(batch, module.device)


def _lightning() -> Any:
    """The package of the user: that which is imported, else that which is installed."""
    for name in _PACKAGES:
        if name in sys.modules:
            return sys.modules[name]
    for name in _PACKAGES:
        if find_spec(name.partition(".")[0]) is not None:
            return import_module(name)
    raise InputError("Lightning is not installed; install it with: pip install 'leakscope[lightning]'")
