"""How the networks were trained whose outputs settle the claims, and which are in no repository."""

from __future__ import annotations

_SCRIPT = "python benchmarks/dynamics_bank.py"
_OPTIMIZERS = "--epochs 160 --every 10 --universe 20000 --models 20"
_ADAMW = "--preset published --optimizer adamw --universe 20000"
_UNKNOWN = "seed not recorded"
_TRAINED = {
    "cifar10-wrn28-2-adamw": f"{_SCRIPT} {_ADAMW} --seed 0",
    "cifar10-wrn28-2-sgd.npz": f"{_SCRIPT} --preset optimizers --optimizer sgd {_OPTIMIZERS} --seed 0",
    "cifar10-wrn28-2-sgd-again": f"{_SCRIPT} --preset optimizers --optimizer sgd {_OPTIMIZERS} --seed 4711",
    "cifar10-wrn28-2-sam.npz": f"{_SCRIPT} --preset optimizers --optimizer sam {_OPTIMIZERS} --seed 0",
    "cifar10-wrn28-2-sam-10-models": f"{_SCRIPT} --preset optimizers --optimizer sam {_OPTIMIZERS}; the "
    f"first ten networks, {_UNKNOWN}",
    "cifar10-wrn28-2-sam-10-models-again": f"{_SCRIPT} --preset optimizers --optimizer sam {_OPTIMIZERS} "
    "--seed 4711; the first ten networks",
    "mnist-wrn28-2-adamw.npz": f"{_SCRIPT} --preset mnist --optimizer adamw --seed 0",
    "mnist-wrn28-2-adamw-again": f"{_SCRIPT} --preset mnist --optimizer adamw; {_UNKNOWN}",
}
"""Name of the bank -> command, on a machine with a GPU."""


def training_command(bank: str) -> str:
    """A comment that says how a bank was trained; empty for networks that the study trained itself."""
    return f"# trained by {_TRAINED[bank]}" if bank in _TRAINED else ""
