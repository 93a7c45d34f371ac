"""What the ensemble study runs: a target, its records and the attack on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakscope.data.published import data_root
from leakscope.data.registry import dataset
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.single_model.attack import chosen_attackers
from leakscope.single_model.results import AttackSettings

AUTO = "auto"
_FEWEST_RECORDS = 40


@dataclass(frozen=True)
class EnsembleConfig(AttackSettings):
    """What to run.

    Attributes:
        dataset: name of a dataset; `leakscope data list` lists them.
        net: the target network, shipped or "package.module:factory".
        n_public: number of public records, half of them members; None: half of the dataset, at most 20,000.
        n_private: number of private records; the same.
        width: width of an mlp, channels of a cnn or resnet18.
        epochs: epochs of training the target.
        lr: learning rate of the target, with Adam.
        batch_size: batch size of the target.
    """

    dataset: str = "overlapping"
    net: str = "mlp"
    n_public: int | None = None
    n_private: int | None = None
    width: int = 64
    epochs: int = 60
    lr: float = 0.003
    batch_size: int = 64

    def __post_init__(self) -> None:
        sizes = {"n_public": self.n_public, "n_private": self.n_private}
        wrong = [f"{name}={size}: must be at least {_FEWEST_RECORDS}" for name, size in sizes.items()
                 if size is not None and size < _FEWEST_RECORDS]  # fmt: skip
        if wrong:
            raise InputError("; ".join(wrong))
        chosen_attackers(self.attacker)
        assert self.readings

    @property
    def recipe(self) -> Recipe:
        """How the target is trained."""
        option = {"mlp": "width", "cnn": "channels", "resnet18": "channels"}.get(self.net)
        return Recipe(
            net=self.net,
            net_options=() if option is None else ((option, self.width),),
            lr=self.lr,
            batch_size=self.batch_size,
            epochs=self.epochs,
            # A single model gains nothing from stacking. Large ones are never stacked.
            trainer="serial" if self.net == "cnn" else "auto",
            precision="bfloat16" if self.net == "resnet18" else "float32",
        )


PRESETS = {
    "small": EnsembleConfig(),
    "full": EnsembleConfig(dataset="cifar10", net="resnet18", epochs=30, lr=0.001, batch_size=128),
}
"""Preset -> configuration; "full" is the published case, with 20,000 public and 20,000 private records."""


def configured(
    preset: str, changes: Mapping[str, Any], device: str = AUTO, data_dir: Path | None = None
) -> EnsembleConfig:
    """A preset's configuration with some fields changed.

    Args:
        preset: "small", "full" or "auto". "auto" is "full" on a machine with a GPU and the images, else
            "small"; it is "small", too, where the changes name a dataset or a net.
        changes: field of `EnsembleConfig` -> value.
        device: where the target will be trained.
        data_dir: the data folder.
    """
    if preset not in (*PRESETS, AUTO):
        raise InputError(f"preset={preset!r}: choose {', '.join(PRESETS)} or {AUTO}")
    if preset == AUTO:
        names_a_case = not {"dataset", "net"}.isdisjoint(changes)
        preset = "full" if not names_a_case and _can_run_full(device, data_dir) else "small"
    return replace(PRESETS[preset], **changes)


def _can_run_full(device: str, data_dir: Path | None) -> bool:
    from leakscope.engine.local import device_of

    has_images = dataset(PRESETS["full"].dataset).is_present(data_root(data_dir))
    return has_images and device_of(device).type == "cuda"
