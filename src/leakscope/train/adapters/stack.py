"""A block of adapters that are trained side by side; implements the `Stack` protocol of `train/steps.py`."""

from __future__ import annotations

from math import ceil, sqrt

import torch
from torch import Tensor, nn

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import IntArray
from leakscope.disk.scratch import blocks
from leakscope.models.language import Base, weight_shape
from leakscope.randomness import Purpose, seed_integer
from leakscope.train.adapters.documents import trimmed
from leakscope.train.adapters.layers import DOCUMENT_STRIDE
from leakscope.train.adapters.network import Network, network_of
from leakscope.train.clipping import Clip, clip_factor
from leakscope.train.dropout import PASS_KEY_STRIDE
from leakscope.train.losses import Objective

_EVALUATED_AT_ONCE = {"cpu": 2**14, "cuda": 2**18}  # tokens
_GRADIENTS_AT_ONCE = 2**28  # entries of single documents' gradients held together
_HEAD_SPREAD = 0.02  # of a new head's weights, where the config of the base states none


class AdapterStack:
    """Adapters of a block of models; records are token ids (models, documents, positions), -1 at the end."""

    def __init__(
        self,
        base: Base,
        recipe: AdapterRecipe,
        models: IntArray,
        seed: int,
        objective: Objective,
        device: torch.device,
        length: int,
    ) -> None:
        self.objective, self.nets = objective, list[nn.Module]()
        self.network = network_of(base, recipe, device, length)
        self._accumulation = recipe.accumulation
        drawn = [initial_tensors(self.network, recipe, model, seed) for model in models.tolist()]
        self.parameters = [torch.stack(own).to(device) for own in zip(*drawn, strict=True)]
        self._own = [p.detach().requires_grad_() for p in self.parameters]
        keys = [seed_integer(seed, model, Purpose.DROPOUT) for model in models.tolist()]
        self.buffers = [torch.tensor(keys, device=device)] if recipe.lora.dropout else []

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the weighted loss, in the order of `parameters`."""
        x = trimmed(x)
        at_once = ceil(x.shape[1] / self._accumulation)
        totals: list[Tensor] = []
        for some in blocks(x.shape[1], at_once):
            self.network.attach(self._own, self._keys(some.start))
            loss = self._loss(x[:, some], y[:, some], row_weight[:, some])
            parts = torch.autograd.grad(loss, self._own, materialize_grads=True)
            totals = [t + p for t, p in zip(totals, parts, strict=True)] if totals else list(parts)
        self._move_on()
        return [g.contiguous() for g in totals]  # the optimizer's kernels go by memory, not by strides

    def clipped_gradients(self, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip) -> list[Tensor]:
        """Weighted sum of the documents' gradients, each scaled down to norm `clip`.

        Every document gets a copy of its model's adapter, whose gradient is that of the document alone.
        """
        x = trimmed(x[:, :, 0])
        n_numbers = sum(p.numel() for p in self.parameters)
        at_once = min(ceil(x.shape[1] / self._accumulation), max(1, _GRADIENTS_AT_ONCE // n_numbers))
        totals = [torch.zeros_like(p) for p in self.parameters]
        for some in blocks(x.shape[1], at_once):
            single = self._single_gradients(x[:, some], y[:, some], some.start)
            squares = torch.stack([g.flatten(2).square().sum(2) for g in single]).sum(0)
            own_clip = clip[:, some] if isinstance(clip, Tensor) else clip
            factor = row_weight[:, some] * clip_factor(squares, own_clip)
            for total, g in zip(totals, single, strict=True):
                total += torch.einsum("kn,kn...->k...", factor, g)
        self._move_on()
        return totals

    def _single_gradients(self, x: Tensor, y: Tensor, first: int) -> list[Tensor]:
        """The gradient of each document; (models, documents, ...)."""
        n_models, n_documents = x.shape[:2]
        copies = [
            p[:, None].expand(n_models, n_documents, *p.shape[1:]).flatten(0, 1).detach().requires_grad_()
            for p in self.parameters
        ]
        self.network.attach(copies, self._keys(first))
        loss = self._loss(x, y, torch.ones(n_models, n_documents, device=x.device))
        return [g.view(n_models, n_documents, *g.shape[1:]) for g in torch.autograd.grad(loss, copies)]

    def in_own_shapes(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors like `parameters`: they have the adapters' own shapes."""
        return tensors

    def outputs(self, x: Tensor) -> Tensor:
        """x (models, documents, positions) -> (models, documents, [positions,] outputs)."""
        self.network.attach(self.parameters)
        n_models, n_documents, positions = x.shape
        at_once = max(1, _EVALUATED_AT_ONCE[x.device.type] // (n_models * positions))
        parts = []
        for some in blocks(n_documents, at_once):
            outputs = self.network.outputs(x[:, some].flatten(0, 1))
            parts.append(outputs.view(n_models, -1, *outputs.shape[1:]))
        return torch.cat(parts, dim=1)

    def base_outputs(self, x: Tensor) -> Tensor:
        """Outputs of the base alone; x (documents, positions)."""
        self.network.detach()
        return self.network.outputs(x)

    @property
    def vocabulary(self) -> int:
        """Number of tokens of the base."""
        return self.network.base.vocabulary

    def state(self) -> dict[str, Tensor]:
        """Adapters and heads by name, with a leading models axis."""
        return dict(zip(names_of(self.network), self.parameters, strict=True))

    def _loss(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        tokens, weights = x.flatten(0, 1), weight.flatten()
        if self.network.base.is_causal:
            return self.network.loss(tokens, weights)
        losses = self.objective.row_losses(self.network.label_outputs(tokens), y.flatten(0, 1))
        return (losses * weights).sum()

    def _keys(self, first: int) -> Tensor | None:
        """Keys of dropout for documents from `first` on: a document has its own, whatever the part."""
        return self.buffers[0] + first * DOCUMENT_STRIDE if self.buffers else None

    def _move_on(self) -> None:
        for key in self.buffers:
            key.add_(PASS_KEY_STRIDE)


def names_of(network: Network) -> list[str]:
    """The names of adapters and heads, in the order of a stack's parameters."""
    names = [f"{layer}.{part}" for layer in network.adapted for part in ("down", "up")]
    for name, head in network.heads.items():
        names += [f"{name}.weight"] + ([] if head.layer.bias is None else [f"{name}.bias"])
    return names


def initial_tensors(network: Network, recipe: AdapterRecipe, model: int, seed: int) -> list[Tensor]:
    """The adapters and heads that a model begins with, in the order of `names_of`."""
    rng = torch.Generator().manual_seed(seed_integer(seed, model, Purpose.INITIALISATION))
    tensors = []
    for adapted in network.adapted.values():
        outputs, inputs = weight_shape(adapted.layer)
        bound = 1 / sqrt(inputs)
        tensors.append(torch.empty(recipe.lora.rank, inputs).uniform_(-bound, bound, generator=rng))
        tensors.append(torch.zeros(outputs, recipe.lora.rank))
    for name, head in network.heads.items():
        own = [p.detach().cpu().clone() for p in (head.layer.weight, head.layer.bias) if p is not None]
        fill_new(name, own[0], own[1] if len(own) > 1 else None, network.base, rng)
        tensors += own
    return tensors


def fill_new(name: str, weight: Tensor, bias: Tensor | None, base: Base, rng: torch.Generator) -> None:
    """Draws the weights of a layer of this name that the base has none for; its bias begins at zero."""
    if f"{name}.weight" in base.new:
        spread = getattr(base.model.config, "initializer_range", _HEAD_SPREAD)
        weight.copy_(torch.empty(weight.shape).normal_(0, spread, generator=rng))
    if bias is not None and f"{name}.bias" in base.new:
        bias.zero_()
