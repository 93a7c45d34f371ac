"""The audit that every tool is given: the same records, members, target network and training recipe.

A problem is made once, in leakscope's environment, and lies in a folder where tools in other environments
read it: the arrays as problem.npz, the trained target as target.pt (a PyTorch state dict) and, where it
was fitted by scikit-learn, as target.joblib too: the same numbers twice.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SEED = 0


@dataclass(frozen=True)
class Size:
    """How large one audit is, and of what kind.

    Attributes:
        name: of the size.
        dataset: whose records.
        n_records: drawn from it; half of them are the target's members.
        epochs: of training.
        framework: of the target: "PyTorch" or "scikit-learn".
        n_shadows: shadow models each tool trains.
        width: of each hidden layer.
        depth: hidden layers.
        batch_size: of training.
        lr: Adam's.
    """

    name: str
    dataset: str
    n_records: int
    epochs: int
    framework: str = "PyTorch"
    n_shadows: int = 64
    width: int = 32
    depth: int = 2
    batch_size: int = 32
    lr: float = 0.003


SIZES = (
    Size("small", "digits", 1_797, epochs=10),
    Size("medium", "adult", 5_000, epochs=30, n_shadows=128),
    Size("scikit-learn", "adult", 5_000, epochs=20, framework="scikit-learn"),
)


@dataclass(frozen=True, eq=False)
class Problem:
    """One audit as a tool is given it.

    Attributes:
        size: how large.
        features: float32 (records, features).
        labels: int64 (records,).
        is_member: bool (records,), whom the target was trained on.
        folder: holds the target, and takes what a tool writes.
    """

    size: Size
    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    is_member: npt.NDArray[np.bool_]
    folder: Path

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1


def make_problem(size: Size, folder: Path) -> Problem:
    """Draws the records and members, trains the target and writes everything into `folder`."""
    import leakscope

    records = leakscope.load(size.dataset)
    rng = np.random.default_rng(SEED)
    drawn = rng.permutation(len(records))[: size.n_records]
    is_member = rng.permutation(size.n_records) < size.n_records // 2
    problem = Problem(size, records.features[drawn], records.labels[drawn], is_member, folder)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"features": problem.features, "labels": problem.labels, "is_member": is_member}
    np.savez(folder / "problem.npz", **arrays, **asdict(size))
    _train_pytorch(problem) if size.framework == "PyTorch" else _fit_scikit_learn(problem)
    return problem


def read_problem(folder: Path) -> Problem:
    """What `make_problem` wrote there."""
    with np.load(folder / "problem.npz") as stored:
        size = Size(**{field.name: stored[field.name].item() for field in fields(Size)})
        return Problem(size, stored["features"], stored["labels"], stored["is_member"], folder)


def _train_pytorch(problem: Problem) -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from rivals.net import Net
    from rivals.train import train

    size, is_member = problem.size, problem.is_member
    torch.manual_seed(SEED)
    net = Net(problem.features.shape[1], problem.n_classes, size.width, size.depth)
    members = TensorDataset(
        torch.from_numpy(problem.features[is_member]), torch.from_numpy(problem.labels[is_member])
    )
    train(net, DataLoader(members, size.batch_size, shuffle=True), size.epochs, size.lr)
    torch.save(net.state_dict(), problem.folder / "target.pt")


def _fit_scikit_learn(problem: Problem) -> None:
    import joblib
    from sklearn.neural_network import MLPClassifier

    size, is_member = problem.size, problem.is_member
    target = MLPClassifier(
        hidden_layer_sizes=(size.width,) * size.depth,
        alpha=0.0,
        batch_size=size.batch_size,
        learning_rate_init=size.lr,
        max_iter=size.epochs,
        n_iter_no_change=size.epochs + 1,  # all epochs, as everybody else's training
        random_state=SEED,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn calls it not converged
        target.fit(problem.features[is_member].astype(np.float64), problem.labels[is_member])
    joblib.dump(target, problem.folder / "target.joblib")
    _write_state(target, problem.folder / "target.pt")


def _write_state(target: Any, path: Path) -> None:
    """The fitted network under the names of `Net`."""
    import torch

    weights, biases = list(target.coefs_), list(target.intercepts_)
    if len(target.classes_) == 2:  # one logistic unit: the same probabilities from the logits (0, z)
        weights[-1] = np.concatenate([np.zeros_like(weights[-1]), weights[-1]], axis=1)
        biases[-1] = np.concatenate([np.zeros_like(biases[-1]), biases[-1]])
    state = {}
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        state[f"{2 * layer + 1}.weight"] = torch.from_numpy(weight.T.astype(np.float32).copy())
        state[f"{2 * layer + 1}.bias"] = torch.from_numpy(bias.astype(np.float32))
    torch.save(state, path)
