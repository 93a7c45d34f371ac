"""A model someone else trained: a file of weights, a fitted estimator, or a function that predicts.

    NetWeights(Path("net.safetensors"), "resnet18").outputs(features, class_names).logits
    FittedEstimator(Path("forest.skops")).outputs(features, class_names).logits
    PredictFunction("service.client:predict").outputs(features, class_names).logits

All three offer the same: `outputs` queries the model, `describe` identifies it in a report by its kind, its
file and a hash, and `class_names` is what it calls its classes, empty where its outputs are only numbered.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.disk.scratch import blocks
from leakscope.disk.storage import sha256_of, user_file
from leakscope.errors import InputError, first_line
from leakscope.frames.frame import Frame
from leakscope.models.estimator_file import IN_PYTHON, check_estimator, load_estimator, predicts_numbers
from leakscope.models.estimator_file import SUFFIXES as ESTIMATOR_SUFFIXES
from leakscope.models.outputs import ModelOutputs, are_probabilities, as_array, columns_of, joined_outputs
from leakscope.models.perceptron import perceptron_of
from leakscope.models.plain_weights import plain_state
from leakscope.recipe import Option
from leakscope.signals.probabilities import log_probabilities
from leakscope.user_code import import_object

if TYPE_CHECKING:
    import torch

BATCH_SIZE = 512
"""Records in one query of a network or a function."""
_ESTIMATOR_BATCH_SIZE = 8192


@dataclass(frozen=True)
class NetWeights:
    """A network: a file of weights, and the factory that builds what they fit.

    Attributes:
        weights: a safetensors file, or a state dict saved by torch, which is read without running code.
        net: a shipped network's name or "package.module:factory".
        net_options: keyword arguments of the factory.
        pixel_mean: per channel, subtracted from uint8 images divided by 255; None: they are not standardized.
        pixel_std: per channel, what they are divided by after that.
        device: "auto", "cpu", "cuda" or "cuda:N".
    """

    weights: Path | str
    net: str
    net_options: Mapping[str, Option] = field(default_factory=dict)
    pixel_mean: tuple[float, ...] | None = None
    pixel_std: tuple[float, ...] | None = None
    device: str = "auto"
    class_names: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        mean, std = self.pixel_mean, self.pixel_std
        if (mean is None) != (std is None):
            raise InputError(f"pixel_mean={mean}, pixel_std={std}: give both or neither")
        if mean is not None and std is not None and (not mean or len(mean) != len(std) or min(std) <= 0):
            raise InputError(
                f"pixel_mean={list(mean)}, pixel_std={list(std)}: give one per channel, every std above 0"
            )

    def outputs(self, features: AnyArray, class_names: Sequence[str]) -> ModelOutputs:
        """Queries the model; batches of `BATCH_SIZE` run on the device.

        Args:
            features: (records, ...), float32, or uint8 for images (records, channels, height, width).
            class_names: what label 0, 1, ... of the records is called; one column of outputs each. Empty: the
                model predicts one number per record.

        Raises:
            InputError: the model does not fit the records, or its outputs are not one finite number per
                record and class.
        """
        plain = self._plain_outputs(features, len(class_names) or 1)
        if plain is not None:
            outputs = joined_outputs([plain], len(features), class_names, f"net={self.net!r}")
            return ModelOutputs(outputs.astype(np.float32), "logits" if class_names else "outputs")
        import torch

        from leakscope.models.weights import load_net

        shape = tuple(features.shape[1:])
        device = torch_device(self.device)
        net = load_net(self.weights, self.net, self.net_options, shape, len(class_names) or 1).to(device)
        logits = []
        with torch.inference_mode():
            for rows in blocks(len(features), BATCH_SIZE):
                inputs = self._inputs(torch.from_numpy(np.array(features[rows], order="C")).to(device))
                logits.append(_run_net(net, inputs))
        outputs = joined_outputs(logits, len(features), class_names, f"net={self.net!r}")
        return ModelOutputs(outputs.astype(np.float32), "logits" if class_names else "outputs")

    def describe(self) -> dict[str, str]:
        """What identifies the model in a report."""
        facts = {"kind": "network", **_file_facts(Path(self.weights)), "net": self.net}
        if self.net_options:
            facts["net_options"] = json.dumps(dict(self.net_options), sort_keys=True)
        if self.pixel_mean is not None and self.pixel_std is not None:
            facts["pixel_mean"] = ",".join(map(repr, self.pixel_mean))
            facts["pixel_std"] = ",".join(map(repr, self.pixel_std))
        return facts

    def _plain_outputs(self, features: AnyArray, n_outputs: int) -> AnyArray | None:
        """Outputs of a small perceptron, without torch; None for any other network, file, device or input."""
        shape, is_cpu = tuple(features.shape[1:]), self.device in ("auto", "cpu")
        net = perceptron_of(self.net, self.net_options, shape, n_outputs)
        if net is None or not is_cpu or features.dtype != np.float32 or self.pixel_mean is not None:
            return None
        state = plain_state(Path(self.weights).expanduser())
        if state is None or {name: array.shape for name, array in state.items()} != net.shapes:
            return None
        parameters = [state[name] for name in net.shapes]
        with np.errstate(all="ignore"):  # what is not finite is reported
            parts = [
                net.outputs(parameters, features[rows].reshape(rows.stop - rows.start, -1))
                for rows in blocks(len(features), BATCH_SIZE)
            ]
        return np.concatenate(parts)

    def _inputs(self, batch: torch.Tensor) -> torch.Tensor:
        """float32 inputs of the network; pixels are divided by 255 and standardized."""
        import torch

        is_image = batch.dtype == torch.uint8
        batch = batch.float() / 255 if is_image else batch.float()
        if self.pixel_mean is None or self.pixel_std is None:
            return batch
        if not is_image or batch.ndim != 4:
            raise InputError("pixel_mean and pixel_std are for uint8 images (channels, height, width); "
                             f"these records are {batch.dtype} {tuple(batch.shape[1:])}")  # fmt: skip
        if len(self.pixel_mean) not in (1, batch.shape[1]):
            raise InputError(
                f"pixel_mean has {len(self.pixel_mean)} values but images have {batch.shape[1]} channels"
            )
        mean, std = (
            torch.tensor(values, dtype=torch.float32, device=batch.device).view(1, -1, 1, 1)
            for values in (self.pixel_mean, self.pixel_std)
        )
        return (batch - mean) / std


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted scikit-learn classifier with `predict_proba`, or a fitted regressor.

    Attributes:
        estimator: a .skops, .joblib, .pkl or .pickle file, or the estimator itself.
        trust: True: load the file whatever is in it; names of types: allow these in a .skops file.
        to_trust: how the user says `trust=True` where this model was named; an error of a file that is not
            trusted says it.
    """

    estimator: Any
    trust: bool | tuple[str, ...] = False
    to_trust: str = field(default=IN_PYTHON, repr=False, compare=False)

    @cached_property
    def fitted(self) -> Any:
        """The estimator itself, loaded if it is a file."""
        if isinstance(self.estimator, str | Path):
            return load_estimator(Path(self.estimator).expanduser(), self.trust, self.to_trust)
        return check_estimator(self.estimator, "estimator")

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes the estimator was fitted on; 1.0 is called "1"."""
        if predicts_numbers(self.fitted):
            raise InputError(f"{type(self.fitted).__name__} predicts numbers; give a classifier")
        classes = np.asarray(self.fitted.classes_).tolist()
        return tuple(str(int(c) if isinstance(c, float) and c.is_integer() else c) for c in classes)

    def outputs(self, features: AnyArray | Frame, class_names: Sequence[str]) -> ModelOutputs:
        """As `NetWeights.outputs`, also of a table as it is.

        A class that the estimator was not fitted on gets the smallest probability.
        """
        if not class_names:
            return self._numbers(features)
        columns = columns_of(self.class_names, class_names, type(self.fitted).__name__)
        probabilities = np.zeros((len(features), len(class_names)))
        for rows in blocks(len(features), _ESTIMATOR_BATCH_SIZE):
            probabilities[rows, columns] = self._predict(_flat_rows(features, rows))
        return ModelOutputs(log_probabilities(probabilities), "probabilities")

    def describe(self) -> dict[str, str]:
        """What identifies the model in a report."""
        is_file = isinstance(self.estimator, str | Path)
        facts = {"kind": "fitted estimator", "estimator": type(self.fitted).__name__}
        return facts | _file_facts(Path(self.estimator)) if is_file else facts

    def _numbers(self, features: AnyArray | Frame) -> ModelOutputs:
        name = type(self.fitted).__name__
        if not predicts_numbers(self.fitted):
            raise InputError(f"{name} predicts classes, but the labels are numbers; give a regressor")
        returned = [
            self._query(self.fitted.predict, _flat_rows(features, rows))
            for rows in blocks(len(features), _ESTIMATOR_BATCH_SIZE)
        ]
        outputs = joined_outputs(returned, len(features), (), name)
        return ModelOutputs(outputs.astype(np.float32), "outputs")

    def _predict(self, features: Any) -> AnyArray:
        probabilities = self._query(self.fitted.predict_proba, features)
        return joined_outputs(
            [probabilities], features.shape[0], self.class_names, type(self.fitted).__name__
        )

    def _query(self, predict: Callable[[Any], Any], features: Any) -> AnyArray:
        try:
            with warnings.catch_warnings():  # columns are passed in the file's order, without their names
                warnings.filterwarnings("ignore", ".*feature names", UserWarning)
                return as_array(predict(features))
        except ValueError as error:
            name = type(self.fitted).__name__
            n_features = features.shape[1] if len(features.shape) > 1 else 1
            raise InputError(f"{name} cannot take records of {n_features} features: "
                             f"{first_line(error)}") from error  # fmt: skip


def _flat_rows(features: AnyArray | Frame, rows: slice) -> Any:
    """Some rows of a table, or of features with one axis of numbers."""
    if isinstance(features, Frame):
        return features.rows(np.arange(rows.start, rows.stop))
    return features[rows].reshape(rows.stop - rows.start, -1)


@dataclass(frozen=True)
class PredictFunction:
    """A function `predict(features)` that returns logits or probabilities (records, classes), or numbers.

    Outputs are probabilities if every row lies in [0, 1] and adds up to 1. A torch tensor may be on any
    device and may require gradients.

    Attributes:
        predict: "package.module:function", or the function itself.
        folder: where to look for a module that is not installed; None: the current folder only.
    """

    predict: str | Callable[[AnyArray], Any]
    folder: Path | None = None
    class_names: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def function(self) -> Callable[[AnyArray], Any]:
        """The function itself, imported if it is named."""
        function = self.predict
        if isinstance(function, str):
            function = import_object("predict", function, "package.module:predict", self.folder)
        if not callable(function):
            raise InputError(f"predict={self.predict!r} is {type(function).__name__}, not a function")
        return function

    def outputs(self, features: AnyArray, class_names: Sequence[str]) -> ModelOutputs:
        """As `NetWeights.outputs`; the function is called with at most `BATCH_SIZE` records at once."""
        queries = (np.array(features[rows]) for rows in blocks(len(features), BATCH_SIZE))
        returned = [as_array(self.function(query)) for query in queries]
        outputs = joined_outputs(returned, len(features), class_names, "predict")
        if not class_names:
            return ModelOutputs(outputs.astype(np.float32), "outputs")
        if are_probabilities(outputs):
            return ModelOutputs(log_probabilities(np.clip(outputs, 0, 1)), "probabilities")
        return ModelOutputs(outputs.astype(np.float32), "logits")

    def describe(self) -> dict[str, str]:
        """What identifies the model in a report."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        facts = {"kind": "function", "function": self.predict if isinstance(self.predict, str) else name}
        try:
            source = inspect.getsource(inspect.unwrap(self.function))
        except (TypeError, OSError):  # a built-in, or a callable object
            return facts
        return facts | {"sha256": hashlib.sha256(source.encode()).hexdigest()}


GivenModel = NetWeights | FittedEstimator | PredictFunction
"""A trained model that can be queried."""


def model_from_file(
    path: Path,
    net: str | None = None,
    net_options: Mapping[str, Option] | None = None,
    pixel_mean: tuple[float, ...] | None = None,
    pixel_std: tuple[float, ...] | None = None,
    trust: bool | tuple[str, ...] = False,
    device: str = "auto",
    to_trust: str = IN_PYTHON,
) -> NetWeights | FittedEstimator:
    """The model in a file; the extension says which kind. See `NetWeights` and `FittedEstimator`."""
    is_estimator = path.suffix.lower() in ESTIMATOR_SUFFIXES
    if is_estimator and (net is not None or pixel_mean is not None):
        raise InputError(f"{path} is an estimator, which needs neither a net nor a pixel mean")
    if is_estimator:
        return FittedEstimator(path, trust, to_trust)
    if net is None:
        raise InputError(f"{path}: weights need the net they fit; name it, like 'resnet18'")
    return NetWeights(path, net, net_options or {}, pixel_mean, pixel_std, device)


def _run_net(net: torch.nn.Module, inputs: torch.Tensor) -> AnyArray:
    try:
        return as_array(net(inputs))
    except RuntimeError as error:  # shapes that do not fit
        shape = tuple(inputs.shape[1:])
        raise InputError(f"the net cannot take records of shape {shape}: {first_line(error)}") from error


def _file_facts(path: Path) -> dict[str, str]:
    path = user_file(path)
    return {"file": path.name, "sha256": sha256_of(path)}


def torch_device(name: str) -> torch.device:
    """The device of a setting; "auto" is a GPU where there is one.

    Raises:
        InputError: there is no such device.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device={name!r} is unknown; use 'auto', 'cpu', 'cuda' or 'cuda:N'") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device={name!r}: this machine has no such device; use 'cpu' or 'auto'")
    return device
