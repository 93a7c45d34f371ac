"""What is to be trained, checked before anything is written: the bank's identity and block plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.run_folder import to_jsonable
from leakscope.code_identity.walk import code_identity
from leakscope.errors import InputError
from leakscope.models.perceptron import perceptron_of
from leakscope.privacy.accounting import privacy_spent
from leakscope.privacy.settings import PRIVACY_SPENT, Sampling
from leakscope.recipe import OF_CLASSIFIERS, AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.signals.asked import Asked, check_queries_of_table, log_odds_queries
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.registry import (
    CLASSIFICATION,
    QUERY_LOG_ODDS,
    TOKEN_LOG_PROBS,
    default_signals,
    find_signal,
    own_functions,
    task_of_records,
)
from leakscope.train.adapters.checks import check_text
from leakscope.train.estimators import check_estimator
from leakscope.train.stages import stages_of
from leakscope.types import Design, Records

if TYPE_CHECKING:
    import torch

_STACKED_NUMBERS = 2_000_000  # parameters of one block together: enough to fill the cores, few to lose
BLOCK_SIZES = (8, 128)
"""Fewest and most networks of a block."""
MODELS_PER_BLOCK = 16
"""Estimators, or models of a training function."""
_BLOCK_OUTPUTS = 40_000_000  # models x checkpoints x records x queries


@dataclass(frozen=True, eq=False)
class TrainingRequest:
    """Everything that decides what the models of a bank are, and where they are trained.

    Attributes:
        records: the records.
        design: which records each model is trained on.
        recipe: how one model is trained.
        seed: run seed; all randomness derives from it.
        signals: signals to store; empty: the usual ones of the task.
        device: "auto", "cpu", "cuda" (all GPUs) or "cuda:N".
        reuse: whether the user vouches that models on disk are of the same code; None: that is not offered.
        code: the code of the models that are reused, as their bank describes it; None: that of the recipe.
        outputs: what queries return.
        queries: number of queries per record, for the signal `query_log_odds`.
    """

    records: Records
    design: Design
    recipe: AnyRecipe
    seed: int
    signals: tuple[str, ...] = ()
    device: str = "auto"
    reuse: bool | None = None
    code: Mapping[str, object] | None = None
    outputs: OutputFilter = NO_FILTER
    queries: int = 1

    @cached_property
    def asked(self) -> Asked:
        """What models are asked about every record, and what they return.

        Mirror images are queries where models may have been trained on them: networks with `flips`, and
        training functions, which may do anything.

        Raises:
            InputError: there are not so many queries, or nothing would read them.
        """
        if self.queries < 2 and QUERY_LOG_ODDS not in self.signal_names:
            return Asked(self.outputs)
        if not self.records.is_classification:
            raise InputError(f"queries={self.queries}: several queries per record are for classifiers only")
        if self.queries < 2 or QUERY_LOG_ODDS not in self.signal_names:
            raise InputError(
                f"signals={QUERY_LOG_ODDS!r} and a number of queries (queries=4) go together; give both"
            )
        mirrors = isinstance(self.recipe, FunctionRecipe) or getattr(self.recipe, "flips", False)
        shape = tuple(self.records.features.shape[1:])
        return Asked(self.outputs, log_odds_queries(shape, self.queries, mirrors))

    @cached_property
    def signal_names(self) -> tuple[str, ...]:
        """The signals to store, sorted.

        Raises:
            InputError: models of this task do not have one of the signals.
        """
        task = task_of_records(self.records)
        for name in self.signals:
            find_signal(name, task)
        return tuple(sorted(self.signals or default_signals(task)))

    @cached_property
    def identity(self) -> Identity:
        """The identity of the bank to be trained; builds the network once to describe it."""
        recipe, records, design = self.recipe, self.records, self.design
        description = {**recipe.description(), "evaluated_epochs": list(recipe.evaluated_epochs)}
        n_parameters, code = None, dict[str, object](own_functions(self.signal_names))
        if isinstance(recipe, AdapterRecipe):
            from leakscope.train.adapters.choice import base_of

            description["base_sha256"] = base_of(recipe, records).sha256
            self._add_privacy(recipe, description)
        elif isinstance(recipe, Recipe):
            net = describe_net(recipe, tuple(records.features.shape[1:]), records.n_classes)
            description["net_sha256"], n_parameters = net.sha256, net.n_parameters
            code |= net.code
            self._add_privacy(recipe, description)
        else:
            code |= recipe.code
        if self.outputs != NO_FILTER:
            description["outputs"] = asdict(self.outputs)
        if self.asked.queries:
            description["queries"] = len(self.asked.queries)
        if code:
            description["code"] = self.code or code_identity(**code)
        return Identity(
            records=RecordsIdentity.of(records),
            design=DesignIdentity.of(design),
            recipe=to_jsonable(description),
            seed=self.seed,
            signals=self.signal_names,
            block_size=block_size(n_parameters, self._outputs_of_a_model),
        )

    @property
    def _outputs_of_a_model(self) -> int:
        """Numbers of its largest signal."""
        positions = self.records.features.shape[1] if TOKEN_LOG_PROBS in self.signal_names else 1
        return len(self.records) * len(self.recipe.evaluated_epochs) * self.queries * positions

    def _add_privacy(self, recipe: Recipe, description: dict[str, object]) -> None:
        """Adds what the training spends to its description."""
        if recipe.privacy is None:
            return
        spent = privacy_spent(recipe.privacy, Sampling.of(self.design, recipe.batch_size), recipe.epochs)
        if recipe.guarantees_privacy:
            description[PRIVACY_SPENT] = asdict(spent)


def check_request(
    request: TrainingRequest, check_device_of: Callable[[str], object] | None = None
) -> Identity:
    """The identity of the bank that `complete_bank` would train; writes nothing.

    Args:
        request: what is to be trained.
        check_device_of: of the engine that trains it; None: of this machine.

    Raises:
        InputError: the request cannot be trained; the message names the setting.
    """
    recipe, features = request.recipe, request.records.features
    if request.seed < 0:
        raise InputError(f"seed={request.seed}: must be 0 or more")
    (check_device_of or check_device)(request.device)
    check_text(recipe, request.records, request.design, request.signal_names)
    if isinstance(recipe, Recipe) and (recipe.flips or recipe.crop) and features.ndim != 4:
        raise InputError(
            "flips and crop are for images (channels, height, width), "
            f"got records of shape {tuple(features.shape[1:])}"
        )
    if task_of_records(request.records) != CLASSIFICATION:
        _check_without_classes(request)
    _check_table(request)
    if isinstance(recipe, EstimatorRecipe):
        check_estimator(recipe, request.records)
    if isinstance(recipe, Recipe):
        records = request.records
        stages_of(recipe, request.design, records.copies, np.arange(1), request.seed, records.n_classes)
    return request.identity


def _check_without_classes(request: TrainingRequest) -> None:
    """Refuses what acts on the probabilities of classes."""
    why = "these are documents" if request.records.is_text else "these labels are numbers, not classes"
    unused = [name for name in OF_CLASSIFIERS if getattr(request.recipe, name, None)]
    if unused:
        raise InputError(f"{', '.join(unused)} would do nothing: {why}")
    if request.outputs != NO_FILTER:
        raise InputError(f"outputs are filtered only for classifiers; {why}")


def _check_table(request: TrainingRequest) -> None:
    """Refuses a table that the models cannot be trained on, or queried about in this way."""
    records = request.records
    if not isinstance(request.recipe, EstimatorRecipe):
        if records.reading is not None and records.reading.problems:
            raise InputError(f"{records.name}: {'; '.join(records.reading.problems)}")
        return
    if request.queries > 1:
        check_queries_of_table(records.frame)
    if records.frame is not None and request.outputs.random_values:
        raise InputError(
            "outputs: random_values draws features at random, and this table goes to estimators as it is; "
            "leave it out, or set standardise = true in [data]"
        )


def block_size(n_parameters: int | None, n_outputs: int) -> int:
    """Number of models trained together. Every machine computes the same plan.

    Args:
        n_parameters: of one network; None for an estimator or a training function.
        n_outputs: one per record, query and checkpoint; a block's outputs stay in memory until it is written.
    """
    most = max(1, _BLOCK_OUTPUTS // n_outputs)
    if n_parameters is None:
        return min(MODELS_PER_BLOCK, most)
    return min(int(np.clip(_STACKED_NUMBERS // max(n_parameters, 1), *BLOCK_SIZES)), most)


class NetDescription(NamedTuple):
    """What identifies a recipe's network: structure, size, and the code of a user's own."""

    sha256: str
    n_parameters: int
    code: Mapping[str, object]


def describe_net(recipe: Recipe, input_shape: tuple[int, ...], n_outputs: int) -> NetDescription:
    """Builds the network once; shipped perceptrons are known without torch.

    Raises:
        InputError: it cannot be built, or not be trained with DP-SGD.
    """
    perceptron = perceptron_of(recipe.net, dict(recipe.net_options), input_shape, n_outputs)
    if perceptron is not None:
        return NetDescription(perceptron.sha256, perceptron.n_parameters, {})
    import torch

    from leakscope.models.registry import build, code_of_net, digest_of_net
    from leakscope.train.row_by_row import BATCH_NORM, has_batch_norm

    with torch.random.fork_rng(devices=()):  # any random numbers in it must be the same next time
        torch.manual_seed(0)
        net = build(recipe, input_shape, n_outputs)
    if recipe.privacy is not None and has_batch_norm(net):  # other reasons take records: the worker's
        raise InputError(f"privacy: {recipe.net!r} cannot be trained with DP-SGD: {BATCH_NORM}")
    n_parameters = sum(p.numel() for p in net.parameters())
    return NetDescription(digest_of_net(net), n_parameters, code_of_net(recipe, net))


def check_device_name(name: str) -> None:
    """Raises InputError when no machine could have a device of this name."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise InputError(f"device={name!r} is unknown; use 'auto', 'cpu', 'cuda' or 'cuda:N'")


def check_device(name: str) -> None:
    """Raises InputError when this machine has no such device; a CPU is there without a look."""
    check_device_name(name)
    if name not in ("auto", "cpu"):
        device_of(name)


def device_of(name: str) -> torch.device:
    """The device of this name, "auto" included; raises InputError when this machine has no such device."""
    import torch

    check_device_name(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    n_devices = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= n_devices:
        present = f"{n_devices} CUDA devices" if n_devices else "no CUDA device"
        raise InputError(f"device={name!r}: this machine has {present}; use 'cpu' or 'auto'")
    return device
