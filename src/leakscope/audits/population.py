"""The main path: records in, a population of models, attacks, a verdict.

Start here. Everything an audit does happens in `audit`, top to bottom:

    records -> design -> bank of trained models -> attacks -> statistics -> results, report
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.attacks.registry import attack_classes
from leakscope.attacks.spec import resolve
from leakscope.bank.bank import Bank
from leakscope.bank.object_store import working_copy
from leakscope.bank.run_folder import RESULTS, locked_run_folder, to_jsonable
from leakscope.design import make_design
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.mmap_rows import take_rows
from leakscope.disk.storage import write_json
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import AnyRecipe
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.evaluate.judge import Judged

KIND = "audit"
DEFAULT_ATTACKS = ("correctness", "loss", "lira", "eb_lira")
DEFAULT_FPR_BUDGETS = (0.1, 0.01, 0.001, 0.0001)


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
    gate: Gate | None = None,
    device: str = "auto",
    progress: Callable[[float], None] = lambda _: None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    engine: str = "local",
    address: str | None = None,
) -> Verdict:
    """Trains a population on random halves of the records and measures what the models give away.

    Args:
        records: who is in question.
        recipe: how one model is trained.
        out: run folder, or an address like s3://bucket/run; a run that was interrupted there goes on,
            another run's is refused.
        models: number of models; every one is the target in turn, judged by the others.
        seed: all randomness derives from it.
        design: "balanced", "bernoulli" or "pairs".
        attacks: names of attacks.
        fpr_budgets: false positive rates at which the true positive rate is reported.
        signals: more signals to keep in the bank than the attacks need.
        gate: limits; `Verdict.gate_failed` says whether one was broken.
        device: "auto", "cpu" or "cuda".
        progress: called with models' worth of training done.
        disclosure: what report.html may tell about single records.
        engine: who trains: "local" (this machine) or "ray" (a cluster).
        address: of the Ray cluster: "auto" (the default) or "HOST:PORT".
    """
    from leakscope.engine.local import TrainingRequest, check_request, complete_bank  # imports torch
    from leakscope.engine.registry import engine_named

    trainer = engine_named(engine, address)
    check_questions(attacks, fpr_budgets)
    population = make_design(design, models, len(records), seed)
    request = TrainingRequest(records, population, recipe, seed, required_signals(attacks, signals), device)
    check_request(request, trainer)  # before anything is written
    with working_copy(out) as folder, locked_run_folder(folder, KIND, {}):
        bank = complete_bank(folder, request, trainer, progress)
        config = {"records": records.name, **asked(attacks, fpr_budgets, gate)}
        return concluded(bank, config, metadata_of(records, population), folder, disclosure, records)


def concluded(
    bank: Bank,
    config: dict[str, Any],
    facts: RecordMetadata,
    folder: Path,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    records: Records | None = None,
) -> Verdict:
    """Judges a complete bank and writes everything there is to read about it.

    Args:
        bank: the models' answers.
        config: what is asked, see `leakscope.evaluate.judge.judge`.
        facts: what is known of the records.
        folder: of the run.
        disclosure: what report.html may tell about single records.
        records: to keep previews of the most exposed; None: their features are unknown.
    """
    from leakscope.audits.report.markdown import write_report
    from leakscope.evaluate.judge import judge, write_record_table

    judged = judge(bank, config, facts)
    results = to_jsonable(judged.results)
    facts.write(folder)
    write_record_table(folder, facts, judged)
    write_json(folder / RESULTS, results)
    _keep_previews(folder, records, judged, disclosure)
    write_report(results, judged.design, judged.scores, folder, disclosure)
    return Verdict(results, folder)


def _keep_previews(folder: Path, records: Records | None, judged: Judged, disclosure: Disclosure) -> None:
    """Previews of the most exposed records; of a redacted audit none, not even an earlier run's."""
    from leakscope.report.previews import MOST_PREVIEWS, PREVIEWS, exposure_order, previews_of

    if disclosure.redacted:
        (folder / PREVIEWS).unlink(missing_ok=True)
    elif records is not None:
        advantage = None if judged.risk is None else judged.risk.column("advantage")
        bits = None if judged.leakage is None else judged.leakage.bits
        order = exposure_order(advantage, bits, len(records), MOST_PREVIEWS)
        previews_of(records, order).write(folder)


def recompute(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The results from the bank and the records' facts alone; what `leakscope verify` compares."""
    from leakscope.evaluate.judge import judge

    results: dict[str, Any] = to_jsonable(
        judge(Bank.open(folder), config, RecordMetadata.read(folder)).results
    )
    return results


def asked(attacks: Sequence[str], fpr_budgets: Sequence[float], gate: Gate | None) -> dict[str, Any]:
    """What is asked of a bank, as plain data; a gate's FPRs are judged as well."""
    gate_budgets = [limit.fpr for limit in gate.max_tpr] if gate else []
    return {
        "attacks": list(attacks),
        "fpr_budgets": list(dict.fromkeys([*fpr_budgets, *gate_budgets])),
        "epsilon": {"delta": gate.delta, "confidence": gate.confidence} if gate else None,
        "gate": gate.as_dict() if gate else None,
    }


def metadata_of(records: Records, design: Design | None = None) -> RecordMetadata:
    """What a run remembers of its records; a shift is looked for in the first model's members."""
    from leakscope.evaluate.hygiene.shift import shift_scores

    is_classification = records.is_classification
    labels = np.array(records.class_names)[records.labels] if is_classification else records.labels
    shift = None if design is None else shift_scores(partial(take_rows, records.features), design.in_mask[0])
    return RecordMetadata(records.ids, labels, records.groups, records.duplicate_of, shift)


def required_signals(attacks: Sequence[str], more: Sequence[str] = ()) -> tuple[str, ...]:
    """The signals a bank keeps for these attacks."""
    return tuple({signal for name in attacks for signal in resolve(name).needs} | set(more))


def check_questions(attacks: Sequence[str], fpr_budgets: Sequence[float]) -> None:
    """Raises when an attack or an FPR budget is not one."""
    unknown = [name for name in attacks if name not in attack_classes()]
    if unknown or not attacks:
        raise InputError(f"attacks={list(attacks)}: choose from {', '.join(sorted(attack_classes()))}")
    if not all(0 < budget <= 1 for budget in fpr_budgets):
        raise InputError(f"fpr_budgets={list(fpr_budgets)}: must be rates above 0 and at most 1, like 0.01")
