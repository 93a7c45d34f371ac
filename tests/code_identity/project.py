"""A user's project in files that a test edits, and audits of it, each with freshly imported modules."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import leakscope
from leakscope.code_identity.walk import CodeIdentity, code_identity

FILES = {
    "own_train.py": '''\
"""Nearest neighbors."""
import functools

import own_helper
from own_base import Base
from own_layers import Net

SHARPNESS = 3.0


def scaled(distances):
    return -SHARPNESS * distances


def train(records, indices, seed, power=1.0):
    features, labels = records.features[indices], records.labels[indices]

    def predict(queries):
        per_class = [own_helper.distances(queries, features[labels == c]) for c in range(records.n_classes)]
        return scaled(power * own_helper.stacked(per_class))

    return predict


def made(weight):
    def weighted(records, indices, seed):
        predict = train(records, indices, seed)
        return lambda queries: weight * predict(queries)

    return weighted


def weighed(records, indices, seed, weight):
    predict = train(records, indices, seed)
    return lambda queries: weight * predict(queries)


class Trainer:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, records, indices, seed):
        return weighed(records, indices, seed, self.weight)


class Estimator(Base):
    def __init__(self, shrinkage=0.5):
        self.shrinkage = shrinkage


closure = made(2.0)
partial = functools.partial(weighed, weight=2.0)
trainer = Trainer(2.0)


def net(input_shape, n_classes, width=4):
    return Net(input_shape[0], n_classes, width)
''',
    "own_helper.py": """\
import numpy as np


def distances(queries, features):
    gaps = queries[:, None] - features[None]
    return np.abs(gaps).sum(axis=2).min(axis=1)


def stacked(per_class):
    return np.stack(per_class, axis=1)
""",
    "own_base.py": """\
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Base(ClassifierMixin, BaseEstimator):
    def fit(self, x, y):
        self.classes_ = np.unique(y)
        self.means_ = np.stack([x[y == c].mean(axis=0) * self.shrinkage for c in self.classes_])
        return self

    def predict_proba(self, x):
        logits = -np.abs(x[:, None] - self.means_[None]).sum(axis=2)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, x):
        return self.classes_[self.predict_proba(x).argmax(axis=1)]
""",
    "own_layers.py": """\
from torch import nn

from own_activation import bent


class Net(nn.Module):
    def __init__(self, n_inputs, n_classes, width):
        super().__init__()
        self.first = nn.Linear(n_inputs, width)
        self.last = nn.Linear(width, n_classes)

    def forward(self, x):
        return self.last(bent(self.first(x)))
""",
    "own_activation.py": """\
import torch


def bent(x):
    return torch.relu(x)
""",
}


def records(n: int = 24) -> leakscope.Records:
    """Records of two classes with three features."""
    rng = np.random.default_rng(0)
    return leakscope.Records(
        rng.normal(size=(n, 3)).astype(np.float32),
        np.arange(n) % 2,
        np.arange(n).astype(str),
        class_names=("no", "yes"),
    )


class Project:
    """The files in a folder that is on the module search path; written unless they are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in FILES.items():
            if not (folder / name).exists():
                (folder / name).write_text(text)

    def edit(self, file: str, old: str, new: str) -> None:
        """Replaces a text that must be in the file."""
        text = (self.folder / file).read_text()
        assert old in text
        (self.folder / file).write_text(text.replace(old, new))

    def load(self, module: str = "own_train") -> Any:
        """The module, imported anew with everything it imports from the project."""
        for name in [name for name in sys.modules if name.startswith("own_")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return importlib.import_module(module)

    def audit(
        self, recipe: Callable[[Any], leakscope.Recipe | Any], folder: str = "run", **settings: Any
    ) -> leakscope.Verdict:
        """One audit by freshly imported code; `recipe` takes the module `own_train`."""
        settings = {"models": 4, "attacks": ["loss"], "device": "cpu", **settings}
        return leakscope.audit(records(), recipe(self.load()), self.folder / folder, **settings)


class Code:
    """Files in a folder on the module search path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **files: str) -> None:
        """Writes files; two underscores in a name are a slash."""
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/', 1)}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def load(self, module: str = "user_main") -> Any:
        """The module, imported anew with all others of the folder."""
        for name in [name for name in sys.modules if name.startswith("user_")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return importlib.import_module(module)

    def identity(self, name: str = "train") -> CodeIdentity:
        """The identity of a function in user_main.py, imported anew."""
        return code_identity(train=getattr(self.load(), name))


def printed_by(program: str, paths: list[Path], **environment: str) -> str:
    """What another process prints that finds modules in these folders first."""
    path = os.pathsep.join([*map(str, paths), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout
