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
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results, write_results
from leakscope.bank.run_folder import locked_run_folder, stored_array
from leakscope.data.predictions import Predictions
from leakscope.data.registry import load
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import write_array
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.report.page import pages_to_write
from leakscope.single_model.attack import PRIVATE, recomputed_findings, run_attack
from leakscope.single_model.page import PRIVATE_TRUTH
from leakscope.single_model.results import AttackFindings, Figures
from leakscope.stats.rates import rates_by_model
from leakscope.studies.ensemble.config import EnsembleConfig
from leakscope.studies.ensemble.results import PUBLISHED, EnsembleResults, TargetAccuracy
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
) -> EnsembleResults:
    """Trains the target, attacks it and evaluates the submission.

    Args:
        config: what to run.
        out: run folder.
        device: where the target is trained: "auto", "cpu" or "cuda".
        data_dir: the data folder.
        progress: called with the number of models trained since the last call, a fraction of one included.
        attackers: instead of the published ones.
        disclosure: what the report may disclose about single records.
    """
    from leakscope.engine.local import TrainingRequest, check_request, complete_bank

    case = make_case(config, load(config.dataset, data_dir))
    design = Design(case.is_member[None])
    request = TrainingRequest(case.records, design, config.recipe, config.seed, ("logits",), device)
    check_request(request)
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        bank = complete_bank(out / TARGET, request, progress=progress)
        public, private = query_target(case, bank)
        write_array(out / PRIVATE_TRUTH, case.is_member[case.n_public :])
        findings = run_attack(public, private, out, config, attackers)
        results = write_results(out, _results(out, config, findings))
        for page in pages_to_write(out, disclosure):
            write_reports(out, results, page)
        return results


def query_target(case: Case, bank: Bank) -> tuple[Predictions, Predictions]:
    """The target's outputs on the public records, with membership, and on the private ones, without."""
    logits = np.asarray(bank.signals().last("logits")[0])
    public, private = slice(None, case.n_public), slice(case.n_public, None)
    labels, ids = case.records.labels, case.records.ids
    return (
        Predictions(logits[public], labels[public], ids[public], case.is_member[public], name="public"),
        Predictions(logits[private], labels[private], ids[private], name="private"),
    )


def private_figures(folder: Path, attackers: Mapping[str, object]) -> dict[str, Figures]:
    """Attacker -> figures of its scores for the private records, from the files under `folder`."""
    from leakscope.single_model.ensemble.holdout import figures

    is_member = stored_array(folder / PRIVATE_TRUTH)
    return {name: figures(stored_array(folder / PRIVATE / f"{name}.npy"), is_member) for name in attackers}


def target_accuracy(bank: Bank) -> TargetAccuracy:
    """How often the target is right about members and about non-members."""
    signals = bank.signals()
    is_correct = signals.last("logits").argmax(axis=-1) == signals.labels
    rates = rates_by_model(is_correct, bank.design().in_mask)
    members, nonmembers = float(rates.members[0]), float(rates.nonmembers[0])
    return TargetAccuracy(members, nonmembers, members - nonmembers)


def recompute(folder: Path, config: EnsembleConfig) -> EnsembleResults:
    """The results again, from the bank and the scores on disk; what `leakscope verify` compares."""
    return _results(folder, config, recomputed_findings(folder, read_results(folder, EnsembleResults)))


def _results(folder: Path, config: EnsembleConfig, findings: AttackFindings) -> EnsembleResults:
    return EnsembleResults(
        **{field.name: getattr(findings, field.name) for field in fields(AttackFindings)},
        config=config,
        target=target_accuracy(Bank.open(folder / TARGET)),
        private_truth=private_figures(folder, findings.attackers),
        published=PUBLISHED,
    )


def write_reports(folder: Path, results: EnsembleResults, disclosure: Disclosure) -> None:
    """Writes one of the reports, from the results, the bank and the scores on disk."""
    from leakscope.single_model.page import page
    from leakscope.studies.ensemble.report import study_context

    page(results, folder, study_context(results, folder), disclosure.redacted is True).write(folder)
