"""The main path: records in, a population of models, attacks, a verdict.

Start here. Everything an audit does happens in `audit`, top to bottom:

    records -> design -> bank of trained models -> attacks -> statistics -> results, report
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leakscope.attacks.registry import ATTACKS
from leakscope.bank.bank import Bank
from leakscope.bank.run_folder import RESULTS, claim, plain
from leakscope.bank.storage import write_json
from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.recipe import AnyRecipe
from leakscope.types import Records
from leakscope.verdict import Verdict

KIND = "audit"
DEFAULT_ATTACKS = ("correctness", "loss", "lira")
DEFAULT_FPR_BUDGETS = (0.1, 0.01, 0.001)


def audit(
    records: Records,
    recipe: AnyRecipe,
    out: Path | str = "runs/audit",
    models: int = 64,
    seed: int = 0,
    design: str = "balanced",
    attacks: Sequence[str] = DEFAULT_ATTACKS,
    fpr_budgets: Sequence[float] = DEFAULT_FPR_BUDGETS,
    signals: Sequence[str] = (),
    device: str = "auto",
    progress: Callable[[float], None] = lambda _: None,
) -> Verdict:
    """Trains a population on random halves of the records and measures what the models give away.

    Args:
        records: who is in question.
        recipe: how one model is trained.
        out: run folder; a run that was interrupted there goes on, another run's folder is refused.
        models: number of models; every one is the target in turn, judged by the others.
        seed: all randomness derives from it.
        design: "balanced", "bernoulli" or "pairs".
        attacks: names of attacks.
        fpr_budgets: false positive rates at which the true positive rate is reported.
        signals: more signals to keep in the bank than the attacks need.
        device: "auto", "cpu" or "cuda".
        progress: called with models' worth of training done.
    """
    from leakscope.engine.local import check_request, complete_bank  # torch comes with it
    from leakscope.judge import record_table
    from leakscope.report.audit import write_report

    folder = Path(out)
    _check_questions(attacks, fpr_budgets)
    kept = tuple({signal for name in attacks for signal in ATTACKS[name].needs} | set(signals))
    population = make_design(design, models, len(records), seed)
    check_request(records, population, recipe, seed, kept, device)  # before anything is written
    claim(folder, KIND, {})
    bank = complete_bank(folder, records, population, recipe, seed, kept, device, progress)
    config = {"records": records.name, "attacks": list(attacks), "fpr_budgets": list(fpr_budgets)}
    results = recompute(folder, config)
    record_table(records, bank, results).write(folder)
    write_json(folder / RESULTS, results)
    write_report(results, bank, folder)
    return Verdict(results, folder)


def recompute(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The results from the bank alone; what `leakscope verify` compares."""
    from leakscope.judge import judge_bank

    results: dict[str, Any] = plain(judge_bank(Bank.open(folder), config))
    return results


def _check_questions(attacks: Sequence[str], fpr_budgets: Sequence[float]) -> None:
    unknown = [name for name in attacks if name not in ATTACKS]
    if unknown or not attacks:
        raise InputError(f"attacks={list(attacks)}: choose from {', '.join(sorted(ATTACKS))}")
    if not all(0 < budget <= 1 for budget in fpr_budgets):
        raise InputError(f"fpr_budgets={list(fpr_budgets)}: must be rates above 0 and at most 1, like 0.01")
