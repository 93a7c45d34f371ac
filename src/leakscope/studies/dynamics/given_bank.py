"""Outputs of models that were trained elsewhere, as the subject of the study.

An npz file, or a folder with one `.npy` file per array:

    design              bool (models, records), whether a model was trained on a record
    labels              int (records,)
    epochs              int (checkpoints,)
    log_odds            float (models, checkpoints, records)
    correct             optional, bool (models, checkpoints, records)
    accuracy            optional in its place, float (checkpoints, 2), on members and on non-members
    epistemic, aleatoric, ensemble_variance
                        optional, float (checkpoints, records), over the models not trained on a record

In a folder, every array over checkpoints may also be one file per checkpoint without that axis, such as
`log_odds_epoch010.npy`; `epochs` is then not needed. Files `logits_epochNNN.npy`, (models, records, classes),
give the uncertainties and the accuracy at their epochs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.audits.rows import write_rows
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.data.npz_file import read_arrays
from leakscope.data.registry import load
from leakscope.disk.npy import ArrayFileError, load_array
from leakscope.disk.string_arrays import numbered_ids
from leakscope.dynamics.complexity import nearest_neighbor_error
from leakscope.errors import InputError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.hardness.uncertainty import UNCERTAINTIES, uncertainty_at_checkpoints
from leakscope.studies.dynamics.settings import Setting
from leakscope.types import Design, digest_arrays

_SIGNALS = ("log_odds", "correct")
_PER_CHECKPOINT = re.compile(r"(\w+)_epoch(\d+)")


@dataclass(frozen=True, eq=False)
class GivenBank:
    """What the file or the folder holds.

    Attributes:
        name: of the file or the folder.
        design: who was in which training set.
        labels: int64 (records,).
        epochs: epochs of the checkpoints.
        signals: name -> (models, checkpoints, records).
        uncertainty: name -> float32 (checkpoints, records); NaN where unknown.
        accuracy: float64 (checkpoints, 2), on members and on non-members; NaN where unknown.
    """

    name: str
    design: Design
    labels: AnyArray
    epochs: tuple[int, ...]
    signals: Mapping[str, AnyArray]
    uncertainty: Mapping[str, FloatArray]
    accuracy: FloatArray

    def setting(self, described: Setting) -> Setting:
        """The setting as the user describes it, with what the outputs themselves say."""
        n_models, n_records = self.design.in_mask.shape
        steps = np.diff(self.epochs)
        return replace(described, bank=self.name, models=n_models, universe=n_records, epochs=self.epochs[-1],
                       every=int(steps[0]) if len(steps) else self.epochs[-1], gradient_models=0,
                       store_logits="epistemic" in self.uncertainty)  # fmt: skip

    def metadata(self, dataset: str) -> RecordMetadata:
        """The records by number; nothing else is known of them."""
        return RecordMetadata(numbered_ids(f"{dataset}-", len(self.labels)), self.labels.astype(np.str_))

    def complexity(self, dataset: str, data_dir: Path | None) -> float | None:
        """Nearest-neighbor error of the records; None where the dataset is not at hand or is another one."""
        try:
            records = load(dataset, data_dir)
        except InputError:  # the outputs are the subject; the records are a bonus
            return None
        n = len(self.labels)
        is_same = np.array_equal(records.labels[:n], self.labels)
        return nearest_neighbor_error(records.take(np.arange(n))) if is_same else None

    def write(self, folder: Path, dataset: str) -> Bank:
        """The outputs as a bank in a run folder."""
        identity = Identity(
            records=RecordsIdentity(dataset, len(self.labels), digest_arrays(self.labels)),
            design=DesignIdentity.of(self.design),
            recipe={
                "given": self.name,
                "sha256": digest_arrays(*self.signals.values()),
                "evaluated_epochs": list(self.epochs),
            },
            seed=0,
            signals=tuple(sorted(self.signals)),
            block_size=1,
        )

        def row(model: int) -> dict[str, AnyArray]:
            return {name: values[model][None] for name, values in self.signals.items()}

        note = "outputs of models that were trained elsewhere"
        return write_rows(folder, identity, self.design, self.labels, row, note)


def read_given_bank(path: Path) -> GivenBank:
    """The outputs in an npz file or in a folder of `.npy` files.

    Raises:
        InputError: an array is missing, or does not fit the others.
    """
    try:
        arrays = _folder_arrays(path) if path.is_dir() else read_arrays(path)
        return _given_bank(path.resolve().name, arrays)
    except InputError as error:
        raise InputError(f"bank={str(path)!r}: {error}") from error


def _folder_arrays(folder: Path) -> dict[str, AnyArray]:
    """Arrays of a folder; files per checkpoint are stacked along a new axis of checkpoints."""
    arrays: dict[str, AnyArray] = {}
    at_epochs: dict[str, dict[int, Path]] = {}
    for file in sorted(folder.glob("*.npy")):
        match = _PER_CHECKPOINT.fullmatch(file.stem)
        if match:
            at_epochs.setdefault(match[1], {})[int(match[2])] = file
        else:
            arrays[file.stem] = _file(file)
    if "log_odds" not in at_epochs:
        return arrays
    epochs = sorted(at_epochs["log_odds"])
    arrays["epochs"] = np.array(epochs)
    for name, files in at_epochs.items():
        if name == "logits":
            arrays |= _of_logits(files, epochs, arrays)
        elif sorted(files) == epochs:
            axis = 0 if name in UNCERTAINTIES else 1
            each = [_file(files[epoch]) for epoch in epochs]
            if len({values.shape for values in each}) > 1:
                raise InputError(f"the files of {name} have different shapes")
            arrays[name] = np.stack(each, axis=axis)
        else:
            raise InputError(f"{name} and log_odds are of different epochs")
    return arrays


def _of_logits(
    files: Mapping[int, Path], epochs: list[int], arrays: Mapping[str, AnyArray]
) -> dict[str, AnyArray]:
    """Uncertainty over the models not trained on a record, and accuracy, at the epochs with logits."""
    missing = [name for name in ("design", "labels") if name not in arrays]
    if missing:
        raise InputError(f"lacks {', '.join(missing)}")
    design, labels = np.asarray(arrays["design"], dtype=np.bool_), arrays["labels"]
    known: dict[str, AnyArray] = {
        name: np.full((len(epochs), design.shape[1]), np.nan, dtype=np.float32) for name in UNCERTAINTIES
    }
    known["accuracy"] = np.full((len(epochs), 2), np.nan)
    for at, epoch in enumerate(epochs):
        if epoch not in files:
            continue
        logits = _file(files[epoch])
        if logits.ndim != 3 or logits.shape[:2] != design.shape:
            raise InputError(
                f"{files[epoch].name} has shape {logits.shape}, expected {design.shape} and the classes"
            )
        for name, values in uncertainty_at_checkpoints(logits[:, None], ~design).items():
            known[name][at] = values[0]
        correct = logits.argmax(axis=2) == labels
        known["accuracy"][at] = [correct[design].mean(), correct[~design].mean()]
    return known


def _file(path: Path) -> AnyArray:
    try:
        return load_array(path)
    except ArrayFileError as error:
        raise InputError(f"{path.name} {error}") from error


def _given_bank(name: str, arrays: Mapping[str, AnyArray]) -> GivenBank:
    missing = [array for array in ("design", "labels", "epochs", "log_odds") if array not in arrays]
    if missing:
        raise InputError(f"lacks {', '.join(missing)}; see the documentation of --bank")
    in_mask, epochs = arrays["design"], tuple(int(epoch) for epoch in np.ravel(arrays["epochs"]))
    if in_mask.ndim != 2 or not np.isin(in_mask, (0, 1)).all():
        raise InputError(
            f"design has type {in_mask.dtype} and shape {in_mask.shape}; give bool (models, records)"
        )
    if not epochs or epochs[0] < 1 or list(epochs) != sorted(set(epochs)):
        raise InputError("epochs must be whole numbers of at least 1 that increase")
    n_models, n_records = in_mask.shape
    over_models, over_records = (n_models, len(epochs), n_records), (len(epochs), n_records)
    shapes = {
        "labels": (n_records,),
        **dict.fromkeys(_SIGNALS, over_models),
        **dict.fromkeys(UNCERTAINTIES, over_records),
        "accuracy": (len(epochs), 2),
    }
    for array, shape in shapes.items():
        if array in arrays:
            _check_array(array, arrays[array], shape)
    return GivenBank(
        name,
        Design(in_mask.astype(np.bool_)),
        arrays["labels"].astype(np.int64),
        epochs,
        {signal: _as_stored(signal, arrays[signal]) for signal in _SIGNALS if signal in arrays},
        {part: arrays[part].astype(np.float32) for part in UNCERTAINTIES if part in arrays},
        _accuracy(arrays, in_mask.astype(np.bool_), len(epochs)),
    )


def _check_array(name: str, values: AnyArray, shape: tuple[int, ...]) -> None:
    """Refuses what would be read as something else."""
    if values.shape != shape:
        raise InputError(f"{name} has shape {values.shape}, expected {shape}")
    if values.dtype.kind not in "biuf":
        raise InputError(f"{name} has type {values.dtype}; give real numbers")
    if name == "labels" and not (values == np.floor(values)).all():
        raise InputError("labels are not whole numbers; give the index of each record's class")
    if name == "correct" and not np.isin(values, (0, 1)).all():
        raise InputError("correct holds other values than 0 and 1; give bool")
    if name == "log_odds" and not np.isfinite(values).all():
        raise InputError("log_odds holds NaN or infinity; leave out models that diverged")


def _accuracy(arrays: Mapping[str, AnyArray], in_mask: BoolArray, n_checkpoints: int) -> FloatArray:
    """On members and on non-members at each checkpoint, as far as the arrays say."""
    if "correct" not in arrays:
        return np.asarray(arrays.get("accuracy", np.full((n_checkpoints, 2), np.nan)), dtype=np.float64)
    at_checkpoints = np.moveaxis(arrays["correct"].astype(np.bool_), 1, 0)
    return np.array([[correct[in_mask].mean(), correct[~in_mask].mean()] for correct in at_checkpoints])


def _as_stored(signal: str, values: AnyArray) -> AnyArray:
    """As bool or float32; attacks that add up float16 would round on the way."""
    return values.astype(np.bool_ if signal == "correct" else np.float32)
