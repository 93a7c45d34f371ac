"""Signals of documents against plain numpy, one token at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special

from leakscope.errors import InputError
from leakscope.signals import tokens as module
from leakscope.signals.registry import (
    CLASSIFICATION,
    LANGUAGE,
    SIGNALS,
    default_signals,
    find_signal,
    names_of,
    of_outputs,
    task_of,
)
from leakscope.signals.tokens import DocumentFacts, TokenStats, document_signals, token_stats

MODELS, DOCUMENTS, LENGTH, VOCABULARY = 3, 5, 9, 11
LENGTHS = (9, 2, 6, 7, 3)
NOT_NAIVE = {"token_log_probs", "extracted", "base_extracted"}
ZLIB = np.array([30, 12, 21, 25, 14])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def tokens(rng: np.random.Generator) -> np.ndarray:
    ids = rng.integers(VOCABULARY, size=(DOCUMENTS, LENGTH)).astype(np.int32)
    ids[np.arange(LENGTH) >= np.array(LENGTHS)[:, None]] = -1
    return ids


def logits_of(rng: np.random.Generator, models: int = MODELS) -> np.ndarray:
    return 2 * rng.normal(size=(models, DOCUMENTS, LENGTH, VOCABULARY))


def signals_of(logits: np.ndarray, base: np.ndarray, tokens: np.ndarray, names=None) -> dict:
    stats, base_stats = (token_stats(torch.from_numpy(z), torch.from_numpy(tokens)) for z in (logits, base))
    facts = DocumentFacts(torch.from_numpy(ZLIB))
    return document_signals(stats, base_stats, facts, names or names_of(LANGUAGE))


def naive(logits: np.ndarray, base: np.ndarray, tokens: np.ndarray, length: int, zlib_bytes: int) -> dict:
    """The signals of one model and one document; logits (length, vocabulary), tokens (length,)."""
    own, before, standardized, best = [], [], [], []
    for t in range(length - 1):
        log_p = special.log_softmax(logits[t])
        p = np.exp(log_p)
        mu = sum(p * log_p)
        sigma = np.sqrt(sum(p * (log_p - mu) ** 2))
        own.append(log_p[tokens[t + 1]])
        before.append(special.log_softmax(base[t])[tokens[t + 1]])
        standardized.append((own[-1] - mu) / sigma)
        best.append(np.argmax(logits[t]) == tokens[t + 1])
    n_lowest = max(1, int(0.2 * len(own)))
    shifts = [a - b for a, b, right in zip(own, before, best, strict=True) if not right]
    up, down = sum(s for s in shifts if s > 0), -sum(s for s in shifts if s < 0)
    p = np.exp(np.mean(own))
    return {
        "loss": -np.mean(own),
        "log_prob": np.mean(own),
        "log_prob_sum": sum(own),
        "log_odds": np.log(p / (1 - p)),
        "correct": np.mean(best),
        "lowest_log_probs": np.mean(sorted(own)[:n_lowest]),
        "standardized_lowest": np.mean(sorted(standardized)[:n_lowest]),
        "zlib_ratio": -np.mean(own) / zlib_bytes,
        "base_gap": np.mean(own) - np.mean(before),
        "error_gap": up / (up + down) if shifts else 1.0,
        "log_prob_q25": np.quantile(own, 0.25),
        "log_prob_q50": np.quantile(own, 0.5),
        "log_prob_q75": np.quantile(own, 0.75),
    }


def test_every_signal_is_what_one_token_at_a_time_gives(rng: np.random.Generator, tokens: np.ndarray) -> None:
    logits, base = logits_of(rng), logits_of(rng, 1)
    signals = signals_of(logits, base, tokens)
    per_token = signals.pop("token_log_probs")
    for name in ("extracted", "base_extracted"):
        assert (signals.pop(name) == -1).all()  # documents of at most 9 tokens
    assert set(signals) == set(of_outputs(names_of(LANGUAGE))) - NOT_NAIVE
    for model in range(MODELS):
        for document, length in enumerate(LENGTHS):
            expected = naive(
                logits[model, document], base[0, document], tokens[document], length, ZLIB[document]
            )
            for name, values in signals.items():
                assert values[model, document].item() == pytest.approx(expected[name], rel=1e-5, abs=1e-6)
            own = per_token[model, document]
            assert (own < 0).tolist() == [True] * (length - 1) + [False] * (LENGTH - length)
            assert own.sum().item() == pytest.approx(expected["log_prob_sum"], rel=1e-5)


def test_tokens_behind_the_end_change_nothing(rng: np.random.Generator, tokens: np.ndarray) -> None:
    logits, base = logits_of(rng), logits_of(rng, 1)
    changed, other_base = logits.copy(), base.copy()
    for document, length in enumerate(LENGTHS):
        changed[:, document, length - 1 :] = 1e4 * rng.normal(size=changed[:, document, length - 1 :].shape)
        other_base[:, document, length - 1 :] = 0.0
    expected = signals_of(logits, base, tokens)
    for name, values in signals_of(changed, other_base, tokens).items():
        np.testing.assert_array_equal(values.numpy(), expected[name].numpy())


def test_small_pieces_and_one_piece_agree(
    rng: np.random.Generator, tokens: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, base = logits_of(rng), logits_of(rng, 1)
    expected = signals_of(logits, base, tokens)
    monkeypatch.setattr(module, "_AT_ONCE", 3 * VOCABULARY)
    for name, values in signals_of(logits, base, tokens).items():
        np.testing.assert_allclose(values.numpy(), expected[name].numpy(), rtol=1e-6)


def test_half_precision_logits_lose_no_more_than_their_rounding(
    rng: np.random.Generator, tokens: np.ndarray
) -> None:
    rounded = torch.from_numpy(logits_of(rng)).bfloat16()
    half = token_stats(rounded, torch.from_numpy(tokens))
    exact = token_stats(rounded.double(), torch.from_numpy(tokens))
    assert half.log_prob.dtype == torch.float32
    for a, b in zip(half, exact, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_certain_and_impossible_tokens_stay_finite(tokens: np.ndarray) -> None:
    certain = np.full((1, DOCUMENTS, LENGTH, VOCABULARY), -1e5)
    following = np.where(tokens[:, 1:] < 0, 0, tokens[:, 1:])
    np.put_along_axis(certain[0, :, :-1], following[..., None], 1e5, axis=-1)
    signals = signals_of(certain, certain, tokens)
    assert (signals["correct"] == 1).all() and (signals["error_gap"] == 1).all()
    assert all(values.isfinite().all() for values in signals.values())
    wrong = signals_of(-certain, certain, tokens)
    assert all(values.isfinite().all() for values in wrong.values())
    assert (wrong["log_odds"] < signals["log_odds"]).all() and (wrong["error_gap"] == 0).all()


def test_a_model_that_equals_its_base_has_no_gap(rng: np.random.Generator, tokens: np.ndarray) -> None:
    base = logits_of(rng, 1)
    names = ("base_gap", "error_gap", "correct")
    signals = signals_of(np.repeat(base, MODELS, 0), base, tokens, names)
    assert (signals["base_gap"] == 0).all()
    expected = torch.where(signals["correct"] < 1, 0.5, 1.0)
    assert torch.equal(signals["error_gap"], expected)


def test_a_document_of_one_token_is_refused(rng: np.random.Generator, tokens: np.ndarray) -> None:
    tokens[1, 1:] = -1
    with pytest.raises(InputError, match="fewer than two tokens"):
        signals_of(logits_of(rng), logits_of(rng, 1), tokens)


def test_without_a_base_only_signals_that_compare_with_it_are_refused(tokens: np.ndarray) -> None:
    stats = token_stats(torch.zeros(1, DOCUMENTS, LENGTH, VOCABULARY), torch.from_numpy(tokens))
    facts = DocumentFacts(torch.from_numpy(ZLIB))
    assert isinstance(stats, TokenStats) and set(document_signals(stats, None, facts, ("loss",))) == {"loss"}
    with pytest.raises(InputError, match="signals='error_gap' compares with the base, and there is none"):
        document_signals(stats, None, facts, ("loss", "error_gap"))


def test_language_models_are_known_by_their_signals() -> None:
    labels = np.zeros(4, dtype=np.int64)
    assert task_of(labels, default_signals(LANGUAGE)) == LANGUAGE
    assert task_of(labels, default_signals(CLASSIFICATION)) == task_of(labels) == CLASSIFICATION
    assert {signal.task for signal in SIGNALS if signal.name == "log_odds"} == {CLASSIFICATION, LANGUAGE}


def test_a_signal_of_ones_own_is_refused_for_documents() -> None:
    with pytest.raises(InputError, match="a language model has base_extracted, ") as caught:
        find_signal(f"{__name__}:naive", LANGUAGE)
    assert "your own" not in str(caught.value)
