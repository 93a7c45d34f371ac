"""Full fine-tuning: all weights of a copy of the base, one model after the other."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import IntArray
from leakscope.models.language import Base, head_layers
from leakscope.randomness import Purpose, seed_integer
from leakscope.train.adapters.network import Network, network_of
from leakscope.train.adapters.stack import AdapterStack, fill_new
from leakscope.train.losses import Objective


class FullModel(AdapterStack):
    """A block of exactly one model, all of whose weights are trained."""

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
        (model,) = models.tolist()
        self.objective, self.nets, self.buffers = objective, list[nn.Module](), list[Tensor]()
        self._accumulation, self._original = recipe.accumulation, network_of(base, recipe, device, length)
        own = copy.deepcopy(base.model).requires_grad_()
        rng = torch.Generator().manual_seed(seed_integer(seed, model, Purpose.INITIALISATION))
        for name, head in ({} if base.is_causal else head_layers(own)).items():
            fill_new(name, head.weight.data, None if head.bias is None else head.bias.data, base, rng)
        self.network = Network(base._replace(model=own), recipe, device, length)
        named = {name: p for name, p in own.named_parameters() if p.requires_grad}
        self._names, self._own = list(named), list[Tensor](named.values())
        self.parameters = [p.detach()[None] for p in self._own]

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the weighted loss, in the order of `parameters`."""
        return [g[None] for g in super().gradients(x, y, row_weight)]

    def base_outputs(self, x: Tensor) -> Tensor:
        """Outputs of the base alone; x (documents, positions)."""
        return self._original.outputs(x)

    def state(self) -> dict[str, Tensor]:
        """Weights by name, with a leading models axis."""
        return dict(zip(self._names, self.parameters, strict=True))
