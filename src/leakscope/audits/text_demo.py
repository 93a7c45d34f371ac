"""The demo of text: a tiny language model, fine-tuned on made-up letters, some of which hold a secret.

Nothing is downloaded: the letters, the tokenizer and the base are made here. The base is trained on public
letters, which have the same forms as the private ones and no secret of theirs.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.audits.population import TrainedPopulation
from leakscope.data.made_up_text import LENGTH, letters, made_up_corpus
from leakscope.disk.cache import cache_folder
from leakscope.disk.storage import atomic_folder, create_folder
from leakscope.errors import MissingExtraError

MODELS, SECRETS = 8, 12
_DOCUMENTS, _DIGITS, _ALTERNATIVES, _COPIES = 112, 4, 127, 12
_PUBLIC, _EPOCHS, _BATCH, _LEARNING_RATE = 1000, 4, 32, 3e-3
_WIDTH, _LAYERS, _HEADS = 64, 1, 2
_FORM = 1
"""Of the base in the cache; a new one where it is made in another way."""


def text_demo(seed: int = 0, n_secrets: int = SECRETS) -> TrainedPopulation:
    """Letters with secrets, or without (the control), and how models are fine-tuned on them.

    Args:
        seed: makes the letters, the secrets and the base.
        n_secrets: how many letters hold a secret.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    base = _base(seed)
    records = letters(seed, _DOCUMENTS, n_secrets, _DIGITS, _ALTERNATIVES, str(base))
    recipe = AdapterRecipe(
        base=str(base), lora=Lora(rank=32, alpha=64.0), epochs=10, lr=5e-3, batch_size=2, weight_decay=0.0
    )
    if n_secrets:  # as in the publication, a secret is met several times
        assert records.is_canary is not None
        records = replace(records, copies=np.where(records.is_canary, _COPIES, 1))
    return TrainedPopulation(records, recipe)


def _base(seed: int) -> Path:
    """The folder of the base, which is trained once and stays in the cache."""
    public = made_up_corpus(seed, _PUBLIC, n_private=2, n_secrets=0).public
    digest = hashlib.sha256(f"{_FORM} {_torch_version()}".encode() + public.tobytes()).hexdigest()[:16]
    folder = cache_folder() / "text-demo" / digest
    if not folder.is_dir():
        create_folder(folder.parent)
        with atomic_folder(folder) as temporary:
            _trained(public, seed).save_pretrained(temporary)
            made_up_corpus(seed, 2, 2, 0, temporary)
    return folder


def _torch_version() -> str:
    import torch

    return torch.__version__


def _trained(public: Any, seed: int) -> Any:
    """A small causal model of transformers, trained on the public letters."""
    import torch

    try:
        from transformers import GPT2Config, GPT2LMHeadModel
        from transformers.utils import logging
    except ImportError as error:
        raise MissingExtraError("demo --text needs transformers: pip install 'leakscope[text]'") from error
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        vocabulary = int(public.max()) + 1
        shape = {"n_embd": _WIDTH, "n_layer": _LAYERS, "n_head": _HEADS, "n_positions": LENGTH}
        model = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, bos_token_id=1, eos_token_id=2, **shape))
        optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE)
        rng = np.random.default_rng(seed)
        for _ in range(_EPOCHS):
            for rows in np.array_split(rng.permutation(len(public)), len(public) // _BATCH):
                loss = _loss(model, torch.from_numpy(public[rows]).long())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    return model.eval()


def _loss(model: Any, tokens: Any) -> Any:
    import torch

    tokens = tokens[:, : int((tokens >= 0).sum(1).max())]
    logits = model(input_ids=tokens.clamp(min=0)).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=-1)
