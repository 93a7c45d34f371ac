"""The audits to compare: opened, checked to be alike, and what all of them can answer.

Only like is compared with like: the same records and as many models, since attacks grow stronger with more
references.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.attacks.registry import PER_RECORD
from leakscope.audits.run import KIND as AUDIT
from leakscope.bank.bank import IDENTITY, Bank
from leakscope.bank.identity import differences
from leakscope.bank.run_folder import RESULTS, read_json, read_run
from leakscope.compare.figures import Asked
from leakscope.disk.storage import sha256_of
from leakscope.errors import InputError


@dataclass(frozen=True, eq=False)
class Run:
    """An audit's folder, what it found and what it was made from."""

    name: str
    folder: Path
    results: dict[str, Any]
    bank: Bank

    @property
    def is_of_one_model(self) -> bool:
        """True for an audit of one given model, false for a population."""
        return int(self.results["population"]["targets"]) == 1

    @property
    def design_sha256(self) -> str:
        """Equal for runs whose models were trained on the same halves."""
        return self.bank.identity.design.sha256


def opened_runs(folders: list[Path]) -> list[Run]:
    """The audits in these folders.

    Raises:
        InputError: a folder holds no finished audit, or one that cannot be compared with the first.
    """
    if len(folders) < 2:
        raise InputError(f"runs={[str(f) for f in folders]}: give at least two run folders, baseline first")
    for folder in folders:
        kind, _ = read_run(folder)
        if kind != AUDIT:
            raise InputError(f"{folder} is a run of kind {kind!r}; compare takes audits")
        if not (folder / RESULTS).exists():
            raise InputError(f"{folder / RESULTS} is missing; run the same audit again to write it")
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    if len(set(names)) < len(names):
        raise InputError(f"runs={names}: a run is named twice")
    runs = [Run(n, f, read_json(f / RESULTS), Bank.open(f)) for n, f in zip(names, folders, strict=True)]
    for run in runs[1:]:
        _check_comparable(runs[0], run)
    return runs


def common_questions(runs: list[Run]) -> Asked:
    """What all runs can answer.

    Raises:
        InputError: they share no attack.
    """
    everyone = [run.results for run in runs]
    attacks = [a for a in everyone[0]["attacks"] if all(a in results["attacks"] for results in everyone)]
    if not attacks:
        listed = "; ".join(f"{run.name}: {', '.join(run.results['attacks'])}" for run in runs)
        raise InputError(f"the runs share no attack ({listed}); name the same ones and run the audits again")
    resolved = [
        {p["fpr"] for p in results["attacks"][attacks[0]]["tpr_at_fpr"] if p["reason"] is None}
        for results in everyone
    ]
    # By the mean over runs: whichever attack that is, the choice favours neither run.
    strongest = max(attacks, key=lambda a: np.mean([r["attacks"][a]["auc"]["value"] for r in everyone]))
    return Asked(
        attacks=tuple(attacks),
        fpr_budgets=tuple(sorted(set.intersection(*resolved), reverse=True)),
        with_records=all(results["exposed"] is not None for results in everyone),
        with_accuracy=all(results["accuracy"] is not None for results in everyone),
        grouped_attack=strongest,
    )


def common_columns(runs: list[Run]) -> list[str]:
    """Columns that every run was judged by, group by group."""
    judged = [set(next(iter(run.results["attacks"].values()))["groups"]) for run in runs]
    return sorted(set.intersection(*judged))


def about(run: Run) -> dict[str, Any]:
    """What results.json says of a run."""
    population = run.results["population"]
    checks = run.results["hygiene"]
    return {
        "name": run.name,
        "records": population["records"],
        "records_name": run.results["config"]["records"],
        "records_sha256": population["records_sha256"],
        "models": population["models"],
        "targets": population["targets"],
        "lost_models": len(population["diverged_models"]),
        "seed": population["seed"],
        "recipe": population["recipe"],
        "bank_sha256": sha256_of(run.folder / IDENTITY),
        "hygiene_failed": [check["sentence"] for check in checks if check["status"] == "failed"],
    }


def left_out(runs: list[Run], asked: Asked) -> dict[str, list[Any]]:
    """What some runs have and others lack."""
    attacks = {a for run in runs for a in run.results["attacks"]} - set(asked.attacks)
    budgets = {b for run in runs for b in run.results["config"]["fpr_budgets"]} - set(asked.fpr_budgets)
    columns = {
        c for run in runs for figures in run.results["attacks"].values() for c in figures["groups"]
    } - set(common_columns(runs))
    missing = [] if asked.with_records or runs[0].is_of_one_model else [f"records ({PER_RECORD.label})"]
    return {"attacks": sorted(attacks), "fpr_budgets": sorted(budgets), "groups": sorted(columns),
            "parts": missing}  # fmt: skip


def last_bits(run: Run) -> dict[str, Any] | None:
    """Mean bits at the last checkpoint; None where they or their interval are undefined."""
    checkpoints = run.results["leakage"]["checkpoints"]
    found: dict[str, Any] | None = checkpoints[-1]["bits"] if checkpoints else None
    return None if found is None or found["low"] is None or found["value"] is None else found


def _check_comparable(baseline: Run, other: Run) -> None:
    problems = differences(_comparable_facts(baseline), _comparable_facts(other), here="here")
    if problems:
        raise InputError(
            f"{other.folder} cannot be compared with {baseline.folder}: {'; '.join(problems)}; "
            "audit the same records with as many models"
        )


def _comparable_facts(run: Run) -> dict[str, Any]:
    """What must be equal; the number of models as designed, so that a diverged one does not matter."""
    population = run.results["population"]
    return {
        "records": population["records"],
        "records_sha256": population["records_sha256"],
        "models": run.bank.identity.design.models,
        "audit of": "one given model" if run.is_of_one_model else "a population",
    }
