"""Layers of a base with an adapter per model beside them; the batch axis carries the model.

Rows of a batch are (models * documents, positions, inputs), all documents of a model after each other. The
frozen layer sees one large batch. The adapters see it as (models, documents * positions, inputs), one product
of matrices per model. With one adapter per document, gradients come out per document: that is all that
DP-SGD needs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from leakscope.train.dropout import ROW_KEY_STRIDE
from leakscope.train.hashing import WEYL, mixed, shifted


class Frozen:
    """The weights of a frozen linear layer, also in bfloat16 where training computes in it."""

    def __init__(self, layer: nn.Module) -> None:
        self._layer = layer
        self._half: tuple[Tensor, Tensor | None] | None = None

    def weights(self, device_type: str) -> tuple[Tensor, Tensor | None]:
        """Weight (outputs, inputs) and bias, as the forward pass takes them; the copy is made once."""
        if not torch.is_autocast_enabled(device_type):
            return _weights(self._layer)
        if self._half is None:
            weight, bias = _weights(self._layer)
            self._half = weight.bfloat16(), None if bias is None else bias.bfloat16()
        return self._half


class Adapted(nn.Module):
    """A frozen linear layer with low-rank adapters.

    Attributes:
        down: float (adapters, rank, inputs); None: the layer as it is.
        up: float (adapters, outputs, rank).
        key: int64 (models,), decides which inputs of the adapters are dropped; None: none.
    """

    down: Tensor | None
    up: Tensor | None
    key: Tensor | None

    def __init__(self, layer: nn.Module, scale: float, dropout: float) -> None:
        super().__init__()
        self.layer, self.scale, self.dropout = layer, scale, dropout
        self.down = self.up = self.key = None
        self.frozen = Frozen(layer)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's outputs, plus those of each model's adapter."""
        frozen = F.linear(x, *self.frozen.weights(x.device.type))
        if self.down is None or self.up is None:
            return frozen
        given = x if self.key is None else self._dropped(x, self.key)
        rows = given.reshape(len(self.down), -1, x.shape[-1])
        low = torch.bmm(rows, self.down.transpose(1, 2))
        base = frozen.reshape(len(self.up), -1, frozen.shape[-1])
        return torch.baddbmm(base, low, self.up.transpose(1, 2), alpha=self.scale).view(frozen.shape)

    def _dropped(self, x: Tensor, key: Tensor) -> Tensor:
        """x with entries dropped at random: a hash of the model's key, the document and the place in it.

        Documents count from 0 for each model, so its masks do not depend on the models trained beside it.
        """
        document = torch.arange(len(x) // len(key), device=x.device) * ROW_KEY_STRIDE
        place = torch.arange(x.shape[1] * x.shape[2], device=x.device) * WEYL
        bits = mixed(place + document[:, None] + key[:, None, None])
        keeps = shifted(bits, 40) >= int(self.dropout * 2**24)
        return x * keeps.view(x.shape) / (1 - self.dropout)


class TrainedLinear(nn.Module):
    """A linear layer that is trained itself, one per model: the head of a model that predicts labels.

    Attributes:
        weight: float (models, outputs, inputs); None: those of the frozen layer.
        bias: float (models, outputs); None: there is none.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.weight = self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        """Each model's outputs."""
        if self.weight is None:
            outputs: Tensor = self.layer(x)
            return outputs
        rows = x.reshape(len(self.weight), -1, x.shape[-1])
        outputs = torch.bmm(rows, self.weight.transpose(1, 2))
        if self.bias is not None:
            outputs = outputs + self.bias[:, None]
        return outputs.view(*x.shape[:-1], -1)


def _weights(layer: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight (outputs, inputs) and bias of a linear layer, or of GPT-2's Conv1D."""
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))
    return (weight if isinstance(layer, nn.Linear) else weight.T), bias
