"""Language models of transformers: loaded from a folder, frozen, and identified by their weights."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leakscope.data.hub import hub_address, reaches_hub
from leakscope.errors import InputError, MissingExtraError, first_line

_NOT_OF_THE_MODEL = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")
"""Entries of a config that change nothing that is computed."""
_NOT_LOADED = (OSError, ValueError, KeyError, RuntimeError, ImportError)
"""What transformers raises where it cannot load a model."""
_LINEAR_KINDS = ("Linear", "Conv1D")


class Base(NamedTuple):
    """A language model that fine-tuning starts from.

    Attributes:
        model: the model, float32, frozen and in evaluation mode; shared, so copy it before changing layers.
        sha256: of its weights and its config.
        is_causal: true for a model that predicts the next token; false for one that predicts labels.
        new: names of parameters that the folder has no weights for, such as those of a new head.
    """

    model: Any
    sha256: str
    is_causal: bool
    new: frozenset[str]

    def copied(self) -> Any:
        """The model with modules of its own, which share the weights."""
        shared = {id(t): t for t in (*self.model.parameters(), *self.model.buffers())}
        return copy.deepcopy(self.model, shared)

    @property
    def vocabulary(self) -> int:
        """Number of tokens it has embeddings for."""
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def n_parameters(self) -> int:
        """Number of its weights."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def longest(self) -> int | None:
        """Tokens of the longest text it takes; None: not stated."""
        stated = getattr(self.model.config, "max_position_embeddings", None)
        return None if stated is None else int(stated)


def load_base(base: str, n_outputs: int | None) -> Base:
    """The base in a folder, or of this name on the hub.

    Args:
        base: a folder, or a name on the hub, looked up in the local cache first.
        n_outputs: of a model that predicts labels; None: a causal model.

    Raises:
        InputError: there is no such model, or no network to fetch it.
        MissingExtraError: transformers is not installed.
    """
    folder = Path(base).expanduser()
    files = sorted(folder.glob("*")) if folder.is_dir() else []
    seen = tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return _loaded(base, n_outputs, seen)


@lru_cache(maxsize=1)
def _loaded(base: str, n_outputs: int | None, seen: tuple[object, ...]) -> Base:
    """`seen` are the folder's files as they were: a base that was saved again is read again."""
    return load_model(base, n_outputs)


def load_model(base: str, n_outputs: int | None, setting: str = "base") -> Base:
    """As `load_base`, read again each time; `setting` is what messages call the model."""
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("language models need transformers: pip install 'leakscope[text]'") from error
    is_causal = n_outputs is None
    kind = transformers.AutoModelForCausalLM if is_causal else transformers.AutoModelForSequenceClassification
    options = {} if is_causal else {"num_labels": n_outputs}
    with _quiet(), torch.random.fork_rng(devices=()):
        model, info = _from_pretrained(kind, base, options, setting)
    model = model.float().eval().requires_grad_(False)
    model.config.use_cache = False
    new = frozenset(info["missing_keys"])
    if is_causal and new:
        raise InputError(
            f"{setting}={base!r} has no weights for {_some(new)}: it is not a causal language model"
        )
    return Base(model, _digest(model, new), is_causal, new)


def _from_pretrained(kind: Any, base: str, options: Mapping[str, object], setting: str) -> Any:
    """(the model, what transformers says about loading it)."""
    folder = _folder_of(base)
    if folder is not None:
        try:
            return kind.from_pretrained(folder, local_files_only=True, output_loading_info=True, **options)
        except _NOT_LOADED as error:
            raise InputError(
                f"{setting}={base!r} is no model that transformers loads: {_line(error)}"
            ) from error
    problem = f"{hub_address()} cannot be reached"
    if reaches_hub():
        try:
            return kind.from_pretrained(base, output_loading_info=True, **options)
        except _NOT_LOADED as error:
            problem = _line(error)
    raise InputError(
        f"{setting}={base!r} is no folder here, and could not be fetched from the Hugging Face hub "
        f"({problem}); check the name and the network, or give the folder of a saved model"
    )


def _folder_of(base: str) -> str | None:
    """The folder itself, or where the hub's files of this name lie in the local cache; None: nowhere."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    path = Path(base).expanduser()
    if path.exists():
        return str(path)
    try:
        config = try_to_load_from_cache(base, "config.json")
    except HFValidationError:  # no name that the hub could have
        return None
    return str(Path(config).parent) if isinstance(config, str) else None


def linear_layers(model: nn.Module, targets: tuple[str, ...] = ()) -> dict[str, nn.Module]:
    """The layers that get adapters, by name: those whose names end with a target, or all inside the blocks.

    Raises:
        InputError: a target names no linear layer.
    """
    linear = {name: m for name, m in model.named_modules() if type(m).__name__ in _LINEAR_KINDS}
    if not targets:
        blocks = blocks_of(model)
        inside = {id(m) for block in blocks for m in block.modules()}
        return {name: m for name, m in linear.items() if not blocks or id(m) in inside}
    for target in targets:
        if not any(_ends_with(name, target) for name in linear):
            ends = sorted({name.rpartition(".")[2] for name in linear})
            raise InputError(f"lora.targets={target!r}: no linear layer has it; there are {', '.join(ends)}")
    return {name: m for name, m in linear.items() if any(_ends_with(name, target) for target in targets)}


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of a transformer: the largest list of modules in it; empty where it has none."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    sizes = [sum(p.numel() for p in module.parameters()) for module in lists]
    return list(lists[sizes.index(max(sizes))]) if lists else []


def activations_of_a_token(model: Any, checkpointed: bool) -> int:
    """Numbers that a forward pass stores for each token: inputs and outputs of the linear layers.

    Checkpointed, it stores what goes into each block, and the rest of one block at a time.
    """
    numbers = sum(sum(weight_shape(layer)) for layer in linear_layers(model).values())
    n_blocks = max(1, len(blocks_of(model)))
    if not checkpointed:
        return numbers
    return numbers // n_blocks + n_blocks * int(model.get_input_embeddings().embedding_dim)


def head_layers(model: Any) -> dict[str, nn.Linear]:
    """The linear layers behind the base of a model that predicts labels, by name."""
    inside = {id(module) for module in model.base_model.modules()}
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear) and id(m) not in inside}


def weight_shape(layer: nn.Module) -> tuple[int, int]:
    """(outputs, inputs) of a linear layer; GPT-2 has its weights the other way round."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    outputs, inputs = weight.shape if isinstance(layer, nn.Linear) else weight.shape[::-1]
    return int(outputs), int(inputs)


def _ends_with(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _digest(model: Any, new: frozenset[str]) -> str:
    """Sha256 of the config and of all weights that were loaded."""
    sha = hashlib.sha256()
    config = {k: v for k, v in model.config.to_dict().items() if k not in _NOT_OF_THE_MODEL}
    sha.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        if name not in new:
            sha.update(f"{name}{tuple(tensor.shape)}".encode())
            sha.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def _some(names: frozenset[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _line(error: BaseException) -> str:
    return first_line(error).rstrip(".")


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers logs a report of what it loaded, and shows a progress bar."""
    from transformers.utils import logging as of_transformers

    logger, had_bar = logging.getLogger("transformers"), of_transformers.is_progress_bar_enabled()
    level = logger.level
    logger.setLevel(logging.ERROR)
    of_transformers.disable_progress_bar()
    try:
        yield
    finally:
        logger.setLevel(level)
        if had_bar:
            of_transformers.enable_progress_bar()
