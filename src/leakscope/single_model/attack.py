"""One given model: learn membership from public records, score private ones.

    public and private outputs -> features -> attackers -> validation figures, submission, report

Where an audit trains reference models, this attack needs public records whose membership is known; it trains
nothing but the attackers. All figures come from public records that were held out. The membership of the
private records is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.bank.results import read_results, write_results
from leakscope.bank.run_folder import locked_run_folder, stored_array
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import sha256_of, write_array, write_bytes
from leakscope.errors import InputError
from leakscope.randomness import Purpose, seed_integer
from leakscope.report.page import pages_to_write
from leakscope.single_model.results import (
    BEST,
    AttackConfig,
    AttackerResults,
    AttackFindings,
    AttackResults,
    AttackSettings,
    PrivateRecords,
    PublicRecords,
    ScoreSpread,
    Setting,
    SplitSizes,
)
from leakscope.types import digest_arrays

if TYPE_CHECKING:
    from leakscope.data.predictions import Predictions
    from leakscope.single_model.ensemble.attackers import Attacker, Calibration, FittedAttacker

KIND = "attack"
RESULTS_TYPE = AttackResults
VALIDATION, PRIVATE = "validation", "private"
"""Folders with one array per attacker: score, calibrated, uncalibrated (see `MembershipScores`)."""
IS_MEMBER = "is_member.npy"
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Findings = TypeVar("Findings", bound=AttackFindings)


def submission_file(attacker: str) -> str:
    """Name of the file with an attacker's scores for the private records."""
    return f"submission_{attacker}.csv"


def attack(
    public: Predictions,
    private: Predictions,
    out: Path | str = "runs/attack",
    settings: AttackSettings | None = None,
    model: Mapping[str, str] | None = None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> AttackResults:
    """Scores private records by what the model's outputs reveal about public ones.

    Args:
        public: the model's outputs on records of known membership.
        private: its outputs on the records to score.
        out: run folder for the submissions, results.json, the reports and the scores.
        settings: how the attackers are fitted and chosen.
        model: what identifies the model in the report, as `GivenModel.describe` gives it.
        disclosure: what the report may disclose about single records.
    """
    folder, settings = Path(out), settings or AttackSettings()
    private = replace(private, is_member=None)  # a file may state it; nothing below may read it
    check_request(public, private, settings)
    config = AttackConfig(
        **asdict(settings),
        public_sha256=predictions_digest(public),
        private_sha256=predictions_digest(private),
    )
    with locked_run_folder(folder, KIND, asdict(config)):
        stay_redacted(folder, disclosure)
        findings = run_attack(public, private, folder, settings)
        results = write_results(folder, AttackResults(**vars(findings), config=config, model=model or {}))
        for page in pages_to_write(folder, disclosure):
            write_reports(folder, results, page)
        return results


def check_request(public: Predictions, private: Predictions, settings: AttackSettings) -> None:
    """Raises InputError if the arguments of `attack` do not fit; writes nothing."""
    from leakscope.single_model.ensemble.holdout import split_public

    chosen_attackers(settings.attacker)
    assert settings.readings
    if public.is_member is None:
        raise InputError(f"{public.name}: the membership of the public records is missing; add is_member")
    if not (public.is_classification and private.is_classification):
        raise InputError(
            "predictions are numbers, but this attack is for classifiers; audit a regression model with "
            "`leakscope audit --predictions`"
        )
    if public.n_classes != private.n_classes:
        raise InputError(
            f"public predictions have {public.n_classes} classes and private ones {private.n_classes}; "
            "both must come from one model"
        )
    if public.class_names != private.class_names and public.class_names and private.class_names:
        raise InputError(
            f"public predictions have the classes {', '.join(public.class_names)} and private ones "
            f"{', '.join(private.class_names)}; name and order the columns of both files alike"
        )
    if public.kind != private.kind:
        raise InputError(
            f"public predictions are {public.kind} and private ones {private.kind}; save both alike"
        )
    split_public(public.is_member, settings.validation_share, settings.seed)


def chosen_attackers(attacker: str) -> tuple[Attacker, ...]:
    """The attackers that a name stands for: one, or all for "best"."""
    from leakscope.single_model.ensemble.attackers import ATTACKERS

    chosen = tuple(a for a in ATTACKERS if attacker in (BEST, a.name))
    if not chosen:
        names = ", ".join(a.name for a in ATTACKERS)
        raise InputError(f"attacker={attacker!r}: choose {BEST} or one of {names}")
    return chosen


def run_attack(
    public: Predictions,
    private: Predictions,
    folder: Path,
    settings: AttackSettings,
    attackers: Sequence[Attacker] = (),
) -> AttackFindings:
    """Fits and evaluates the attackers, scores the private records; writes all scores into `folder`.

    `attackers`, where there are any, take the place of those that the settings name.
    """
    from leakscope.single_model.ensemble.holdout import split_public

    assert public.is_member is not None
    split = split_public(public.is_member, settings.validation_share, settings.seed)
    held_out = split.validation
    write_array(folder / VALIDATION / IS_MEMBER, public.is_member[held_out])
    judged = {}
    for attacker in attackers or chosen_attackers(settings.attacker):
        fitted = fitted_to(public, settings, attacker)
        validation = fitted.scores(public.logits[held_out], public.labels[held_out])
        write_array(folder / VALIDATION / f"{attacker.name}.npy", np.stack(validation))
        scores = fitted.scores(private.logits, private.labels)
        write_array(folder / PRIVATE / f"{attacker.name}.npy", np.stack(scores))
        write_submission(folder / submission_file(attacker.name), private, scores.score)
        options = asdict(attacker)
        judged[attacker.name] = attacker_results(folder, attacker.name, options, fitted.stopped_early)
    return AttackFindings(
        public=PublicRecords(len(public), int(public.is_member.sum()), public.kind),
        private=PrivateRecords(len(private)),
        split=SplitSizes(len(split.training), len(split.validation)),
        attackers=judged,
        chosen=best_of(judged),
        submission_sha256=_submission_digests(folder, judged),
    )


def fitted_to(
    public: Predictions,
    settings: AttackSettings,
    attacker: Attacker,
    calibration: Calibration = "isotonic",
) -> FittedAttacker:
    """An attacker fitted on the public records that are not held out."""
    from leakscope.single_model.ensemble.attackers import fit
    from leakscope.single_model.ensemble.holdout import split_public

    assert public.is_member is not None
    rows = split_public(public.is_member, settings.validation_share, settings.seed).training
    seed = seed_integer(settings.seed, 0, Purpose.ESTIMATOR, bits=31)
    known = (public.logits[rows], public.labels[rows], public.is_member[rows])
    return fit(attacker, *known, seed, settings.readings, calibration)


def recompute(folder: Path, config: AttackConfig) -> AttackResults:
    """The results again, from the scores on disk; what `leakscope verify` compares."""
    findings = recomputed_findings(folder, read_results(folder, AttackResults))
    n_public = findings.split.training + findings.split.validation
    return replace(findings, config=config, public=replace(findings.public, records=n_public))


def write_reports(folder: Path, results: AttackResults, disclosure: Disclosure) -> None:
    """Writes one of the reports, from the results and the scores on disk."""
    from leakscope.single_model.coarse import coarse_findings
    from leakscope.single_model.page import page
    from leakscope.single_model.report import attack_context

    redacted = disclosure.redacted is True
    results = coarse_findings(results) if redacted else results
    page(results, folder, attack_context(results, redacted), redacted).write(folder)


def recomputed_findings(folder: Path, stored: Findings) -> Findings:
    """Stored findings with every figure computed again; settings stay as they were stored.

    Of the public records, only those of the validation are in the folder.
    """
    n_validation = len(stored_array(folder / VALIDATION / IS_MEMBER))
    judged = {
        name: attacker_results(folder, name, one.settings, one.stopped_early)
        for name, one in stored.attackers.items()
    }
    return replace(
        stored,
        split=replace(stored.split, validation=n_validation),
        attackers=judged,
        chosen=best_of(judged),
        submission_sha256=_submission_digests(folder, judged),
    )


def _submission_digests(folder: Path, attackers: Iterable[str]) -> dict[str, str]:
    files = {name: folder / submission_file(name) for name in attackers}
    for file in files.values():
        if not file.exists():
            raise InputError(f"{file} is missing")
    return {name: sha256_of(file) for name, file in files.items()}


def best_of(judged: Mapping[str, AttackerResults]) -> str:
    """The attacker with the highest validation AUC; the first of several."""
    return max(judged, key=lambda name: judged[name].auc.value)


def attacker_results(
    folder: Path, name: str, settings: Mapping[str, Setting], stopped_early: bool
) -> AttackerResults:
    """The results of one attacker, from its scores under `folder`."""
    from leakscope.single_model.ensemble.holdout import figures

    is_member: BoolArray = stored_array(folder / VALIDATION / IS_MEMBER)
    private: FloatArray = stored_array(folder / PRIVATE / f"{name}.npy")[0]
    score, calibrated, _ = stored_array(folder / VALIDATION / f"{name}.npy")
    return AttackerResults(
        **vars(figures(score, is_member)),
        with_ties=figures(calibrated, is_member),
        distinct_scores=len(np.unique(score)),
        distinct_calibrated=len(np.unique(calibrated)),
        settings=settings,
        stopped_early=stopped_early,
        private=ScoreSpread(*map(float, (private.min(), private.max(), private.mean(), private.std()))),
    )


def write_submission(path: Path, private: Predictions, scores: FloatArray) -> None:
    """`ids,score`, one line per private record; scores are written with all their digits."""
    rows = zip(map(_cell, private.ids.tolist()), scores.tolist(), strict=True)
    write_bytes(path, "".join(["ids,score\n", *(f"{cell},{score!r}\n" for cell, score in rows)]).encode())


def predictions_digest(predictions: Predictions) -> str:
    """Sha256 of everything an attack reads of predictions."""
    members = [] if predictions.is_member is None else [predictions.is_member]
    return digest_arrays(predictions.logits, predictions.labels, predictions.ids, *members)


def _cell(text: str) -> str:
    """An id in a csv. Python's writer leaves a lone carriage return unquoted, and there a row would end."""
    safe = _spreadsheet_safe(text)
    return '"{}"'.format(safe.replace('"', '""')) if set(',"\r\n') & set(safe) else safe


def _spreadsheet_safe(text: str) -> str:
    """An id that a spreadsheet would take for a formula gets an apostrophe in front; numbers are none."""
    if not text.startswith(_STARTS_A_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
