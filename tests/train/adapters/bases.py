"""Tiny language models and documents, made in the tests."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakscope.types import Design, Records

transformers = pytest.importorskip("transformers", reason="leakscope[text] is not installed")

VOCABULARY, POSITIONS = 61, 24


def gpt2_config(**options: Any) -> Any:
    settings = {
        "n_layer": 2,
        "n_embd": 32,
        "n_head": 2,
        "vocab_size": VOCABULARY,
        "n_positions": POSITIONS,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    return transformers.GPT2Config(**{**settings, **options})


def saved(model: Any, folder: Path) -> str:
    """Saves a model; its folder."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return str(folder)


def saved_gpt2(folder: Path, seed: int = 0, **options: Any) -> str:
    """A GPT-2 with random weights, spread so that its predictions differ from uniform ones."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = transformers.GPT2LMHeadModel(gpt2_config(initializer_range=0.2, **options))
    return saved(model, folder)


def saved_llama(folder: Path) -> str:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=POSITIONS,
            initializer_range=0.2,
        )  # fmt: skip
        return saved(transformers.LlamaForCausalLM(config), folder)


def saved_bert(folder: Path) -> str:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        config = transformers.BertConfig(
            hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
            vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, initializer_range=0.2,
        )  # fmt: skip
        return saved(transformers.BertModel(config), folder)


def documents(n: int = 24, seed: int = 0, shortest: int = 6, classes: int = 1) -> Records:
    """Random documents of different lengths."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, VOCABULARY, size=(n, POSITIONS)).astype(np.int32)
    lengths = rng.integers(shortest, POSITIONS + 1, size=n)
    tokens[np.arange(POSITIONS) >= lengths[:, None]] = -1
    names = ("document",) if classes == 1 else tuple(f"class {c}" for c in range(classes))
    ids = np.array([f"document {i}" for i in range(n)])
    return Records(tokens, np.arange(n) % classes, ids, "made up", class_names=names)


def random_halves(n_models: int, n_records: int, seed: int = 0) -> Design:
    rng = np.random.default_rng(seed)
    return Design(np.stack([rng.permutation(n_records) < n_records // 2 for _ in range(n_models)]))
