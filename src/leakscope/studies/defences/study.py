"""Compares defences: the same records, canaries and design for all, accuracy against leakage.

Each setting of a defence is one population. All have the same members, model by model, and the same seeds, so
differences between settings are paired. A further population without defence only chooses the most exposed
records, so that the choice flatters no setting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leakscope.attacks.registry import PER_RECORD
from leakscope.attacks.spec import resolve_all
from leakscope.audits.population import check_recipe_checkpoints
from leakscope.bank.bank import Bank
from leakscope.bank.results import write_results
from leakscope.bank.run_folder import locked_run_folder, stored_array
from leakscope.defences.base import Defence
from leakscope.defences.settings import settings_of
from leakscope.design import make_design
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import write_array
from leakscope.errors import InputError, TrainingError
from leakscope.evaluate.utility import utility_of
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.report.page import pages_to_write
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.registry import Task, task_of_records
from leakscope.studies.defences.config import (
    ATTACKS,
    NONE,
    DefencesConfig,
    LeftOutDefence,
    Subject,
    Tried,
    chosen_defences,
)
from leakscope.studies.defences.results import DefencesResults
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.engine.request import TrainingRequest

KIND = "study defences"
RESULTS_TYPE = DefencesResults
CANARIES = "canaries.npy"
"""Which records are canaries."""
Progress = Callable[[float], None]
_SEED_OF_CHOICE = 1_000_003  # added to the seed of the population that chooses the most exposed records


def compare_defences(
    records: Records,
    recipe: AnyRecipe,
    defences: Sequence[str | Defence] = (),
    out: Path | str = "runs/defences",
    progress: Progress = lambda _: None,
    device: str = "auto",
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    **settings: Any,
) -> DefencesResults:
    """Trains a population per defence and strength, attacks all of them, and says which defence to choose.

    Args:
        records: whose membership is to be protected; labels are classes, or numbers to predict.
        recipe: how a model is trained without a defence.
        defences: names ("dp_sgd": at all its strengths), text with options ("dp_sgd(epsilon=4)") or objects;
            by default every defence that applies.
        out: run folder; an interrupted comparison in it resumes.
        progress: called with the models' worth of training that is done.
        device: "auto", "cpu", "cuda" or "cuda:N".
        disclosure: what the report may disclose about single records.
        **settings: fields of `DefencesConfig`: `models`, `canaries`, `attacks`, `fpr`, `seed`.
    """
    comparison = comparison_of(Subject(records, recipe), defences, device, **settings)
    return run(comparison, Path(out), progress, disclosure)


class Protected(NamedTuple):
    """Models with a defence, or without: how they are trained, on what, and what queries return."""

    recipe: AnyRecipe
    records: Records
    outputs: OutputFilter = NO_FILTER


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison that is ready to run.

    Attributes:
        config: what results.json says about it.
        records: the records, canaries included.
        requests: what to train: one population per setting, no defence first, then the one that chooses.
    """

    config: DefencesConfig
    records: Records
    requests: tuple[TrainingRequest, ...]


def comparison_of(
    subject: Subject, defences: Sequence[str | Defence] = (), device: str = "auto", **settings: Any
) -> Comparison:
    """Checks everything that can be checked before anything is trained.

    Raises:
        InputError: records, recipe, defences or settings do not fit each other.
    """
    utility, task = utility_of(subject.records), task_of_records(subject.records)
    usual = tuple(one for one in ATTACKS if resolve_all([one])[0].reads(task))
    settings = {"attacks": usual, **settings, "utility": utility.name}
    config = DefencesConfig(subject.records.name, (Tried(NONE, NONE),), **settings)
    _check_attacks(config, task)
    records = (
        subject.records if config.canaries is None else config.canaries.planted(subject.records, config.seed)
    )
    none = Protected(subject.recipe, records)
    applied, left_out = _applied(defences, none)
    protected = [none, *(after for _, after in applied)]
    for one in protected:
        check_recipe_checkpoints(resolve_all(config.attacks), one.recipe)
    tried = (Tried(NONE, NONE), *(_tried(defence, none, after) for defence, after in applied))
    config = replace(config, settings=tried, inapplicable=tuple(left_out))
    read = {name for attack in resolve_all(config.attacks) for name in attack.reads(task)}
    signals = tuple(sorted({utility.signal, *PER_RECORD.reads(task), *read}))
    design = make_design("balanced", config.models, len(records), config.seed)
    again = make_design("balanced", config.models, len(records), config.seed + _SEED_OF_CHOICE)
    requests = (
        *(_request(one, design, config.seed, signals, device) for one in protected),
        _request(none, again, config.seed + _SEED_OF_CHOICE, signals, device),
    )
    return Comparison(config, records, requests)


def _applied(
    defences: Sequence[str | Defence], none: Protected
) -> tuple[list[tuple[Defence, Protected]], list[LeftOutDefence]]:
    """The defences that apply, each with what it makes of the models, and why others do not."""
    applied, left_out = [], []
    for defence in chosen_defences(defences):
        reason = defence.why_not(none.recipe, none.records)
        if reason is None:
            applied.append((defence, _protected(defence, none)))
        else:
            left_out.append(LeftOutDefence(defence.label, reason))
    return applied, left_out


def _check_attacks(config: DefencesConfig, task: Task) -> None:
    """Refuses attacks that cannot attack these models."""
    for attack in resolve_all(config.attacks):
        if not attack.reads(task):
            raise InputError(f"attacks={attack.label!r}: not for models of a {task}")


def _protected(defence: Defence, none: Protected) -> Protected:
    recipe = defence.recipe(none.recipe, none.records)
    return Protected(recipe, defence.records(none.records), defence.outputs(none.outputs))


def _tried(defence: Defence, before: Protected, after: Protected) -> Tried:
    tables = settings_of(before.recipe, after.recipe, before.outputs, after.outputs)
    recipe, epsilon = after.recipe, None
    if isinstance(recipe, Recipe) and recipe.privacy is not None and recipe.guarantees_privacy:
        epsilon = recipe.privacy.epsilon
    return Tried(defence.name, defence.label, defence.changes, tables, epsilon)


def _request(
    protected: Protected, design: Design, seed: int, signals: tuple[str, ...], device: str
) -> TrainingRequest:
    from leakscope.engine.request import TrainingRequest, check_request

    request = TrainingRequest(
        protected.records, design, protected.recipe, seed, signals, device, outputs=protected.outputs
    )
    check_request(request)
    return request


def run(
    comparison: Comparison,
    out: Path,
    progress: Progress = lambda _: None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> DefencesResults:
    """Trains what is missing under `out`, judges, writes the reports; returns the results."""
    from leakscope.engine.local import complete_bank

    config = comparison.config
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        _write_canaries(out, comparison.records)
        for at, request in enumerate(comparison.requests):
            try:
                complete_bank(bank_folder(out, at), request, progress=progress)
            except TrainingError:
                if at == 0 or not Bank.open(bank_folder(out, at)).is_complete:
                    raise  # a defence under which every model diverged is left out, and the results say so
        results = write_results(out, recompute(out, config))
        for page in pages_to_write(out, disclosure):
            write_reports(out, results, page)
        return results


def recompute(out: Path, config: DefencesConfig) -> DefencesResults:
    """Every number of the comparison, from the banks under `out`."""
    from leakscope.studies.defences.judge import judged

    *banks, choosing = (Bank.open(bank_folder(out, at)) for at in range(len(config.settings) + 1))
    return judged(config, banks, choosing, stored_array(out / CANARIES))


def write_reports(out: Path, results: DefencesResults, disclosure: Disclosure) -> None:
    """Writes one of the reports."""
    from leakscope.studies.defences.page import write_report

    write_report(results, out, disclosure.redacted is True)


def bank_folder(out: Path, at: int) -> Path:
    """The folder of one setting's bank; the last one belongs to the population that chooses records."""
    return out / "banks" / f"setting-{at:03d}"


def subject_of_file(path: Path, data_dir: Path | None) -> Subject:
    """The records and the recipe of the config file of an audit.

    Raises:
        InputError: the file is wrong, or names no population to train.
    """
    from leakscope.audits.config import read_config

    config = read_config(path)
    if config.data is None or config.target is not None:
        raise InputError(f"{path}: a comparison trains populations; give [data], and no [target]")
    if config.settings.queries is not None:
        raise InputError(f"{path}: a comparison reads one query per record; leave `queries` out")
    if config.settings.unit is not None:
        raise InputError(
            f"{path}: a comparison is about single records, and unit={config.settings.unit!r} has several; "
            "`leakscope advise` tries defences for units"
        )
    return Subject(config.records(data_dir), config.recipe())


def _write_canaries(out: Path, records: Records) -> None:
    is_canary = np.zeros(len(records), dtype=np.bool_) if records.is_canary is None else records.is_canary
    write_array(out / CANARIES, is_canary)
