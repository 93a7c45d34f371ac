"""Synthetic documents whose leakage is known."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.types import Design, Signals

_LENGTH, _VOCABULARY = 6, 4


def planted_documents(
    gap: float, design: Design, rng: np.random.Generator, names: tuple[str, ...]
) -> Signals:
    """Signals of language models; a document has an ease of its own, and so have its tokens.

    Args:
        gap: how much higher the logits of members' tokens are.
        design: who was in which training set.
        rng: of the documents and the models.
        names: the signals.
    """
    import torch

    from leakscope.signals.tokens import DocumentFacts, document_signals, token_stats

    shape = design.n_records, _LENGTH
    tokens = rng.integers(_VOCABULARY, size=shape)
    base = rng.normal(size=(1, *shape, _VOCABULARY)).astype(np.float32)
    _raise_next(base, tokens, rng.normal(size=(1, design.n_records)))
    logits = base + rng.normal(size=(design.n_models, *shape, _VOCABULARY)).astype(np.float32)
    _raise_next(logits, tokens, gap * design.in_mask)
    of_models, of_base = (token_stats(torch.from_numpy(z), torch.from_numpy(tokens)) for z in (logits, base))
    facts = DocumentFacts(torch.from_numpy(rng.integers(20, 60, size=design.n_records)))
    signals = document_signals(of_models, of_base, facts, names)
    labels = np.zeros(design.n_records, dtype=np.int64)
    return Signals({name: values.numpy()[:, None] for name, values in signals.items()}, (1,), labels)


def _raise_next(logits: AnyArray, tokens: IntArray, by: AnyArray) -> None:
    """Adds `by`, (models, documents), to the logits of each next token."""
    is_next = np.eye(_VOCABULARY, dtype=np.float32)[tokens[:, 1:]]
    logits[:, :, :-1] += is_next * by[..., None, None].astype(np.float32)
