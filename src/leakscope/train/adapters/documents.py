"""Language models are evaluated on documents: logits in, signals per document out."""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.scratch import blocks
from leakscope.errors import InputError
from leakscope.signals.registry import BASE_SECRET_RANK, LANGUAGE, SECRET_RANK, find_signal
from leakscope.signals.secrets import secret_ranks
from leakscope.signals.tokens import DocumentFacts, TokenStats, document_signals, token_stats
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.train.loop import Inputs

_LOGITS_AT_ONCE = {"cpu": 2**26, "cuda": 2**30}


class Speakers(Protocol):
    """Language models, and the base that they were fine-tuned from."""

    def outputs(self, x: Tensor) -> Tensor:
        """(models, documents, positions) -> logits (models, documents, positions, vocabulary)."""

    def base_outputs(self, x: Tensor) -> Tensor:
        """(documents, positions) -> logits (documents, positions, vocabulary)."""

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""


def evaluate_documents(
    stack: Speakers, inputs: Inputs, design: Design, signal_names: tuple[str, ...]
) -> dict[str, AnyArray]:
    """The block's signals on every record; (models, records[, positions]) each."""
    assert inputs.records is not None and design.columns is None, "checked with the request"
    n_models, n_records = design.in_mask.shape
    with_base = any(find_signal(name, LANGUAGE).inputs == "tokens and base" for name in signal_names)
    sizes = torch.from_numpy(compressed_bytes(inputs.records)).to(inputs.x.device)
    of_record = n_models * inputs.x.shape[1] * stack.vocabulary
    at_once = max(1, _LOGITS_AT_ONCE[inputs.x.device.type] // of_record)
    parts = []
    for some in blocks(n_records, at_once):
        rows = torch.arange(some.start, some.stop, device=inputs.x.device)
        tokens = trimmed(inputs.rows(rows))
        base = token_stats(stack.base_outputs(tokens)[None], tokens) if with_base else None
        stats = _stats_of_models(stack, tokens, n_models)
        signals = document_signals(stats, base, DocumentFacts(sizes[rows]), signal_names)
        parts.append({name: _widened(values, inputs.x.shape[1] - 1) for name, values in signals.items()})
    signals = {name: torch.cat([part[name] for part in parts], dim=1) for name in parts[0]}
    signals |= _ranks_of_secrets(stack, inputs, n_models, at_once, signal_names)
    return {name: signals[name].cpu().numpy() for name in signal_names}


def _ranks_of_secrets(
    stack: Speakers, inputs: Inputs, n_models: int, at_once: int, signal_names: tuple[str, ...]
) -> dict[str, Tensor]:
    """Where planted secrets rank among their alternatives, under the models and under the base."""
    assert inputs.records is not None, "checked with the request"
    secrets = None if inputs.records.text is None else inputs.records.text.secrets
    if not {SECRET_RANK, BASE_SECRET_RANK}.intersection(signal_names):
        return {}
    if secrets is None:
        raise InputError(f"signals={SECRET_RANK!r} is of planted secrets, and there are none; leave it out")

    def of_base(tokens: Tensor) -> TokenStats:
        return token_stats(stack.base_outputs(tokens)[None], tokens)

    of_models = partial(_stats_of_models, stack, n_models=n_models)
    base = secret_ranks(of_base, secrets, inputs.x, at_once)
    return {
        SECRET_RANK: secret_ranks(of_models, secrets, inputs.x, at_once),
        BASE_SECRET_RANK: base.expand(n_models, -1),
    }


def compressed_bytes(records: Records) -> IntArray:
    """Bytes of each document compressed by zlib: of its text, or of its token ids where no text is known."""
    if records.text is not None:
        return records.text.zlib_bytes
    sizes = [len(zlib.compress(np.ascontiguousarray(row[row >= 0]).data)) for row in records.features]
    return np.array(sizes, dtype=np.int64)


def trimmed(tokens: Tensor) -> Tensor:
    """Without the positions behind the end of all documents; on a GPU, shapes stay what they are."""
    if tokens.device.type != "cpu":
        return tokens
    return tokens[..., : max(2, int((tokens >= 0).sum(-1).max()))]


def _stats_of_models(stack: Speakers, tokens: Tensor, n_models: int) -> TokenStats:
    """Model by model: the last bits of a sum depend on what is computed beside it."""
    logits = stack.outputs(tokens.expand(n_models, *tokens.shape))
    stats = [token_stats(own[None], tokens) for own in logits]
    log_prob, mean, variance, best = (torch.cat(p) for p in zip(*(s[:4] for s in stats), strict=True))
    return TokenStats(log_prob, mean, variance, best, stats[0].mask)


def _widened(values: Tensor, positions: int) -> Tensor:
    """Values per token get their full number of positions."""
    if values.ndim < 3:
        return values
    return torch.nn.functional.pad(values, (0, positions - values.shape[2]))
