"""The experiments of a figure on disk: one folder per figure, sealed with checksums."""

from __future__ import annotations

import shutil
from pathlib import Path

from leakscope.bank.damage import check_seal, write_seal
from leakscope.bank.run_folder import stored_array
from leakscope.disk.storage import atomic_folder, write_array
from leakscope.errors import CorruptBankError
from leakscope.leakage.experiment import Experiment
from leakscope.studies.leakage.config import LeakageConfig, settings


def is_complete(out: Path, figure: int) -> bool:
    """Whether a figure's experiments are stored and undamaged."""
    try:
        check_seal(_folder(out, figure))
    except CorruptBankError:
        return False
    return True


def write_experiments(out: Path, figure: int, experiments: list[Experiment]) -> None:
    """Stores one experiment per point; the folder appears once it is complete."""
    shutil.rmtree(_folder(out, figure), ignore_errors=True)  # if it exists, it is damaged
    with atomic_folder(_folder(out, figure)) as unfinished:
        for i, experiment in enumerate(experiments):
            for name, values in experiment._asdict().items():
                write_array(unfinished / f"point-{i:02d}" / f"{name}.npy", values)
        write_seal(unfinished)


def read_experiments(out: Path, config: LeakageConfig) -> dict[int, list[Experiment]]:
    """Figure -> the experiments of its points.

    Raises:
        CorruptBankError: some are damaged.
    """
    points = settings(config)
    for figure in points:
        check_seal(_folder(out, figure))
    return {figure: [_read(_folder(out, figure) / f"point-{i:02d}") for i in range(len(points[figure]))]
            for figure in points}  # fmt: skip


def _read(folder: Path) -> Experiment:
    return Experiment(*(stored_array(folder / f"{name}.npy") for name in Experiment._fields))


def _folder(out: Path, figure: int) -> Path:
    return out / "experiments" / (f"figure-{figure}" if figure else "shuffled")
