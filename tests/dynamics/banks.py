"""Made-up banks whose records become exposed at a known checkpoint, and the shared bank where it lies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leakscope.design import make_design
from leakscope.dynamics.decisions import Decisions
from leakscope.types import Design, Signals

SHARED_BANK = Path(__file__).resolve().parents[3] / "shared" / "banks" / "cifar10-wrn28-2"
EPOCHS = (2, 4, 8, 16)


def rising_bank(gaps, n_models=20, n_records=400, share=0.5, seed=0, kind="balanced"):
    """Log-odds with these gaps between IN and OUT, a checkpoint each, for the first `share` of records."""
    design = make_design(kind, n_models, n_records, seed)
    rng = np.random.default_rng([seed, 2])
    exposed = np.arange(n_records) < share * n_records
    gap = np.asarray(gaps)[:, None] * exposed  # (checkpoints, records)
    noise = rng.normal(size=(n_models, len(gaps), n_records))
    log_odds = noise + rng.normal(size=n_records) + gap * design.in_mask[:, None]
    labels = np.zeros(n_records, dtype=np.int64)
    return Signals({"log_odds": log_odds}, EPOCHS[: len(gaps)], labels), design


def decisions_of(is_called, epochs=EPOCHS):
    """Decisions as if an attack had made them; bool (models, checkpoints, records)."""
    return Decisions(epochs[: is_called.shape[1]], is_called)


def shared_bank():
    """The shared bank's signals and design; skips where it is not."""
    if not SHARED_BANK.is_dir():
        pytest.skip(f"no bank of real signals: {SHARED_BANK} is not there")
    files = sorted(SHARED_BANK.glob("log_odds_epoch*.npy"))
    log_odds = np.stack([np.load(file) for file in files], axis=1).astype(np.float32)
    epochs = tuple(int(file.stem[-3:]) for file in files)
    return Signals({"log_odds": log_odds}, epochs, np.load(SHARED_BANK / "labels.npy")), Design(
        np.load(SHARED_BANK / "design.npy")
    )
