"""Extraction and secrets: against a model that generates text, and against ranks counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from leakscope.frames.text import Secrets
from leakscope.signals.secrets import NO_SECRET, secret_ranks
from leakscope.signals.tokens import DocumentFacts, document_signals, token_stats

VOCABULARY = 7


def bigram_logits(table: np.ndarray, tokens: np.ndarray) -> torch.Tensor:
    """Logits of models that look at the last token only; table (models, vocabulary, vocabulary)."""
    return torch.from_numpy(table[:, np.maximum(tokens, 0)])


def greedy(table: np.ndarray, prefix: list[int], n: int) -> list[int]:
    text = list(prefix)
    for _ in range(n):
        text.append(int(table[text[-1]].argmax()))
    return text[len(prefix) :]


@pytest.mark.parametrize(
    ("length", "n_prefix", "n_continued"), [(16, 8, 8), (17, 8, 9), (150, 50, 50), (15, 7, 8)]
)
def test_extraction_is_what_greedy_decoding_gives(length: int, n_prefix: int, n_continued: int) -> None:
    rng = np.random.default_rng(length)
    table = rng.normal(size=(2, VOCABULARY, VOCABULARY))
    prefixes = rng.integers(VOCABULARY, size=(6, n_prefix))
    texts = []
    for prefix in prefixes.tolist():  # continued as the first model does, then anything
        text = prefix + greedy(table[0], prefix, n_continued)
        texts.append(text + rng.integers(VOCABULARY, size=length - len(text)).tolist())
    texts[3][n_prefix + n_continued - 1] = (texts[3][n_prefix + n_continued - 1] + 1) % VOCABULARY
    texts[4][n_prefix] = (texts[4][n_prefix] + 1) % VOCABULARY
    tokens = np.array(texts)
    stats, base = (
        token_stats(bigram_logits(t, tokens), torch.from_numpy(tokens)) for t in (table, table[1:])
    )
    names = ("extracted", "base_extracted")
    signals = document_signals(stats, base, DocumentFacts(torch.ones(6)), names)
    assert signals["extracted"][0].tolist() == [1, 1, 1, 0, 0, 1]
    for document, text in enumerate(texts):
        continued = greedy(table[1], text[:n_prefix], n_continued)
        expected = float(continued == text[n_prefix : n_prefix + n_continued])
        assert signals["extracted"][1, document] == signals["base_extracted"][0, document] == expected
        assert signals["base_extracted"][1, document] == expected


def test_a_short_document_is_not_counted() -> None:
    tokens = torch.zeros(1, 14, dtype=torch.int64)
    stats = token_stats(torch.zeros(1, 1, 14, VOCABULARY), tokens)
    signals = document_signals(stats, stats, DocumentFacts(torch.ones(1)), ("extracted",))
    assert signals["extracted"].tolist() == [[-1.0]]


def test_ranks_are_those_counted_one_candidate_at_a_time() -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(3, VOCABULARY, VOCABULARY))
    log_p = torch.from_numpy(table).log_softmax(-1).numpy()
    documents = rng.integers(VOCABULARY, size=(5, 10))
    documents[2, 8:] = -1
    spans, records = np.array([[4, 7], [1, 3]]), np.array([2, 0])
    alternatives = np.repeat(documents[records][:, None], 20, axis=1)
    for number, (start, end) in enumerate(spans.tolist()):
        alternatives[number, :, start:end] = rng.integers(VOCABULARY, size=(20, end - start))
    secrets = Secrets(records, ("a", "b"), alternatives.astype(np.int32), spans, 343)

    def stats_of(tokens: torch.Tensor):
        return token_stats(bigram_logits(table, tokens.numpy()), tokens)

    ranks = secret_ranks(stats_of, secrets, torch.from_numpy(documents), at_once=6).numpy()
    assert ranks.shape == (3, 5) and (ranks[:, [1, 3, 4]] == NO_SECRET).all()
    for model in range(3):
        for number, (start, end) in enumerate(spans.tolist()):

            def likely(text: np.ndarray, model: int = model, span: range = range(start, end)) -> float:
                return sum(log_p[model, text[t - 1], text[t]] for t in span)

            own = likely(documents[records[number]])
            expected = sum(likely(other) >= own - 1e-9 for other in alternatives[number])
            assert ranks[model, records[number]] == expected
