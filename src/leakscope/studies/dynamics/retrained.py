"""What the study measures on networks themselves: gradient norms, and passes with dropout enabled.

A bank stores outputs, not weights. Training is deterministic, so a few models of each bank are trained again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakscope.array_types import AnyArray, FloatArray
from leakscope.bank.run_folder import stored_array
from leakscope.disk.storage import write_array
from leakscope.hardness.in_out_mean import side_mean
from leakscope.hardness.registry import gradient_measures
from leakscope.hardness.uncertainty import uncertainty_of_logits
from leakscope.studies.dynamics.settings import Setting
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from torch import nn

    from leakscope.train.loop import Inputs

DROPOUT = "epistemic_dropout"
_PASSES = 50


def store_retrained(out: Path, setting: Setting, records: Records, design: Design, device: str) -> None:
    """Trains the first `gradient_models` models again and stores what is measured, unless already stored."""
    path = _path(out, "gradients", setting)
    if not setting.gradient_models or path.exists():
        return
    from leakscope.engine.local import device_of
    from leakscope.train.gradient_norms import at_checkpoints
    from leakscope.train.loop import inputs_from

    inputs = inputs_from(records, device_of(device))
    measured = [
        at_checkpoints(
            lambda net: _measured(net, inputs), inputs, design, setting.recipe(), model, setting.run_seed
        )
        for model in range(setting.gradient_models)
    ]
    norms, dropout = (np.array([[pair[k] for pair in model] for model in measured]) for k in (0, 1))
    if setting.dropout:
        _write(_path(out, "dropout", setting), dropout)
    _write(path, norms)  # last: where it is there, everything is


def gradient_hardness(out: Path, setting: Setting, design: Design) -> dict[str, FloatArray]:
    """GraNd and TracIn -> (records,), high means hard; empty where no model was trained again."""
    if not setting.gradient_models:
        return {}
    recipe = setting.recipe()
    rates = np.array([recipe.lr * recipe.lr_factor(epoch - 1) for epoch in recipe.evaluated_epochs])
    norms, in_mask = stored_array(_path(out, "gradients", setting)), _retrained(design, setting).in_mask
    return gradient_measures(norms, rates, recipe.evaluated_epochs, in_mask)


def dropout_uncertainty(out: Path, setting: Setting, design: Design) -> dict[str, FloatArray]:
    """Epistemic uncertainty over passes with dropout -> (checkpoints, records).

    The mean over the retrained models that were not trained on a record, NaN where there are none; empty
    where the network has no dropout.
    """
    if not (setting.gradient_models and setting.dropout):
        return {}
    by_model, is_out = stored_array(_path(out, "dropout", setting)), ~_retrained(design, setting).in_mask
    return {
        DROPOUT: np.stack([side_mean(at_checkpoint, is_out) for at_checkpoint in by_model.swapaxes(0, 1)])
    }


def _measured(net: nn.Module, inputs: Inputs) -> tuple[AnyArray, AnyArray]:
    """Gradient norms, and the epistemic uncertainty over passes with dropout; float32 (records,) each."""
    from leakscope.train.dropout import dropout_passes
    from leakscope.train.gradient_norms import record_gradient_norms

    norms = record_gradient_norms(net, inputs.x, inputs.y).cpu().numpy()
    passes = dropout_passes(net, inputs.x, _PASSES)
    epistemic = np.zeros(len(norms)) if passes is None else uncertainty_of_logits(passes).epistemic
    return norms, epistemic.astype(np.float32)


def _retrained(design: Design, setting: Setting) -> Design:
    return design.take(np.arange(setting.gradient_models))


def _write(path: Path, array: AnyArray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_array(path, array)


def _path(out: Path, folder: str, setting: Setting) -> Path:
    return out / folder / f"{setting.name}.npy"
