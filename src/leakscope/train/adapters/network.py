"""A base with places for adapters: built once per process, used by one block of models after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.models.language import Base, blocks_of, head_layers, linear_layers
from leakscope.train.adapters.attention import use_plain_causal_attention
from leakscope.train.adapters.layers import Adapted, Frozen, TrainedLinear
from leakscope.train.adapters.losses import (
    HeadLoss,
    LossAndSlopes,
    logits_loss,
    loss_and_slopes,
    token_weights,
)
from leakscope.train.dropout import LAYER_KEY_STRIDE

_CLOSE = 1e-4  # of the largest logit: between the two ways to compute logits


class Network:
    """A base whose layers have places for adapters.

    Attributes:
        base: the base.
        adapted: its layers with adapters, by name.
        heads: its layers that are trained themselves, by name.
    """

    def __init__(self, base: Base, recipe: AdapterRecipe, device: torch.device, length: int) -> None:
        self.base, self.device = base, device
        self._model = base.copied().to(device)
        if device.type == "cuda" and base.is_causal:
            use_plain_causal_attention(self._model, length)
        self._autocasts = recipe.precision == "bfloat16"
        lora, layers, heads = recipe.lora, dict[str, nn.Module](), dict[str, nn.Linear]()
        if not recipe.full:
            layers = linear_layers(self._model, lora.targets)
            heads = {} if base.is_causal else head_layers(self._model)
        scale = lora.alpha / lora.rank
        self.adapted = {
            name: Adapted(layer, scale, lora.dropout, self._autocasts) for name, layer in layers.items()
        }
        self.heads = {name: TrainedLinear(layer) for name, layer in heads.items()}
        for name, module in (self.adapted | self.heads).items():
            _put(self._model, name, module)
        if recipe.gradient_checkpointing:
            for block in blocks_of(self._model):
                block.forward = partial(_checkpointed, block.forward)
        self._pad = _pad_token(self._model, base.is_causal)
        self._head = self._plain_head() if base.is_causal and not recipe.full else None
        self._hidden, self._logits = self._eager_hidden, self._eager_logits
        self._loss_and_slopes: LossAndSlopes = loss_and_slopes

    def compile(self) -> None:
        """Training runs compiled code from now on; the first step compiles it, which takes a minute."""
        if self._loss_and_slopes is not loss_and_slopes:
            return
        self._hidden = torch.compile(self._eager_hidden, dynamic=False)
        self._logits = torch.compile(self._eager_logits, dynamic=False)
        self._loss_and_slopes = torch.compile(loss_and_slopes, dynamic=False)

    def attach(self, tensors: list[Tensor], keys: Tensor | None = None) -> None:
        """Puts adapters and heads into their places; `keys`, int64 (models,), decide what is dropped."""
        places = iter(tensors)
        for number, layer in enumerate(self.adapted.values(), 1):
            layer.down, layer.up = next(places), next(places)
            layer.key = (
                None if keys is None or not layer.dropout else keys + wrapped(number * LAYER_KEY_STRIDE)
            )
        for head in self.heads.values():
            head.weight = next(places)
            head.bias = None if head.layer.bias is None else next(places)

    def detach(self) -> None:
        """Leaves the base alone."""
        for layer in self.adapted.values():
            layer.down = layer.up = layer.key = None
        for head in self.heads.values():
            head.weight = head.bias = None

    def loss(self, tokens: Tensor, weight: Tensor) -> Tensor:
        """The weighted sum of the documents' losses; tokens (documents, positions), weights (documents,)."""
        targets = tokens[:, 1:].clamp(min=0).reshape(-1).long()
        of_tokens = token_weights(tokens, weight).reshape(-1)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._autocasts):
            if self._head is None:
                logits = self._logits(tokens)[:, :-1]
                return logits_loss(logits.reshape(len(targets), -1), targets, of_tokens)
            hidden = self._hidden(tokens)[:, :-1]
            rows = hidden.reshape(len(targets), -1)
            total: Tensor = HeadLoss.apply(  # type: ignore[no-untyped-call]
                rows, *self._head.weights(self.device.type), targets, of_tokens, self._loss_and_slopes
            )
            return total

    def label_outputs(self, tokens: Tensor) -> Tensor:
        """The outputs of a model that predicts labels in training; (documents, outputs)."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._autocasts):
            return self._logits(tokens).float()

    def outputs(self, tokens: Tensor) -> Tensor:
        """Outputs in evaluation: (documents, positions, vocabulary), or (documents, outputs) of labels."""
        with torch.no_grad(), _fast_matmul(self._autocasts):
            return self._eager_logits(tokens).float()

    def _eager_logits(self, tokens: Tensor) -> Tensor:
        # Behind the end of a document nothing is predicted, and a causal model looks back only: no mask.
        mask = None if self.base.is_causal else (tokens >= 0).long()
        logits: Tensor = self._model(input_ids=self._ids(tokens), attention_mask=mask).logits
        return logits

    def _eager_hidden(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self._model.base_model(input_ids=self._ids(tokens)).last_hidden_state
        return hidden

    def _ids(self, tokens: Tensor) -> Tensor:
        return tokens.masked_fill(tokens < 0, self._pad).long()

    def _plain_head(self) -> Frozen | None:
        """The head, if it is a frozen linear layer and nothing comes after it; None: it is not."""
        head = self._model.get_output_embeddings()
        if not isinstance(head, nn.Linear):
            return None
        tokens = torch.arange(min(4, self.base.vocabulary), device=self.device)[None]
        logits = self.outputs(tokens)
        with torch.no_grad():
            plain = head(self._eager_hidden(tokens)).float()
        is_plain = float((logits - plain).abs().max()) <= _CLOSE * float(logits.abs().max())
        return Frozen(head, self._autocasts) if is_plain else None


@lru_cache(maxsize=1)
def network_of(base: Base, recipe: AdapterRecipe, device: torch.device, length: int) -> Network:
    """The network of a recipe, for records of `length` tokens; the blocks of a process share it."""
    return Network(base, recipe, device, length)


def wrapped(number: int) -> int:
    """The number as a signed integer of 64 bits, as torch computes with."""
    return (number + 2**63) % 2**64 - 2**63


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    """Replaces the layer of this name."""
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)


def _pad_token(model: Any, is_causal: bool) -> int:
    """What stands behind the end of a document; transformers would look for it in every batch."""
    if is_causal:
        model.config.pad_token_id = None
        return 0
    if model.config.pad_token_id is None:
        model.config.pad_token_id = 0
    return int(model.config.pad_token_id)


@contextmanager
def _fast_matmul(is_fast: bool) -> Iterator[None]:
    """Lets a GPU multiply float32 matrices with three digits, ten times as fast; sums keep seven."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if is_fast else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _checkpointed(forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)
