"""Causal attention without a mask: nothing for the host to look at, and the fastest kernels.

transformers makes a mask from the values of a batch, which the host has to wait for; a step that waits cannot
be captured as a CUDA graph. Behind the end of a document nothing is predicted, and what comes before cannot
see it, so a causal model needs no mask at all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_NAME = "leakscope_causal"
_CLOSE = 1e-3  # of the largest logit


def use_plain_causal_attention(model: Any, length: int) -> bool:
    """Lets a causal model attend without masks, where that gives what it gave before on a text of `length`.

    A model with other masks (a sliding window, say) or a version of transformers without this interface stays
    as it is.
    """
    try:
        from transformers import AttentionInterface
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
    except ImportError:
        return False

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, _: object, **options: Any) -> Any:
        return sdpa_attention_forward(module, query, key, value, None, **{**options, "is_causal": True})

    before = model.config._attn_implementation
    if before != "sdpa":
        return False
    tokens = (torch.arange(length, device=model.device) % model.config.vocab_size)[None]
    with torch.no_grad():
        expected = model(input_ids=tokens).logits
        AttentionInterface.register(_NAME, attend)
        try:
            model.set_attn_implementation(_NAME)
            given = model(input_ids=tokens).logits
            is_same = float((given - expected).abs().max()) <= _CLOSE * float(expected.abs().max())
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            is_same = False
    if not is_same:
        model.set_attn_implementation(before)
    return is_same
