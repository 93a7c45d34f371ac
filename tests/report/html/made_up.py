"""Made-up dynamics studies in a folder: outputs are drawn, so that a page needs no training."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.manifest import Provenance
from leakscope.bank.results import write_results
from leakscope.bank.run_folder import RUN
from leakscope.design import make_design
from leakscope.disk.storage import write_json
from leakscope.report.page import PAGE
from leakscope.studies.dynamics import study as dynamics
from leakscope.studies.dynamics.judge import JudgedRun, study_results
from leakscope.studies.dynamics.page import page
from leakscope.studies.dynamics.records import RunRecords, bank_folder, record_names, write_record_table
from leakscope.studies.dynamics.results import DynamicsResults
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.types import Records

HOSTILE = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    '"><svg onload=window.pwned=1>\'"',
    "</script><script>window.pwned = 1</script>",
    "🦊🔥 emoji {{7*7}} ${7*7}",
    "\u202eright to left \u05d0\u05d1",
    "javascript:window.pwned=1//" + "x" * 10_000,
    "line\nbreak\tand\\slash &lt;b&gt;",
)
"""Ids and labels that would run, break out or overflow if they were taken for anything but text."""
CLASSES = ("<b>bold</b>", "plain", "\u05d0\u05d1\u05d2", "x" * 10_000)


class Study(NamedTuple):
    """A study folder, its results and the records of its runs."""

    folder: Path
    results: DynamicsResults
    runs: list[RunRecords]


def made_up_study(
    folder: Path, settings: tuple[Setting, ...], ids: tuple[str, ...] = (), classes: tuple[str, ...] = CLASSES
) -> Study:
    """A finished study whose harder half of the records becomes exposed bit by bit, with SAM less so.

    Args:
        folder: where to.
        settings: one bank each; all have `universe` records.
        ids: of the first records; the others are numbered.
        classes: names of the labels.
    """
    config = DynamicsConfig(settings, n_permutations=1, n_groups=2)
    records = _records(settings[0], ids, classes)
    for setting in settings:
        _bank(bank_folder(folder, setting), setting, records.labels)
    return _written(folder, config, dynamics.judge(config, folder), records)


def repeated(folder: Path, settings: tuple[Setting, ...], classes: tuple[str, ...] = CLASSES) -> Study:
    """A study whose runs all have the first setting's outputs: several large runs at the price of one."""
    study = made_up_study(folder, settings[:1], classes=classes)
    (results,), (records,) = study.results.runs.values(), study.runs
    runs = [JudgedRun(replace(results, setting=s), replace(records, name=s.name)) for s in settings]
    config = DynamicsConfig(settings, n_permutations=1, n_groups=2)
    return _written(folder, config, runs, _records(settings[0], (), classes))


def _records(setting: Setting, ids: tuple[str, ...], classes: tuple[str, ...]) -> Records:
    n = setting.universe
    assert n is not None
    labels = np.random.default_rng(1).integers(len(classes), size=n)
    names = [*ids, *(f"record-{i:05d}" for i in range(len(ids), n))]
    return Records(np.zeros((n, 1), np.float32), labels, np.array(names), "made up", class_names=classes)


def _written(folder: Path, config: DynamicsConfig, runs: list[JudgedRun], records: Records) -> Study:
    of_runs = [run.records for run in runs]
    write_record_table(folder, of_runs, [record_names(records)] * len(runs))
    write_json(folder / RUN, {"kind": dynamics.KIND, "config": asdict(config)})
    return Study(folder, write_results(folder, study_results(config, runs)), of_runs)


def _bank(folder: Path, setting: Setting, labels: np.ndarray) -> None:
    n, epochs = len(labels), setting.checkpoints
    rng, design = np.random.default_rng(setting.run_seed), make_design("balanced", setting.models, n, 0)
    hardness = rng.normal(size=n).astype(np.float32)
    progress = (np.array(epochs, dtype=np.float32) / epochs[-1])[:, None]
    strength = 1 if setting.optimizer == "sam" else 3
    gap = progress * (0.3 + strength * np.maximum(hardness, 0))  # (checkpoints, records)
    noise = rng.standard_normal((setting.models, len(epochs), n), dtype=np.float32)
    log_odds = noise + 2 * progress - hardness + gap * design.in_mask[:, None]
    outputs = {
        "correct": log_odds > 0,
        "log_odds": log_odds,
        "loss": np.logaddexp(0, -log_odds).astype(np.float32),
    }
    identity = Identity(
        records=RecordsIdentity("made up", n, "a" * 64),
        design=DesignIdentity(setting.models, n, "b" * 64),
        recipe={"evaluated_epochs": list(epochs)},
        seed=setting.run_seed,
        signals=tuple(sorted(outputs)),
        block_size=setting.models,
    )
    bank = Bank.create(folder, identity, design, labels)
    bank.add_block(0, outputs)
    bank.finish(Provenance(device="cpu", versions={"numpy": np.__version__}))


def setting(**changes: Any) -> Setting:
    """A small setting: 200 records, 8 models, 5 checkpoints."""
    usual = {"models": 8, "universe": 200, "epochs": 10, "every": 2, "store_logits": False}
    return Setting(**{**usual, **changes})


def written(study: Study, redacted: bool = False) -> Path:
    """The study's report.html, redacted or not."""
    path = study.folder / PAGE
    path.write_text(page(study.results, study.runs, study.folder, redacted).render())
    return path
