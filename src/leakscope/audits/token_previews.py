"""The most exposed documents token by token, for the report (`report/documents.py`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.audits.source import Evidence
from leakscope.data.token_pieces import token_pieces
from leakscope.evaluate.attacked import converged_models
from leakscope.report.documents import MOST_DOCUMENTS, TokenPreviews
from leakscope.signals.registry import TOKEN_LOG_PROBS

_MOST_PLANTED = 5


def write_token_previews(folder: Path, evidence: Evidence, most_exposed: IntArray) -> None:
    """Writes tokens.npz, where the models are language models and the bank stores single tokens.

    Args:
        folder: the run folder.
        evidence: the bank and the records.
        most_exposed: int64 (documents,), indices among all records, the most exposed first.
    """
    records = evidence.records
    signals, design = converged_models(evidence.bank)
    if records is None or not records.is_language or TOKEN_LOG_PROBS not in signals.arrays:
        return
    hidden = np.array(evidence.config.targets or (), dtype=np.int64)
    models = np.setdiff1d(np.arange(design.n_models), hidden)  # a given model's members are secret
    planted = evidence.metadata.secret_candidates
    secrets = np.empty(0, np.int64) if planted is None else np.flatnonzero(planted)[:_MOST_PLANTED]
    chosen = np.concatenate([secrets, most_exposed[:MOST_DOCUMENTS]]).astype(np.int64)
    values = signals.last(TOKEN_LOG_PROBS)
    texts = [
        (pieces, gaps_of(values[models, record], design.in_mask[models, record], len(pieces)))
        for record, pieces in zip(chosen.tolist(), token_pieces(records, chosen), strict=True)
    ]
    is_planted = np.arange(len(chosen)) < len(secrets)
    TokenPreviews.of(records.ids[chosen].tolist(), is_planted, texts).write(folder)


def gaps_of(log_probs: AnyArray, in_mask: BoolArray, n_tokens: int) -> FloatArray:
    """How much higher the mean log-probability of each token is under models trained with the document.

    Args:
        log_probs: (models, positions) of one document.
        in_mask: bool (models,).
        n_tokens: of the document; the first one is not predicted, so it is NaN.
    """
    values = np.asarray(log_probs[:, : n_tokens - 1], dtype=np.float64)
    if in_mask.all() or not in_mask.any():
        return np.full(n_tokens, np.nan)
    gaps = values[in_mask].mean(axis=0) - values[~in_mask].mean(axis=0)
    return np.concatenate([[np.nan], gaps])
