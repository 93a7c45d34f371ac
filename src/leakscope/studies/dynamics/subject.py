"""A user's own records and recipe as the subject of the study: the config file of an audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from leakscope.audits.config import read_config
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.signals.output_filter import NO_FILTER
from leakscope.studies.dynamics.settings import Setting
from leakscope.types import Records

_CHECKPOINTS = 20
_OF_THE_FILE = ("dataset", "net", "optimizer", "epochs", "batch_size", "lr", "precision", "dropout")


class Subject(NamedTuple):
    """Whose exposure is followed, and how the models are trained."""

    records: Records
    recipe: Recipe


def read_subject(path: Path, data_dir: Path | None, given: dict[str, Any]) -> tuple[Subject, Setting]:
    """The records and the recipe of a config file, and the setting that describes them.

    `[data]`, `[model]` and `[training]` mean what they mean in an audit, as do `models`, `design` and `seed`
    of `[population]`. A recipe without checkpoints gets about twenty, or one every `every` epochs.

    Args:
        path: the config file.
        data_dir: data folder.
        given: fields of `Setting` that the user gives besides; those of the file are refused.

    Raises:
        InputError: the file is wrong, or what it trains has no checkpoints.
    """
    twice = [name for name in _OF_THE_FILE if name in given]
    if twice:
        raise InputError(f"{', '.join(twice)}: set by the config file; leave the option out")
    config = read_config(path)
    if config.data is None or config.target is not None:
        raise InputError(f"{path}: the study trains a population; give [data], and no [target]")
    if config.outputs != NO_FILTER:
        raise InputError(f"{path}: the study follows the models' own outputs; leave [outputs] out")
    if config.settings.queries is not None:
        raise InputError(f"{path}: the study reads one query per record; leave `queries` out")
    recipe = config.recipe()
    if not isinstance(recipe, Recipe):
        raise InputError(f"{path}: the study follows networks over epochs; give `net` in [model]")
    records, population = config.records(data_dir), config.settings
    of_file = {"models": population.models, "design": population.design, "seed": population.seed}
    changes = {name: value for name, value in of_file.items() if value is not None} | given
    changes.setdefault("every", max(1, recipe.epochs // _CHECKPOINTS))
    setting = Setting(
        dataset=records.name, net=recipe.net, optimizer="sam" if recipe.sam_rho else recipe.optimizer,
        epochs=recipe.epochs, batch_size=recipe.batch_size, lr=recipe.lr, precision=recipe.precision,
        config=population.config_text or "", **changes,
    )  # fmt: skip
    return Subject(records, replace(recipe, checkpoints=recipe.checkpoints or setting.checkpoints)), setting
