"""The main path: every audit, whatever its source, goes through `run_audit`.

Start here:

    settings, source -> checks -> a bank of outputs -> attacks -> figures with intervals -> verdict, report
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leakscope.attacks.spec import resolve
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.settings import STORED, AuditSettings
from leakscope.audits.source import Evidence, PreparedAudit, Progress, Source
from leakscope.audits.units import repeated_ids
from leakscope.bank.bank import Bank
from leakscope.bank.object_store import working_copy
from leakscope.bank.results import read_results, write_results
from leakscope.bank.run_folder import RESULTS, clear_run_folder, locked_run_folder
from leakscope.data.frame_records import FrameRoles, frame_records
from leakscope.data.standardise import standardised
from leakscope.disclosure import Disclosure, is_redacted, redaction_key
from leakscope.disk.memory import collect_rarely, reuse_memory
from leakscope.disk.second_process import second_process
from leakscope.disk.storage import storage_errors
from leakscope.errors import InputError, LeakscopeError, choose_from, require_train
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import AnyRecipe, EstimatorRecipe
from leakscope.report.page import pack_plotly, pages_to_write
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.types import Records
from leakscope.user_code import named_by_a_run

if TYPE_CHECKING:
    from leakscope.audits.rewriting import AuditAgain
    from leakscope.evaluate.judge import Judged

KIND = "audit"
RESULTS_TYPE = AuditResults
_LOADED_BESIDE = "leakscope.evaluate.judge", "scipy.special"
_LOADED_WHEN_IDLE = "matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"
"""What the second process loads: at once, for its first jobs, and while it waits, for the pictures."""


def _no_progress(_: float) -> None:
    """Reports nothing."""


def audit(
    source: Source | Records | None = None,
    recipe: AnyRecipe | None = None,
    out: Path | str = "runs/audit",
    progress: Progress = _no_progress,
    outputs: OutputFilter = NO_FILTER,
    *,
    X: Any = None,
    y: Any = None,
    estimator: Any = None,
    **settings: Any,
) -> Verdict:
    """Measures what models give away about who was in their training sets.

        leakscope.audit(X=people, y="income", ids="person", groups=["region"], estimator=pipeline)

    Args:
        source: records, to train a population of `recipe` or `estimator` on; or a `TrainedPopulation`,
            `GivenTarget`, `SavedPredictions`, `MergedRuns` or `FinishedRun`.
        recipe: how one model is trained, if you give records.
        out: run folder, or an address like s3://bucket/run. An interrupted run resumes; the folder of
            another run is refused, and so is one whose code has changed (see `reuse` and `fresh` in
            `AuditSettings`).
        progress: called with the models' worth of training that is done.
        outputs: what queries return, if you give records.
        X: a table instead of `source`: a DataFrame of pandas or polars, a numpy array or a sparse matrix.
            Estimators get it as it is.
        y: labels of `X`: the name of a column, or one value per row.
        estimator: a classifier or regressor with scikit-learn's methods instead of `recipe`: a Pipeline,
            XGBoost, LightGBM, CatBoost.
        **settings: `ids` and `groups` of `X`, given as `y` is; and fields of `AuditSettings`, such as
            `models=64`, `attacks=["eb_lira", "rmia"]` or `unit="patient"`, a column that says whose record
            it is.
    """
    given = [*(["y"] if y is not None else []), *(name for name in ("ids", "groups") if name in settings)]
    roles = FrameRoles(y, settings.pop("ids", None), settings.pop("groups", ()), unit=settings.get("unit"))
    recipe = _one_recipe(recipe, estimator)
    if X is not None:
        source = _table(source, X, roles, recipe)
    elif given or source is None:
        problem = f"{', '.join(given)} would do nothing without X" if given else "there is nothing to audit"
        raise InputError(f"{problem}: pass a table (X=df, y=...) or records (leakscope.load('digits'))")
    return run_audit(audit_settings(settings), audit_source(source, recipe, outputs), out, progress)


def _one_recipe(recipe: AnyRecipe | None, estimator: Any) -> AnyRecipe | None:
    if estimator is None:
        return recipe
    if recipe is not None:
        hint = "; a table is given as X=..., and its labels as y=..." if isinstance(recipe, str) else ""
        raise InputError(f"give either recipe or estimator{hint}")
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        is_class = isinstance(estimator, type)
        name = estimator.__name__ if is_class else type(estimator).__name__
        example = f"{name if is_class else 'RandomForestClassifier'}()"
        raise InputError(f"estimator is {name}: give an object with fit and predict, for example {example}")
    inner = estimator.get_params().values() if hasattr(estimator, "get_params") else ()
    if any(type(part).__name__ == "FrozenEstimator" for part in (estimator, *inner)):
        warnings.warn(
            "estimator holds a FrozenEstimator, which is the same in every model: what it reveals about the "
            "records it was fitted on is not measured",
            stacklevel=3,
        )
    return EstimatorRecipe(estimator)


def _table(source: object, X: Any, roles: FrameRoles, recipe: AnyRecipe | None) -> Records:
    """The records of a table; warns of likely mistakes in it."""
    if source is not None:
        raise InputError("give either X or source")
    if isinstance(X, str | Path):
        raise InputError(f"X={str(X)!r}: give a table, or leakscope.read_table({str(X)!r}, ...) as source")
    read = frame_records(X, roles._replace(task=_task_of(recipe)))
    mistakes = [*(read.reading.warnings if read.reading else ()), *repeated_ids(read, roles.unit)]
    for warning in mistakes:
        warnings.warn(f"X: {warning}", stacklevel=3)
    return standardised(read)


def _task_of(recipe: AnyRecipe | None) -> Literal["auto", "classification", "regression"]:
    """What an estimator predicts; "auto" where the labels must tell."""
    if not isinstance(recipe, EstimatorRecipe):
        return "auto"
    from sklearn.base import is_classifier, is_regressor

    try:
        is_numbers, is_classes = is_regressor(recipe.estimator), is_classifier(recipe.estimator)
    except Exception:  # no estimator of scikit-learn's: the check of the recipe says why
        return "auto"
    return "regression" if is_numbers else "classification" if is_classes else "auto"


def audit_source(
    source: Source | Records, recipe: AnyRecipe | None, outputs: OutputFilter = NO_FILTER
) -> Source:
    """The source that the arguments of `audit` and `plan` name."""
    if not isinstance(source, Records):
        if not hasattr(source, "prepare"):
            is_table = hasattr(source, "shape")
            raise InputError(
                f"source is {type(source).__name__}: "
                + ("give a table as X=..., with y=... and estimator=..." if is_table else
                   "give records, for example leakscope.load('digits'), or "
                   "what to audit, for example leakscope.SavedPredictions('predictions.npz')")
            )  # fmt: skip
        if recipe is not None:
            raise InputError("recipe would do nothing: it belongs to records")
        if outputs != NO_FILTER:
            raise InputError("outputs would do nothing: they belong to records, or to the source itself")
        return source
    if recipe is None:
        raise InputError(
            "recipe is missing: records need one, for example leakscope.Recipe(net='mlp'), or an estimator"
        )
    if not isinstance(recipe, AnyRecipe):
        raise InputError(
            f"recipe is {type(recipe).__name__}: give leakscope.Recipe, or wrap an estimator in "
            "leakscope.EstimatorRecipe or a training function in leakscope.FunctionRecipe"
        )
    if not isinstance(outputs, OutputFilter):
        raise InputError(f"outputs={outputs!r}: give for example leakscope.OutputFilter(digits=2)")
    return TrainedPopulation(source, recipe, outputs)


def audit_settings(given: dict[str, Any]) -> AuditSettings:
    """Settings from keyword arguments; an unknown one is named, with the closest that exists."""
    from dataclasses import fields

    known = [field.name for field in fields(AuditSettings)]
    for name in given:
        if name not in known:
            raise InputError(f"{name} is not a setting of an audit; {choose_from(name, known)}")
    return AuditSettings(**given)


def run_audit(
    settings: AuditSettings, source: Source, out: Path | str, progress: Progress = _no_progress
) -> Verdict:
    """Audits a source, and writes its run folder `out`; see `audit`."""
    with as_audits_run(source):
        prepared = prepare(settings, source)  # before anything is written
        _check_out(out)
        with working_copy(out) as folder, locked_run_folder(folder, KIND, {}):
            was_redacted = is_redacted(folder) and settings.disclosure.redacted is not False
            if settings.fresh:
                clear_run_folder(folder)
            if settings.disclosure.redacted or was_redacted:
                redaction_key(folder)  # first, so that the run stays redacted when it is resumed
            with named_by_a_run():  # before hours of training
                for attack in _earlier_attacks(folder):
                    resolve(attack)
            return evaluate_and_report(prepared.collect(folder, progress), folder, settings.disclosure)


@contextmanager
def as_audits_run(source: Source) -> Iterator[None]:
    """Memory and processes as every audit has them, so that a trial takes as long as the audit."""
    reuse_memory()
    # Where pictures can be drawn here without loading anything, a second process gains too little.
    is_needed = source.uses >= STORED and _LOADED_WHEN_IDLE[1] not in sys.modules
    with collect_rarely(), second_process(_LOADED_BESIDE, _LOADED_WHEN_IDLE, is_needed):
        yield


def _check_out(out: Path | str) -> None:
    path = Path(out)
    with storage_errors(path):
        for place in (path, *path.parents):
            if place.is_file():
                raise InputError(f"out={str(out)!r}: {place} is a file; choose another folder with --out")


def prepare(settings: AuditSettings, source: Source) -> PreparedAudit:
    """A source with its settings, checked: raises whatever an audit or its plan refuses."""
    if "models" in source.uses:
        require_train()
    resolved = settings.resolve(source.default_attacks, source.default_fpr_budgets, source.uses, source.task)
    prepared = source.prepare(resolved)
    settings.disclosure.check(is_of_one_model=prepared.config.targets is not None)
    return prepared


def evaluate_and_report(evidence: Evidence, folder: Path, disclosure: Disclosure) -> Verdict:
    """Judges a complete bank, and writes results.json, records.parquet and the reports."""
    from leakscope.audits.report.page import write_report
    from leakscope.evaluate.judge import judge, write_record_table

    earlier = _earlier_attacks(folder)
    config = replace(evidence.config, attacks=tuple(dict.fromkeys([*earlier, *evidence.config.attacks])))
    pack_plotly()  # while the attacks run
    judged = judge(evidence.bank, config, evidence.metadata)
    evidence.metadata.write(folder)
    write_record_table(folder, evidence.metadata.without_canaries(), judged)
    results = write_results(folder, judged.results)
    pages = pages_to_write(folder, disclosure)
    _write_previews(folder, evidence, judged, is_private=not pages[0].redacted)
    for page in pages:
        write_report(results, judged.attacked, page)
    return Verdict(results, folder)


def _earlier_attacks(folder: Path) -> tuple[str, ...]:
    """The attacks of the run's earlier results; they run again, so that no result disappears."""
    if not (folder / RESULTS).exists():
        return ()
    try:
        return read_results(folder, AuditResults).config.attacks
    except LeakscopeError:  # of another format, or damaged: it is written anew
        return ()


def _write_previews(folder: Path, evidence: Evidence, judged: Judged, is_private: bool) -> None:
    """Previews of the most exposed records; a run with a redacted page alone has none."""
    from leakscope.audits.token_previews import write_token_previews
    from leakscope.report.documents import TOKENS
    from leakscope.report.previews import MOST_PREVIEWS, PREVIEWS, exposure_order, previews_of

    if not is_private:
        (folder / PREVIEWS).unlink(missing_ok=True)
        (folder / TOKENS).unlink(missing_ok=True)
    elif evidence.records is not None:
        advantage = None if judged.risk is None else judged.risk.column("advantage")
        bits = None if judged.leakage is None else judged.leakage.bits
        population = np.setdiff1d(np.arange(len(evidence.records)), evidence.metadata.canaries)
        units = judged.attacked.design.units
        if units is not None:  # a unit is shown by its first record
            population = population[np.unique(units, return_index=True)[1]]
        order = exposure_order(advantage, bits, len(population), MOST_PREVIEWS)
        replace(previews_of(evidence.records, population[order]), records=order).write(folder)
        write_token_previews(folder, evidence, population[order])


def recompute(folder: Path, config: EvaluationConfig) -> AuditResults:
    """The results from the bank and the records' metadata alone; `leakscope verify` compares them."""
    return recompute_all(folder, config).results


def recompute_all(folder: Path, config: EvaluationConfig) -> AuditAgain:
    """The same, and what writes tables and pages from it elsewhere; `leakscope verify` compares them, too."""
    from leakscope.audits.rewriting import AuditAgain

    return AuditAgain.of(folder, config)


def write_reports(folder: Path, results: AuditResults, disclosure: Disclosure) -> None:
    """Writes one of the reports again, from the results and the bank."""
    from leakscope.audits.report.page import write_report
    from leakscope.evaluate.attacked import attacked

    everyone = attacked(Bank.open(folder), results.config).inverted(results.inverted_attacks)
    write_report(results, everyone.without(RecordMetadata.read(folder).canaries), disclosure)
