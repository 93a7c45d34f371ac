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

from leakscope.train.hashing import WEYL, mixed, shifted

DOCUMENT_STRIDE = 2**40
"""From the first place of one document to that of the next, where entries are dropped."""


class Frozen:
    """The weights of a frozen linear layer, also in bfloat16 where training computes in it."""

    def __init__(self, layer: nn.Module, has_half: bool) -> None:
        weight, bias = self._whole = _weights(layer)
        self._half = self._whole
        if has_half:
            self._half = weight.bfloat16(), None if bias is None else bias.bfloat16()

    def weights(self, device_type: str) -> tuple[Tensor, Tensor | None]:
        """Weight (outputs, inputs) and bias, as the forward pass takes them."""
        return self._half if torch.is_autocast_enabled(device_type) else self._whole


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

    def __init__(self, layer: nn.Module, scale: float, dropout: float, has_half: bool) -> None:
        super().__init__()
        self.layer, self.scale, self.dropout = layer, scale, dropout
        self.down = self.up = self.key = None
        self.frozen = Frozen(layer, has_half)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's outputs, plus those of each model's adapter."""
        frozen = F.linear(x, *self.frozen.weights(x.device.type))
        if self.down is None or self.up is None:
            return frozen
        given = x if self.key is None else dropped(x, self.dropout, self.key)
        rows = given.reshape(len(self.down), -1, x.shape[-1])
        low = torch.bmm(rows, self.down.transpose(1, 2))
        base = frozen.reshape(len(self.up), -1, frozen.shape[-1])
        return torch.baddbmm(base, low, self.up.transpose(1, 2), alpha=self.scale).view(frozen.shape)


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


def dropped(x: Tensor, share: float, key: Tensor) -> Tensor:
    """x with entries dropped at random: a hash of the model's key, the document and the place in it.

    Documents count from 0 for each model, so its masks do not depend on the models trained beside it.

    Args:
        x: float (models * documents, positions, inputs).
        share: of entries that become zero; the others grow accordingly.
        key: int64 (models,).
    """
    document = torch.arange(len(x) // len(key), device=x.device) * DOCUMENT_STRIDE
    place = torch.arange(x.shape[1] * x.shape[2], device=x.device)
    bits = mixed((place + document[:, None] + key[:, None, None]) * WEYL)
    keeps = shifted(bits, 40) >= int(share * 2**24)
    return x * keeps.view(x.shape) / (1 - share)


def _weights(layer: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight (outputs, inputs) and bias of a linear layer, or of GPT-2's Conv1D."""
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))
    return (weight if isinstance(layer, nn.Linear) else weight.T), bias
