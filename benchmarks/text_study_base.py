"""The base of the text study: a small model of GPT-2's shape, trained here on public documentation."""

from __future__ import annotations

import json
import math
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from text_study_corpus import Corpus


class Shape(NamedTuple):
    """Size of the base, and of its training."""

    layers: int = 6
    width: int = 384
    length: int = 128
    batch: int = 256
    passes: int = 10
    lr: float = 1e-3


def train_base(corpus: Corpus, folder: Path, shape: Shape, device: str, seconds: float) -> None:
    """Trains the base and saves it with base.json: its loss on held-out text, and that of a unigram model.

    Training resumes from training.pt where it was interrupted. On a machine that is too slow for all steps
    within `seconds`, there are fewer; the learning rate falls to zero in any case.
    """
    if (folder / "base.json").exists():
        return
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = _new_model(corpus, shape).to(device)
    rows = _rows(corpus.public, shape.length)
    n_steps = max(1, shape.passes * len(rows) // shape.batch)
    training = _Training(model, shape, folder / "training.pt", device)
    step, started, saved = training.resumed(), time.perf_counter(), time.perf_counter()
    first, on_device = step, torch.from_numpy(rows.astype(np.int32)).to(device)
    while step < n_steps:
        if step % 50 == 0:
            now = time.perf_counter()
            n_steps = _end(step, first, n_steps, now - started, seconds)
            if now - saved > 30:
                training.save(step)
                saved = now
        picked = _batch(len(rows), shape.batch, step).to(device)
        loss = training.step(on_device[picked].long(), _rate(step, n_steps))
        if step % 200 == 0:
            print(f"step {step} of {n_steps}: loss {float(loss):.3f}, {now - started:.0f} s", flush=True)
        step += 1
    _finish(model, corpus, folder, shape, step)
    (folder / "training.pt").unlink(missing_ok=True)


def _end(step: int, first: int, n_steps: int, used: float, seconds: float) -> int:
    """The number of steps that the time allows, at the speed so far."""
    if step - first < 100:
        return n_steps
    return min(n_steps, first + int(seconds * (step - first) / used))


class _Training:
    """The model with its optimizer."""

    def __init__(self, model: Any, shape: Shape, file: Path, device: str) -> None:
        self._model, self._file, self._device, self._lr = model, file, device, shape.lr
        decayed = [p for p in model.parameters() if p.ndim > 1]
        rest = [p for p in model.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        self._optimizer = torch.optim.AdamW(groups, lr=shape.lr, betas=(0.9, 0.95), fused=device != "cpu")

    def resumed(self) -> int:
        """The step at which an earlier process stopped."""
        if not self._file.exists():
            return 0
        state = torch.load(self._file, map_location=self._device, weights_only=True)
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])

    def save(self, step: int) -> None:
        """Writes everything that the next step depends on."""
        draft = self._file.with_suffix(".draft")
        draft.parent.mkdir(parents=True, exist_ok=True)
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(), "step": step}
        torch.save(state, draft)
        draft.replace(self._file)

    def step(self, tokens: Tensor, rate: float) -> Tensor:
        """One step on a batch; its loss."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._lr * rate
        self._model.train()
        with torch.autocast(self._device, torch.bfloat16, enabled=self._device != "cpu"):
            loss = _loss(self._model, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def _loss(model: Any, tokens: Tensor) -> Tensor:
    logits = model(input_ids=tokens).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def _rate(step: int, n_steps: int) -> float:
    """A linear start within 100 steps, then a cosine to zero; relative."""
    return min(1.0, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / n_steps)))


def _batch(n_rows: int, batch: int, step: int) -> Tensor:
    """Rows of a step: those of a pass are a permutation of all."""
    per_pass = max(1, n_rows // batch)
    return torch.from_numpy(_order(n_rows, step // per_pass)[step % per_pass * batch :][:batch])


@lru_cache(maxsize=1)
def _order(n_rows: int, number: int) -> np.ndarray:
    return np.random.default_rng([1, number]).permutation(n_rows)


def _new_model(corpus: Corpus, shape: Shape) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=corpus.vocabulary,
            n_positions=shape.length,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=max(1, shape.width // 64),
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
        )
    )


def _rows(tokens: np.ndarray, length: int) -> np.ndarray:
    return tokens[: len(tokens) // length * length].reshape(-1, length)


def _finish(model: Any, corpus: Corpus, folder: Path, shape: Shape, step: int) -> None:
    model.eval()
    held_out = held_out_loss(model, _rows(corpus.held_out, shape.length))
    unigram = unigram_loss(corpus)
    model.save_pretrained(folder)
    about = {
        **shape._asdict(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": corpus.vocabulary,
        "public_tokens": len(corpus.public),
        "trained_tokens": step * shape.batch * shape.length,
        "held_out_loss": held_out,
        "public_loss": held_out_loss(model, _rows(corpus.public, shape.length)[:2000]),
        "unigram_loss": unigram,
    }
    (folder / "base.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"base: perplexity {math.exp(held_out):.1f} on held-out text, unigram {math.exp(unigram):.1f}")


@torch.no_grad()
def held_out_loss(model: Any, rows: np.ndarray) -> float:
    """Mean loss of the tokens."""
    device = next(model.parameters()).device
    parts = [_loss(model, torch.from_numpy(some.astype(np.int64)).to(device)) for some in _split(rows)]
    weights = [len(some) for some in _split(rows)]
    return float(np.average([float(part) for part in parts], weights=weights))


def _split(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[start : start + 64] for start in range(0, len(rows), 64)]


def unigram_loss(corpus: Corpus) -> float:
    """Mean loss of held-out tokens under the frequencies of the public ones (one added to each)."""
    counts = np.bincount(corpus.public, minlength=corpus.vocabulary) + 1.0
    return float(-np.log(counts / counts.sum())[corpus.held_out].mean())
