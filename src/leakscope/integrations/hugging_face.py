"""Hugging Face: the monitor as a `TrainerCallback`, and an audit of what a `Trainer` trains.

from leakscope.integrations import hugging_face

watch = hugging_face.monitor_callback()
Trainer(..., callbacks=[watch]).train()
watch.monitor.top(0.05)

verdict = hugging_face.audit(trainer, out="runs/mine")  # of a Trainer with a model_init
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from leakscope.array_types import AnyArray, IntArray
from leakscope.audits.run import audit as run_audit
from leakscope.disk.scratch import blocks
from leakscope.errors import InputError
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations.dataset_records import Layout, fixed_draws, part_of, records_of, seed_everything
from leakscope.integrations.epoch_losses import EpochLosses, Losses
from leakscope.integrations.tracking import require
from leakscope.recipe import FunctionRecipe
from leakscope.types import Records

_LABELS = ("labels", "label")
_RECORDS_AT_ONCE = 256
_QUIET: Mapping[str, Any] = {
    "save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no", "report_to": [],
    "load_best_model_at_end": False, "push_to_hub": False, "hub_token": None, "disable_tqdm": True,
}  # fmt: skip
"""Arguments of a training of which only the model is wanted."""
_OF_ONE_TRAINING = frozenset(
    {"output_dir", "logging_dir", "run_name", "hub_model_id", "seed", "data_seed", "local_rank"}
)
"""Arguments that differ from model to model, or name a place."""


def monitor_callback(losses: Losses | None = None, every: int = 1) -> Any:
    """A callback whose `monitor` ranks the records of the training set by exposure.

    After every epoch, rank zero takes a pass over the training set; see `EpochLosses`.

    Args:
        losses: `losses(model, inputs)` gives the loss of each record of a collated batch; by default that of
            a classifier with one label per record, or of a regression.
        every: epochs from one pass to the next.
    """
    require("transformers", "transformers")
    from transformers import TrainerCallback

    return type("MonitorCallback", (_Hooks, TrainerCallback), {})(losses or head_losses, every)


def head_losses(model: Any, inputs: Any) -> torch.Tensor:
    """The loss of each record of a batch, for a model with a head for classification or regression."""
    name = next((name for name in _LABELS if name in inputs), None)
    labels = None if name is None else inputs[name]
    given = {key: value for key, value in inputs.items() if key not in _LABELS}
    logits = model(**given).logits if labels is not None and labels.ndim == 1 else None
    if labels is None or logits is None or logits.ndim != 2:
        raise InputError(
            "the model has no single label per record; give losses=, a function of (model, inputs) with one "
            "loss per record"
        )
    if labels.is_floating_point():
        errors: torch.Tensor = logits.squeeze(1) - labels
        return errors.square()
    return functional.cross_entropy(logits, labels, reduction="none")


def audit(trainer: Any, out: Path | str = "runs/audit", **settings: Any) -> Verdict:
    """Audits what a `Trainer` trains: trains many models on random halves of its training set.

    The trainer itself is not trained. Its callbacks, evaluations and checkpoints are left out.

    Args:
        trainer: a `Trainer` with a `model_init`, for a classifier or a regression with one label per record.
        out: run folder.
        **settings: as in `leakscope.audit`, such as `models=16`.
    """
    return run_audit(records(trainer), FunctionRecipe(training_function(trainer)), out, **settings)


def records(trainer: Any) -> Records:
    """The records of a trainer's training set, in its order."""
    inputs = _collated(trainer)
    labels = _popped_labels(inputs)
    config = trainer.model.config
    names = [str(config.id2label[at]) for at in range(config.num_labels)]
    name = str(getattr(trainer.train_dataset, "builder_name", None) or "training set")
    return records_of(Layout.of(inputs).features(inputs), labels, names, name)


def training_function(trainer: Any) -> TrainerFunction:
    """A training function for a population: `train(records, indices, seed) -> predict`."""
    if trainer.model_init is None:
        raise InputError(
            "the trainer has no model_init, so every model would continue from the same weights; write "
            "Trainer(model_init=lambda: ...) in place of Trainer(model=...)"
        )
    inputs = _collated(trainer)
    _popped_labels(inputs)
    given = trainer.args.to_dict()  # as texts and numbers, secrets masked
    unwanted = _OF_ONE_TRAINING | _QUIET.keys()
    arguments = {k: v for k, v in given.items() if v is not None and k not in unwanted}
    return TrainerFunction(
        type(trainer), type(trainer.args), trainer.model_init, arguments, trainer.data_collator,
        trainer.train_dataset, trainer.compute_loss_func, Layout.of(inputs),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainerFunction:
    """Trains one model of a population like a given trainer.

    Attributes:
        trainer_class: `Trainer`, or the user's subclass of it.
        arguments_class: `TrainingArguments`, or a subclass of it.
        model_init: makes a new model.
        arguments: the training arguments that may matter.
        collator: of the trainer.
        dataset: the whole training set.
        compute_loss: of the trainer; None: that of the model.
        layout: of the records' features.
    """

    trainer_class: Any
    arguments_class: Any
    model_init: Callable[..., Any]
    arguments: Mapping[str, Any]
    collator: Any
    dataset: Any
    compute_loss: Any
    layout: Layout

    def __call__(self, records: Records, indices: IntArray, seed: int) -> Callable[[AnyArray], AnyArray]:
        """Trains on the records at `indices`."""
        from transformers import PrinterCallback

        seed_everything(seed)
        with tempfile.TemporaryDirectory() as folder, _without_bars():
            own = {"output_dir": folder, "seed": seed, "data_seed": seed}
            trainer = self.trainer_class(
                model_init=self.model_init,
                args=self.arguments_class(**{**self.arguments, **_QUIET, **own}),
                data_collator=self.collator,
                train_dataset=part_of(self.dataset, indices),
                compute_loss_func=self.compute_loss,
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        return partial(_outputs, trainer.model, self.layout)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Switches off the bars that appear while weights are loaded."""
    from transformers.utils import logging

    were_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_shown:
            logging.enable_progress_bar()


def _collated(trainer: Any) -> dict[str, torch.Tensor]:
    """The whole training set as one batch of the trainer's collator, so all records have one length."""
    dataset = trainer.train_dataset
    if dataset is None or not hasattr(dataset, "__len__"):
        raise InputError("the trainer's train_dataset has no length; an audit needs one that has")
    with fixed_draws():
        collate = trainer.get_train_dataloader().collate_fn  # drops the columns that the model does not take
        batch = collate([dataset[at] for at in range(len(dataset))])
    return {name: values.cpu() for name, values in batch.items() if isinstance(values, torch.Tensor)}


def _popped_labels(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Takes the labels out of a batch."""
    name = next((name for name in _LABELS if name in inputs), None)
    if name is None:
        raise InputError(f"the records have no labels, only {', '.join(inputs)}")
    return inputs.pop(name)


def _outputs(model: Any, layout: Layout, features: AnyArray) -> AnyArray:
    """Logits of a trained model; (records, classes)."""
    model.eval()
    parts = [features[some] for some in blocks(len(features), _RECORDS_AT_ONCE)]
    with torch.no_grad():
        logits = [model(**_moved(layout.tensors(part), model)).logits.float().cpu() for part in parts]
    return torch.cat(logits).numpy()


def _moved(inputs: Any, model: Any) -> dict[str, object]:
    return {name: v.to(model.device) if hasattr(v, "to") else v for name, v in inputs.items()}


class _Hooks(EpochLosses):
    """What the callback does."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Tries the first batch, so that what is wrong is known before an epoch is trained."""
        if args.world_size > 1 and (args.fsdp or args.deepspeed):
            raise InputError(
                "rank zero does not hold the whole model with fsdp or deepspeed, which the monitor needs"
            )
        self._passes = 0
        if state.is_world_process_zero:
            model = given["model"]
            self.try_first_batch(model, given["train_dataloader"], partial(_moved, model=model))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Watches the epoch, on rank zero."""
        self._passes += 1
        if state.is_world_process_zero and self._passes % self.every == 0:
            model = given["model"]
            self.watch(model, given["train_dataloader"], partial(_moved, model=model))
