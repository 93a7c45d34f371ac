"""One given model: learn membership from public records, score private ones.

    public and private predictions -> features -> attackers -> validation figures, submission, report

The population of `audit` is replaced by records whose membership is known: nothing is trained but the
attackers. Figures are held-out ones; the private records' membership is never looked at.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.bank.run_folder import RESULTS, locked_run_folder, read_json, stored_array, to_jsonable
from leakscope.disk.storage import sha256_of, write_array, write_bytes, write_json
from leakscope.errors import InputError
from leakscope.types import digest_arrays

if TYPE_CHECKING:
    from leakscope.data.predictions import Predictions
    from leakscope.single_model.ensemble.attackers import Attacker
    from leakscope.single_model.ensemble.holdout import Validated

KIND = "attack"
BEST = "best"
SUBMISSION = "submission.csv"
VALIDATION, PRIVATE = "validation", "private"
"""Folders with one array of scores an attacker."""
TIES = "Ties of the isotonic calibration are broken by the uncalibrated score; nothing else changes."


def attack(
    public: Predictions,
    private: Predictions,
    out: Path | str = "runs/attack",
    attacker: str = BEST,
    validation_share: float = 0.25,
    seed: int = 0,
) -> dict[str, Any]:
    """Scores the private records by what the model gives away about the public ones; returns the results.

    Args:
        public: the model's answers about records of known membership.
        private: its answers about the records in question.
        out: run folder; gets submission.csv, results.json, report.md and figures.
        attacker: "forest", "lightgbm" or "mlp", or "best": all three, and the one with the highest
            validation AUC scores the private records.
        validation_share: share of the public records the attackers are judged on and never learn from.
        seed: all randomness derives from it.
    """
    from leakscope.single_model.report import write_report

    folder = Path(out)
    private = replace(private, is_member=None)  # whatever the file says, nobody looks
    check_request(public, private, attacker, validation_share, seed)
    config = {
        "attacker": attacker,
        "validation_share": validation_share,
        "seed": seed,
        "public_sha256": predictions_digest(public),
        "private_sha256": predictions_digest(private),
    }
    with locked_run_folder(folder, KIND, config):
        found = run_attack(public, private, folder, attacker, validation_share, seed)
        results: dict[str, Any] = to_jsonable({"config": config, **found})
        write_json(folder / RESULTS, results)
        write_report(results, folder)
        return results


def check_request(
    public: Predictions, private: Predictions, attacker: str, validation_share: float, seed: int
) -> None:
    """Raises what is wrong with the arguments of `attack`; writes nothing."""
    from leakscope.single_model.ensemble.holdout import split_public

    chosen_attackers(attacker)
    if public.is_member is None:
        raise InputError(f"{public.name}: the public records must say who is a member; add is_member")
    if public.n_classes != private.n_classes:
        raise InputError(
            f"public predictions have {public.n_classes} classes and private ones {private.n_classes}; "
            "both must come from one model"
        )
    if public.kind != private.kind:
        raise InputError(
            f"public predictions are {public.kind} and private ones {private.kind}; save both alike"
        )
    split_public(public.is_member, validation_share, seed)


def chosen_attackers(attacker: str) -> tuple[Attacker, ...]:
    """The attackers a request means."""
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
    attacker: str,
    validation_share: float,
    seed: int,
    attackers: Sequence[Attacker] = (),
) -> dict[str, Any]:
    """Fits, validates and scores; writes the scores into `folder` and returns figures and facts."""
    from leakscope.single_model.ensemble.attackers import settings
    from leakscope.single_model.ensemble.holdout import fit_and_validate, split_public

    assert public.is_member is not None
    split = split_public(public.is_member, validation_share, seed)
    found = fit_and_validate(attackers or chosen_attackers(attacker), public, split, seed)
    _write_validation(folder, public.is_member[split.validation], found)
    judged = judge_validation(folder, [v.fitted.attacker.name for v in found])
    for v in found:
        scores = v.fitted.scores(private.logits, private.labels).score
        write_array(folder / PRIVATE / f"{v.fitted.attacker.name}.npy", scores)
    facts = {
        v.fitted.attacker.name: {
            "settings": settings(v.fitted.attacker),
            "stopped_early": v.fitted.stopped_early,
            "private": private_spread(folder, v.fitted.attacker.name),
        }
        for v in found
    }
    chosen = best_of(judged)
    write_submission(folder / SUBMISSION, private, stored_array(folder / PRIVATE / f"{chosen}.npy"))
    return {
        "public": {"records": len(public), "members": int(public.is_member.sum()), "kind": public.kind},
        "private": {"records": len(private)},
        "split": {"training": len(split.training), "validation": len(split.validation)},
        "attackers": {name: {**judged[name], **facts[name]} for name in judged},
        "chosen": chosen,
        "submission_sha256": sha256_of(folder / SUBMISSION),
        "ties": TIES,
    }


def recompute(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Every figure again from the scores on disk; facts of the run stay as they were."""
    stored = read_json(folder / RESULTS)
    attackers = stored["attackers"]
    judged = to_jsonable(judge_validation(folder, list(attackers)))
    if not (folder / SUBMISSION).exists():
        raise InputError(f"{folder / SUBMISSION} is missing")
    return {
        **stored,
        "config": config,
        "attackers": {
            name: {**facts, **judged[name], "private": to_jsonable(private_spread(folder, name))}
            for name, facts in attackers.items()
        },
        "chosen": best_of(judged),
        "submission_sha256": sha256_of(folder / SUBMISSION),
    }


def best_of(judged: dict[str, Any]) -> str:
    """The attacker with the highest validation AUC; of several the first."""
    return max(judged, key=lambda name: float(judged[name]["auc"]["value"]))


def private_spread(folder: Path, name: str) -> dict[str, float]:
    """Range, mean and standard deviation of an attacker's private scores."""
    scores = stored_array(folder / PRIVATE / f"{name}.npy")
    low, high = float(scores.min()), float(scores.max())
    return {"low": low, "high": high, "mean": float(scores.mean()), "sd": float(scores.std())}


def judge_validation(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Figures of each attacker from its validation scores under `folder`."""
    from leakscope.single_model.ensemble.holdout import figures

    is_member = stored_array(folder / VALIDATION / "is_member.npy")
    judged = {}
    for name in names:
        score, calibrated, _ = stored_array(folder / VALIDATION / f"{name}.npy")
        judged[name] = {
            **figures(score, is_member),
            "with_ties": figures(calibrated, is_member),
            "distinct_scores": len(np.unique(score)),
            "distinct_calibrated": len(np.unique(calibrated)),
        }
    return judged


def write_submission(path: Path, private: Predictions, scores: FloatArray) -> None:
    """`ids,score`, one line a private record; the scores with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["ids", "score"])
    writer.writerows(zip(private.ids.tolist(), map(repr, scores.tolist()), strict=True))
    write_bytes(path, text.getvalue().encode())


def predictions_digest(predictions: Predictions) -> str:
    """Sha256 of everything an attack takes from predictions."""
    members = [] if predictions.is_member is None else [predictions.is_member]
    return digest_arrays(predictions.logits, predictions.labels, predictions.ids, *members)


def _write_validation(folder: Path, is_member: Any, found: Sequence[Validated]) -> None:
    write_array(folder / VALIDATION / "is_member.npy", is_member)
    for validated in found:
        write_array(folder / VALIDATION / f"{validated.fitted.attacker.name}.npy", np.stack(validated.scores))
