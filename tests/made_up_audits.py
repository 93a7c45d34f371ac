"""Audits of made-up outputs: a bank with chosen leakage and accuracy, evaluated like any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from leakscope.attacks.lira import Lira
from leakscope.attacks.spec import resolve
from leakscope.audits.run import KIND, evaluate_and_report
from leakscope.audits.source import Evidence
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.manifest import BlockNotes
from leakscope.design import make_design
from leakscope.disclosure import DEFAULT_DISCLOSURE
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.verdict import Verdict
from tests.claims import claim

N_RECORDS, N_MODELS = 120, 16


@contextmanager
def quick_single_records() -> Iterator[None]:
    """Evaluates single records with LiRA, which fits no model to all records at once."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("evaluate.attacked", "evaluate.judge", "compare.audits"):
            patch.setattr(f"leakscope.{module}.PER_RECORD", Lira())
        yield


def made_up_audit(
    folder: Path,
    gap: float,
    *,
    level: float = 1.0,
    design_seed: int = 0,
    noise_seed: int = 0,
    models: int = N_MODELS,
    records: str = "ab",
    attacks: tuple[str, ...] = ("correctness", "loss", "lira"),
    fpr_budgets: tuple[float, ...] = (0.1, 0.05),
    towns: tuple[str, ...] = ("north", "south"),
    diverged: tuple[int, ...] = (),
) -> Verdict:
    """A population whose log-odds are higher by `gap` on members; `level` sets the accuracy."""
    bank = made_up_bank(
        folder, gap, level=level, design_seed=design_seed, noise_seed=noise_seed, models=models,
        records=records, attacks=attacks, diverged=diverged,
    )  # fmt: skip
    labels = np.arange(N_RECORDS) % 2
    groups = {"town": np.array(towns)[np.arange(N_RECORDS) % len(towns)]} if towns else {}
    ids = np.array([f"r{i}" for i in range(N_RECORDS)])
    metadata = RecordMetadata(ids, np.array(["no", "yes"])[labels], groups)
    evidence = Evidence(bank, metadata, EvaluationConfig("made up", attacks, fpr_budgets))
    with pytest.MonkeyPatch.context() as patch:  # the audits' own reports are tested elsewhere
        patch.setattr("leakscope.audits.report.page.write_report", lambda *_: None)
        return evaluate_and_report(evidence, folder, DEFAULT_DISCLOSURE)


def made_up_bank(
    folder: Path,
    gap: float,
    *,
    level: float = 1.0,
    design_seed: int = 0,
    noise_seed: int = 0,
    models: int = N_MODELS,
    records: str = "ab",
    attacks: tuple[str, ...] = ("correctness", "loss", "lira"),
    diverged: tuple[int, ...] = (),
) -> Bank:
    """The bank of such a population; arguments as in `made_up_audit`."""
    design = make_design("balanced", models, N_RECORDS, design_seed)
    rng = np.random.default_rng([noise_seed, 7])
    difficulty = np.random.default_rng(99).normal(0, 1, N_RECORDS)  # the records' own, the same in all runs
    log_odds = level + difficulty + gap * design.in_mask + rng.normal(size=design.in_mask.shape)
    signals = {"correct": log_odds > 0, "log_odds": log_odds, "loss": np.logaddexp(0, -log_odds)}
    assert all(signal in signals for name in attacks for signal in resolve(name).needs)
    identity = Identity(
        records=RecordsIdentity("made up", N_RECORDS, records * 32),
        design=DesignIdentity.of(design),
        recipe={"gap": gap, "level": level, "evaluated_epochs": [1]},
        seed=noise_seed,
        signals=tuple(sorted(signals)),
        block_size=models,
    )
    claim(folder, KIND, {})
    labels = np.arange(N_RECORDS) % 2
    bank = Bank.create(folder, identity, design, labels)
    notes = BlockNotes(diverged_models=dict.fromkeys(diverged, 1))
    bank.add_block(0, {name: values[:, None] for name, values in signals.items()}, notes)
    bank.finish()
    return bank
