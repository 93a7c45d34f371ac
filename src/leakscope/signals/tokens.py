"""Signals of documents: what a causal language model says about each next token, as numbers per document.

A document of T tokens has T - 1 positions: at position t the model predicts token t + 1 from those before it.
Every signal is one number for the whole document, so an attack that compares models compares documents.
Tokens of a document are correlated, and none of the signals treats them as independent observations.

With `l_t` the log-probability of the token at position t, `b_t` the same under the base, and `mu_t` and
`sigma_t` the mean and the standard deviation of the log-probabilities of all tokens of the vocabulary under
the model's own distribution at t:

- `loss` is `-mean(l)`, `log_prob` is `mean(l)`, `log_prob_sum` is `sum(l)`.
- `log_odds` is `log(p / (1 - p))` of `p = exp(mean(l))`, the geometric mean of the token probabilities: the
  same function of `loss` as for a classifier.
- `lowest_log_probs` is the mean of the lowest 20% of `l` (min-k%, Shi et al. 2024).
- `standardized_lowest` is the mean of the lowest 20% of `(l - mu) / sigma` (min-k%++, Zhang et al. 2025).
- `zlib_ratio` is `loss` divided by the bytes of the text compressed by zlib (Carlini et al. 2021).
- `base_gap` is `mean(l - b)`.
- `error_gap` is `P / (P + N)`: P is the sum of the positive `l - b`, and -N that of the negative ones, over
  the positions where the model's most probable token is not the next one. It orders documents as the ratio
  P / N does (EZ-MIA, Ilić et al. 2026). It is 1 where the model makes no error, as in the publication, and
  1/2 where nothing changed.
- `log_prob_q25`, `log_prob_q50`, `log_prob_q75` are quartiles of `l`.
- `correct` is the share of tokens that are the most probable ones.
- `extracted` is 1 where greedy decoding from the beginning of the document continues it verbatim, else 0, and
  -1 where the document is too short to tell. Greedy decoding reproduces the text exactly if every token of it
  is the most probable one given the true tokens before it, so no text needs to be generated.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from leakscope.disk.scratch import blocks
from leakscope.errors import InputError
from leakscope.signals.registry import LANGUAGE, find_signal, of_outputs

LOWEST_SHARE = 0.2
"""Share of the tokens that min-k% and min-k%++ average."""
MOST_PREFIX, MOST_CONTINUED, FEWEST_CONTINUED = 50, 50, 8
"""Extraction: a model gets the first half of a document, at most 50 tokens, and must continue it by the rest,
at most 50 tokens and at least 8."""
_AT_ONCE = 1 << 24  # logits in float32 at once
_SMALLEST_LOSS, _SMALLEST_DEVIATION = 1e-6, 1e-4


class TokenStats(NamedTuple):
    """What models say about the next tokens of documents.

    Attributes:
        log_prob: log-probability of the next token; float32 (models, documents, positions), 0 behind the end.
        mean: of the log-probabilities over the vocabulary, under the model's own distribution; likewise.
        variance: of the log-probabilities over the vocabulary; likewise.
        best: whether the next token is the most probable one; bool, likewise.
        mask: whether the document has a token there; bool (documents, positions).
    """

    log_prob: Tensor
    mean: Tensor
    variance: Tensor
    best: Tensor
    mask: Tensor


class DocumentFacts(NamedTuple):
    """What signals need to know about documents besides their tokens.

    Attributes:
        zlib_bytes: size of the text when zlib has compressed it; (documents,).
    """

    zlib_bytes: Tensor


class _Known(NamedTuple):
    """What a signal is computed from."""

    stats: TokenStats
    base: TokenStats | None
    facts: DocumentFacts


def token_stats(logits: Tensor, tokens: Tensor) -> TokenStats:
    """What models say about each next token.

    Args:
        logits: float (models, documents, length, vocabulary), of any precision; those at position t are the
            model's prediction of token t + 1.
        tokens: integers (documents, length), -1 behind the end of a document.
    """
    following = tokens[:, 1:].long()
    mask = following >= 0
    n_models, n_documents, length = logits.shape[:3]
    shape = n_models, n_documents, length - 1
    wanted = following.clamp(min=0).expand(shape).reshape(-1)
    columns = _stats_of_rows(logits[:, :, :-1].reshape(-1, logits.shape[-1]), wanted)
    log_prob, mean, variance, best = (column.view(shape) for column in columns)
    behind = ~mask
    return TokenStats(
        log_prob.masked_fill(behind, 0.0),
        mean.masked_fill(behind, 0.0),
        variance.masked_fill(behind, 0.0),
        best & mask,
        mask,
    )


def _stats_of_rows(logits: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-probability of the token, mean and variance, and whether it is the best, some rows at a time."""
    n_rows, vocabulary = logits.shape
    log_prob, mean, variance = (logits.new_empty(n_rows, dtype=torch.float32) for _ in range(3))
    best = torch.empty(n_rows, dtype=torch.bool, device=logits.device)
    step = max(1, _AT_ONCE // vocabulary)
    for rows in blocks(n_rows, step):
        all_log_probs = logits[rows].float().log_softmax(-1)
        probs = all_log_probs.exp()
        log_prob[rows] = all_log_probs.gather(-1, wanted[rows, None])[:, 0]
        best[rows] = all_log_probs.argmax(-1) == wanted[rows]
        # A token that a model rules out has a log-probability of minus infinity, and no weight.
        all_log_probs = all_log_probs.clamp(min=torch.finfo(torch.float16).min)
        mean[rows] = (probs * all_log_probs).sum(-1)
        variance[rows] = (probs * (all_log_probs - mean[rows, None]).square()).sum(-1)
    return log_prob, mean, variance, best


def document_signals(
    stats: TokenStats, base: TokenStats | None, facts: DocumentFacts, names: tuple[str, ...]
) -> dict[str, Tensor]:
    """The named signals.

    Args:
        stats: of the models.
        base: of the model that they were fine-tuned from, one model; None: it is unknown.
        facts: about the documents.
        names: shipped signals of language models; those of secrets are left out (`signals/secrets.py`).

    Returns:
        name -> float32 (models, documents); `token_log_probs` has the positions as a third axis.
    """
    signals = [find_signal(name, LANGUAGE) for name in of_outputs(names)]
    if not bool(stats.mask.any(-1).all()):
        raise InputError("a document has fewer than two tokens, so there is no next token; leave it out")
    if base is None:
        for signal in signals:
            if signal.inputs == "tokens and base":
                raise InputError(f"signals={signal.name!r} compares with the base, and there is none")
    known = _Known(stats, base, facts)
    return {signal.name: signal.compute(known).float() for signal in signals}


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the positions of each document."""
    return (values * mask).sum(-1) / mask.sum(-1)


def loss(known: _Known) -> Tensor:
    """Mean negative log-probability of the next token."""
    return -log_prob(known)


def log_prob(known: _Known) -> Tensor:
    """Mean log-probability of the next token."""
    return _mean(known.stats.log_prob, known.stats.mask)


def log_prob_sum(known: _Known) -> Tensor:
    """Log-probability of the document after its first token."""
    return known.stats.log_prob.sum(-1)


def log_odds(known: _Known) -> Tensor:
    """Log-odds of the geometric mean of the token probabilities."""
    value = loss(known).clamp(min=_SMALLEST_LOSS)
    return -(value + torch.log(-torch.expm1(-value)))


def correct(known: _Known) -> Tensor:
    """Share of the tokens that are the most probable ones."""
    return _mean(known.stats.best, known.stats.mask)


def lowest_log_probs(known: _Known) -> Tensor:
    """Min-k%: mean of the lowest log-probabilities."""
    return _mean_of_lowest(known.stats.log_prob, known.stats.mask)


def standardized_lowest(known: _Known) -> Tensor:
    """Min-k%++: mean of the lowest standardized log-probabilities."""
    stats = known.stats
    deviation = stats.variance.sqrt().clamp(min=_SMALLEST_DEVIATION)
    return _mean_of_lowest((stats.log_prob - stats.mean) / deviation, stats.mask)


def zlib_ratio(known: _Known) -> Tensor:
    """Loss per byte of the compressed text."""
    return loss(known) / known.facts.zlib_bytes


def base_gap(known: _Known) -> Tensor:
    """Mean increase of the log-probability over the base."""
    return _mean(_increase(known), known.stats.mask)


def error_gap(known: _Known) -> Tensor:
    """Share of the increases in all changes, where the model's most probable token is wrong."""
    increase = _increase(known)
    errs = known.stats.mask & ~known.stats.best
    up = (increase.clamp(min=0.0) * errs).sum(-1)
    change = (increase.abs() * errs).sum(-1)
    undecided = torch.where(errs.any(-1), 0.5, 1.0)
    return torch.where(change > 0, up / change.clamp(min=torch.finfo(up.dtype).tiny), undecided)


def extracted(known: _Known) -> Tensor:
    """Whether greedy decoding continues the beginning of the document verbatim."""
    return _is_extracted(known.stats)


def base_extracted(known: _Known) -> Tensor:
    """The same of the base, for every model."""
    assert known.base is not None, "checked by `document_signals`"
    return _is_extracted(known.base).expand(len(known.stats.best), -1)


def _is_extracted(stats: TokenStats) -> Tensor:
    n_tokens = stats.mask.sum(-1) + 1
    prefix = (n_tokens // 2).clamp(max=MOST_PREFIX)
    n_continued = (n_tokens - prefix).clamp(max=MOST_CONTINUED)
    token = torch.arange(1, stats.mask.shape[-1] + 1, device=stats.mask.device)
    is_continued = (token >= prefix[:, None]) & (token < (prefix + n_continued)[:, None])
    is_verbatim = (stats.best | ~is_continued).all(-1).float()
    return is_verbatim.masked_fill(n_continued < FEWEST_CONTINUED, -1.0)


def token_log_probs(known: _Known) -> Tensor:
    """Log-probability of every next token; 0 behind the end of a document."""
    return known.stats.log_prob


def _quantile(known: _Known, share: float) -> Tensor:
    return known.stats.log_prob.masked_fill(~known.stats.mask, torch.nan).nanquantile(share, dim=-1)


def log_prob_q25(known: _Known) -> Tensor:
    """First quartile of the log-probabilities."""
    return _quantile(known, 0.25)


def log_prob_q50(known: _Known) -> Tensor:
    """Median of the log-probabilities."""
    return _quantile(known, 0.5)


def log_prob_q75(known: _Known) -> Tensor:
    """Third quartile of the log-probabilities."""
    return _quantile(known, 0.75)


def _increase(known: _Known) -> Tensor:
    """Of the log-probabilities over the base; 0 behind the end of a document."""
    assert known.base is not None, "checked by `document_signals`"
    return known.stats.log_prob - known.base.log_prob


def _mean_of_lowest(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the lowest share of the values of each document, at least of one."""
    ascending = values.masked_fill(~mask, torch.inf).sort(-1).values
    n_lowest = (mask.sum(-1) * LOWEST_SHARE).floor().clamp(min=1)
    is_lowest = torch.arange(values.shape[-1], device=values.device) < n_lowest[:, None]
    return ascending.masked_fill(~is_lowest, 0.0).sum(-1) / n_lowest
