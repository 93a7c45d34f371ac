"""Run folders of audits with answers drawn from known distributions: nothing is trained, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.audits.run import evaluate_and_report
from leakscope.audits.source import Evidence
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.manifest import BlockNotes, Provenance
from leakscope.bank.run_folder import RUN
from leakscope.design import make_design
from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_json
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.verdict import Verdict
from leakscope.types import Records


@dataclass(frozen=True, eq=False)
class Synthetic:
    """An audit to make up: every tenth record is memorised, `leak` standard deviations."""

    n_records: int = 120
    n_models: int = 16
    n_checkpoints: int = 3
    leak: float = 3.0
    seed: int = 0
    ids: npt.NDArray[np.str_] | None = None
    class_names: tuple[str, ...] = ("calm", "busy")
    groups: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    pictures: bool = False
    gate: Gate | None = None
    attacks: tuple[str, ...] = ("correctness", "loss", "eb_lira")

    def records(self) -> Records:
        """Random features; pictures of 8 x 8 or four named columns."""
        rng = np.random.default_rng(1)
        features = rng.normal(size=(self.n_records, 64 if self.pictures else 4)).astype(np.float32)
        ids = np.array([f"person-{i:05d}" for i in range(self.n_records)]) if self.ids is None else self.ids
        return Records(
            features,
            (np.arange(self.n_records) % len(self.class_names)).astype(np.int64),
            ids,
            "made-up",
            self.groups,
            self.class_names,
            feature_names=() if self.pictures else ("age", "income", "city=Paris", "city=Rome"),
            picture_shape=(1, 8, 8) if self.pictures else None,
        )

    def bank(self, folder: Path) -> Bank:
        """A finished bank; memorised records' answers grow apart over the checkpoints."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RUN, {"kind": "audit", "config": {}})
        design = make_design("balanced", self.n_models, self.n_records, self.seed)
        rng = np.random.default_rng(self.seed)
        shape = (self.n_models, self.n_checkpoints, self.n_records)
        share = np.arange(1, self.n_checkpoints + 1)[None, :, None] / self.n_checkpoints
        memorised = self.leak * (np.arange(self.n_records) % 10 == 0)
        log_odds = (2 + rng.normal(size=shape) + share * memorised * design.in_mask[:, None]).astype("f4")
        identity = Identity(
            records=RecordsIdentity("made-up", self.n_records, "5" * 64),
            design=DesignIdentity.of(design),
            recipe={
                "net": "mlp", "net_options": {"width": 8}, "optimizer": "adam", "lr": 0.01, "batch_size": 8,
                "epochs": self.n_checkpoints, "evaluated_epochs": list(range(1, self.n_checkpoints + 1)),
            },
            seed=self.seed,
            signals=("correct", "log_odds", "loss"),
            block_size=self.n_models,
        )  # fmt: skip
        bank = Bank.create(folder, identity, design, self.records().labels)
        loss = np.logaddexp(0, -log_odds)
        answers = {"correct": log_odds > 0, "log_odds": log_odds, "loss": loss}
        bank.add_block(0, answers, BlockNotes(seconds=1.0))
        bank.finish(Provenance(device="cpu", versions={"leakscope": "0"}))
        return bank

    def audited(self, folder: Path, disclosure: Disclosure | None = None) -> Verdict:
        """The whole run folder, reports and all."""
        records = self.records()
        labels = np.array(records.class_names)[records.labels]
        metadata = RecordMetadata(records.ids, labels, records.groups)
        config = EvaluationConfig(records.name, self.attacks, (0.1, 0.01), gate=self.gate)
        evidence = Evidence(self.bank(folder), metadata, config, records)
        return evaluate_and_report(evidence, folder, disclosure or Disclosure())


HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</script><script>document.title='owned'</script>",
    "'; document.title='owned'; '",
    "{{ 7 * 7 }} {% raw %} ${7*7} %{x}",
    "emoji 🦊👩‍👩‍👧 and \u202eright to left\u202c, مرحبا",
    "x" * 10_000,
    "<!-- &amp; --> <b>bold</b> <a href='https://example.org'>link</a>",
)
"""Texts that must be shown as text."""


def hostile(n: int) -> npt.NDArray[np.str_]:
    """n different texts, the hostile ones first."""
    return np.array([HOSTILE[i] if i < len(HOSTILE) else f"{HOSTILE[i % 6]} {i}" for i in range(n)])
