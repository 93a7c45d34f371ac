"""The main path: records in, a population of models, attacks, a verdict.

Start here. Everything an audit does happens in `audit`, top to bottom:

    records -> design -> bank of trained models -> attacks -> statistics -> results, report
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.attacks.registry import attack_classes
from leakscope.attacks.spec import resolve
from leakscope.bank.bank import Bank
from leakscope.bank.object_store import working_copy
from leakscope.bank.results import write_results
from leakscope.bank.run_folder import locked_run_folder
from leakscope.design import make_design
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.errors import InputError
from leakscope.evaluate.gate import DEFAULT_CONFIDENCE, DEFAULT_DELTA, Gate
from leakscope.evaluate.record_metadata import RecordMetadata, describe_records
from leakscope.evaluate.results import EvaluationConfig, Source, SourceKind
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import AnyRecipe
from leakscope.types import Records

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
    from leakscope.engine.local import check_request, complete_bank  # torch comes with it
    from leakscope.engine.registry import engine_named

    trainer = engine_named(engine, address)
    check_questions(attacks, fpr_budgets)
    kept = required_signals(attacks, signals)
    population = make_design(design, models, len(records), seed)
    check_request(records, population, recipe, seed, kept, device, trainer)  # before anything is written
    with working_copy(out) as folder, locked_run_folder(folder, KIND, {}):
        bank = complete_bank(folder, records, population, recipe, seed, kept, device, progress, trainer)
        config = evaluation_config(records.name, attacks, fpr_budgets, gate)
        return concluded(bank, config, describe_records(records, population), folder, disclosure, records)


def concluded(
    bank: Bank,
    config: EvaluationConfig,
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
    facts.write(folder)
    write_record_table(folder, facts, judged)
    results = write_results(folder, judged.results)
    _keep_previews(folder, records, judged, disclosure)
    write_report(results, judged.attacked, disclosure)
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


def evaluation_config(
    records: str,
    attacks: Sequence[str],
    fpr_budgets: Sequence[float],
    gate: Gate | None = None,
    targets: tuple[int, ...] | None = None,
    source: SourceKind = "population",
) -> EvaluationConfig:
    """What to measure; the gate's false positive rates are budgets, too."""
    gate_budgets = [limit.fpr for limit in gate.max_tpr] if gate else []
    return EvaluationConfig(
        records=records,
        attacks=tuple(attacks),
        fpr_budgets=tuple(dict.fromkeys([*fpr_budgets, *gate_budgets])),
        targets=targets,
        delta=gate.delta if gate else DEFAULT_DELTA,
        confidence=gate.confidence if gate else DEFAULT_CONFIDENCE,
        gate=gate,
        source=Source(source),
    )


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
