"""GraNd and TracIn for the dynamics study: retrains a few models and stores their gradient norms.

A bank stores outputs, not weights. Training is deterministic, so `train.gradient_norms` trains the same
models again. The norms are stored in `gradients/NAME.npy`; recomputing the results trains nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.bank.run_folder import stored_array
from leakscope.disk.storage import write_array
from leakscope.hardness.registry import gradient_measures
from leakscope.studies.dynamics.settings import Setting
from leakscope.types import Design, Records


def store_gradient_norms(out: Path, setting: Setting, records: Records, design: Design, device: str) -> None:
    """Retrains the first `gradient_models` models and stores their gradient norms, unless already stored."""
    path = _path(out, setting)
    if not setting.gradient_models or path.exists():
        return
    from leakscope.engine.local import device_of
    from leakscope.train.gradient_norms import gradient_norms
    from leakscope.train.loop import inputs_from

    inputs = inputs_from(records, device_of(device))
    models = np.arange(setting.gradient_models)
    retrained = gradient_norms(inputs, design, setting.recipe(), models, setting.run_seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_array(path, retrained.norms)


def gradient_hardness(out: Path, setting: Setting, design: Design) -> dict[str, FloatArray]:
    """ "grand" and "tracin" -> (records,), high means hard; empty where no model was retrained."""
    if not setting.gradient_models:
        return {}
    recipe = setting.recipe()
    rates = np.array([recipe.lr * recipe.lr_factor(epoch - 1) for epoch in recipe.evaluated_epochs])
    in_mask = design.in_mask[: setting.gradient_models]
    return gradient_measures(stored_array(_path(out, setting)), rates, recipe.evaluated_epochs, in_mask)


def _path(out: Path, setting: Setting) -> Path:
    return out / "gradients" / f"{setting.name}.npy"
