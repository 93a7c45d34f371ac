"""GraNd and TracIn for the dynamics study: a few models of a bank trained again, their gradients kept.

A bank keeps answers, not weights; `train.retrained` brings a model back. The norms are kept as
`gradients/NAME.npy`, so that the study can be judged again without training.
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


def keep_gradient_norms(out: Path, setting: Setting, records: Records, design: Design, device: str) -> None:
    """Trains the setting's first few models again and keeps their gradient norms, unless they are there."""
    path = _path(out, setting)
    if not setting.gradient_models or path.exists():
        return
    from leakscope.engine.local import device_of
    from leakscope.train.gradient_norms import gradient_norms
    from leakscope.train.loop import inputs_from

    inputs = inputs_from(records, device_of(device))
    chosen = np.arange(setting.gradient_models)
    found = gradient_norms(inputs, design, setting.recipe(), chosen, setting.run_seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_array(path, found.norms)


def gradient_hardness(out: Path, setting: Setting, design: Design) -> dict[str, FloatArray]:
    """ "grand" and "tracin" -> (records,), high = hard; empty where none were asked for."""
    if not setting.gradient_models:
        return {}
    recipe = setting.recipe()
    rates = np.array([recipe.lr * recipe.lr_factor(epoch - 1) for epoch in recipe.evaluated_epochs])
    in_mask = design.in_mask[: setting.gradient_models]
    return gradient_measures(stored_array(_path(out, setting)), rates, recipe.evaluated_epochs, in_mask)


def _path(out: Path, setting: Setting) -> Path:
    return out / "gradients" / f"{setting.name}.npy"
