"""A published attack on one given model, from scratch: features, three attackers, a submission.

The publication, a coursework report, attacks a ResNet-18 trained on undisclosed data. It has 20,000 public
records of known membership and 20,000 private ones. It computes ten features and a global likelihood ratio,
fits three calibrated attackers and submits their scores to a leaderboard. This study trains the target on a
random half of the records, so the membership of the private records is known: it is set aside during the
attack and evaluates the submission at the end, as only the leaderboard could for the publication.

The study is stricter than the publication in two points. Isotonic calibration does not preserve the order of
scores, it makes ties; here the uncalibrated score breaks them. And the publication appears to fit its global
densities on all public records, those for validation included; here each fold of the calibration fits them on
its own training part. Its data are undisclosed, so its figures are for comparison, not a target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results, write_results
from leakscope.bank.run_folder import locked_run_folder, stored_array
from leakscope.data.registry import load
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import write_array
from leakscope.errors import CorruptBankError, InputError
from leakscope.randomness import Purpose, generator
from leakscope.report.page import pages_to_write
from leakscope.single_model.attack import (
    PRIVATE,
    check_request,
    chosen_attackers,
    recomputed_findings,
    run_attack,
)
from leakscope.single_model.page import PRIVATE_TRUTH
from leakscope.single_model.results import AttackFindings, AttackSettings, Figures
from leakscope.studies.ensemble.calibration import COMPARED, calibration_rates, write_sigmoid
from leakscope.studies.ensemble.config import EnsembleConfig
from leakscope.studies.ensemble.feature_figures import feature_correlation, feature_figures, feature_scores
from leakscope.studies.ensemble.outputs import OUTPUTS, TargetOutputs, Training, read_outputs
from leakscope.studies.ensemble.results import PUBLISHED, EnsembleResults, TargetAccuracy
from leakscope.studies.ensemble.scores import write_scores
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.single_model.ensemble.attackers import Attacker

KIND = "study ensemble"
RESULTS_TYPE = EnsembleResults
TARGET = "target"
"""Folder of the target's bank."""
_LARGEST_PART = 20_000


class Case(NamedTuple):
    """The records, public ones first, and which of them the target is trained on."""

    records: Records
    is_member: BoolArray
    n_public: int


def make_case(config: EnsembleConfig, records: Records) -> Case:
    """A random choice of records; a random half of the public and of the private ones are members."""
    rng = generator(config.seed, 0, Purpose.DESIGN)
    half = min(len(records) // 2, _LARGEST_PART)
    n_public, n_private = config.n_public or half, config.n_private or half
    if n_public + n_private > len(records):
        raise InputError(
            f"n_public={n_public:,} and n_private={n_private:,} are more than the {len(records):,} records "
            f"of {records.name}; choose smaller ones"
        )
    chosen: IntArray = rng.permutation(len(records))[: n_public + n_private]
    members = [rng.permutation(n) < n // 2 for n in (n_public, n_private)]
    return Case(records.take(chosen), np.concatenate(members), n_public)


def run(
    config: EnsembleConfig,
    out: Path,
    device: str = "auto",
    data_dir: Path | None = None,
    progress: Callable[[float], None] = lambda _: None,
    attackers: Sequence[Attacker] = (),
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    training_starts: Callable[[], None] = lambda: None,
) -> EnsembleResults:
    """Trains the target, attacks it and evaluates the submissions.

    Args:
        config: what to run.
        out: run folder.
        device: where the target is trained: "auto", "cpu" or "cuda".
        data_dir: the data folder.
        progress: called with the number of models trained since the last call, a fraction of one included.
        attackers: instead of the published ones.
        disclosure: what the report may disclose about single records.
        training_starts: called once everything has been checked.
    """
    record(config, out, device, data_dir, progress, disclosure, training_starts)
    with locked_run_folder(out, KIND, asdict(config)):
        return _attacked(config, out, attackers, disclosure)


def record(
    config: EnsembleConfig,
    out: Path,
    device: str = "auto",
    data_dir: Path | None = None,
    progress: Callable[[float], None] = lambda _: None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    training_starts: Callable[[], None] = lambda: None,
) -> Path:
    """Trains the target and writes its outputs, without attacking it; see `run`. Returns the file."""
    from leakscope.engine.local import TrainingRequest, complete_bank
    from leakscope.engine.local import check_request as check_training

    case = make_case(config, load(config.dataset, data_dir))
    design = Design(case.is_member[None])
    request = TrainingRequest(case.records, design, config.recipe, config.seed, ("logits",), device)
    check_training(request)
    assert request.identity  # builds the network once, which says whether it takes such records
    training_starts()
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        bank = complete_bank(out / TARGET, request, progress=progress)
        outputs_of(case, bank, config).write(out / OUTPUTS)
    return out / OUTPUTS


def run_from(
    file: Path,
    out: Path,
    changes: Mapping[str, Any],
    attackers: Sequence[Attacker] = (),
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> EnsembleResults:
    """Attacks the target whose outputs are in a file; trains nothing.

    Args:
        file: the outputs.npz of a run.
        out: run folder.
        changes: field of `AttackSettings` -> value, in place of the recorded one.
        attackers: instead of the published ones.
        disclosure: what the report may disclose about single records.

    Raises:
        InputError: the file cannot be read, or a change would concern the target.
    """
    allowed = [field.name for field in fields(AttackSettings) if field.name != "seed"]
    fixed = [name for name in changes if name not in allowed]
    if fixed:
        raise InputError(
            f"{fixed[0]}={changes[fixed[0]]!r}: the target in {file} has already been trained; change only "
            f"{', '.join(allowed)}"
        )
    outputs = read_outputs(file)
    config = replace(outputs.training.config, **changes)
    check_request(outputs.public(), outputs.private(), config)
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        outputs.write(out / OUTPUTS)
        return _attacked(config, out, attackers, disclosure)


def _attacked(
    config: EnsembleConfig, out: Path, attackers: Sequence[Attacker], disclosure: Disclosure
) -> EnsembleResults:
    """Attacks the outputs in the run folder."""
    outputs = read_outputs(out / OUTPUTS)
    write_array(out / PRIVATE_TRUTH, outputs.is_member[~outputs.is_public])
    findings = run_attack(outputs.public(), outputs.private(), out, config, attackers)
    write_scores(out, findings.attackers)
    for attacker in attackers or chosen_attackers(config.attacker):
        if attacker.name == COMPARED:
            write_sigmoid(out, attacker, outputs, config)
    results = write_results(out, _results(out, config, findings))
    for page in pages_to_write(out, disclosure):
        write_reports(out, results, page)
    return results


def outputs_of(case: Case, bank: Bank, config: EnsembleConfig) -> TargetOutputs:
    """What the target reveals about all records, rounded to float16."""
    logits = np.asarray(bank.signals().last("logits")[0]).astype(np.float16)
    is_public = np.arange(len(case.records)) < case.n_public
    training = Training(config, bank.manifest.versions)
    return TargetOutputs(logits, case.records.labels, case.records.ids, case.is_member, is_public, training)


def private_figures(folder: Path, attackers: Mapping[str, object]) -> dict[str, Figures]:
    """Attacker -> figures of its scores for the private records, from the files under `folder`."""
    from leakscope.single_model.ensemble.holdout import figures

    is_member = stored_array(folder / PRIVATE_TRUTH)
    return {name: figures(stored_array(folder / PRIVATE / f"{name}.npy")[0], is_member) for name in attackers}


def target_accuracy(outputs: TargetOutputs) -> TargetAccuracy:
    """How often the target is right about members and about non-members."""
    is_correct = outputs.logits.argmax(axis=1) == outputs.labels
    members, nonmembers = (float(is_correct[side].mean()) for side in (outputs.is_member, ~outputs.is_member))
    return TargetAccuracy(members, nonmembers, members - nonmembers)


def recompute(folder: Path, config: EnsembleConfig) -> EnsembleResults:
    """The results again, from the outputs and the scores on disk; what `leakscope verify` compares."""
    if (folder / TARGET).exists():
        recorded = np.asarray(Bank.open(folder / TARGET).signals().last("logits")[0]).astype(np.float16)
        if not np.array_equal(recorded, read_outputs(folder / OUTPUTS).logits):
            raise CorruptBankError(f"{folder / OUTPUTS} does not hold the outputs of the target's bank")
    return _results(folder, config, recomputed_findings(folder, read_results(folder, EnsembleResults)))


def _results(folder: Path, config: EnsembleConfig, findings: AttackFindings) -> EnsembleResults:
    outputs = read_outputs(folder / OUTPUTS)
    scores = feature_scores(outputs, config.readings)
    return EnsembleResults(
        **{field.name: getattr(findings, field.name) for field in fields(AttackFindings)},
        config=config,
        target=target_accuracy(outputs),
        private_truth=private_figures(folder, findings.attackers),
        features=feature_figures(scores, outputs.is_member),
        feature_correlation=feature_correlation(scores),
        calibrations=calibration_rates(folder, stored_array(folder / PRIVATE_TRUTH), config.seed),
        published=PUBLISHED,
    )


def write_reports(folder: Path, results: EnsembleResults, disclosure: Disclosure) -> None:
    """Writes one of the reports, from the results, the outputs and the scores on disk."""
    from leakscope.single_model.page import page
    from leakscope.studies.ensemble.coarse import coarse
    from leakscope.studies.ensemble.report import study_context

    redacted = disclosure.redacted is True
    results = coarse(results) if redacted else results
    page(results, folder, study_context(results, folder, redacted), redacted).write(folder)
