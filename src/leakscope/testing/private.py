"""A test that fails where a model reveals too much about who was in its training set.

from leakscope.testing import assert_private

def test_the_model_is_private():
    assert_private(model, records, is_member, models=16)
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from leakscope.audits.given import GivenTarget
from leakscope.audits.run import audit_settings, run_audit
from leakscope.audits.source import Source
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate, Preset
from leakscope.evaluate.rating_sentences import rating_sentence
from leakscope.evaluate.sentences import (
    claim_sentences,
    gate_sentences,
    has_failed_check,
    opening_sentences,
)
from leakscope.evaluate.verdict import Verdict
from leakscope.frames.frame import is_table
from leakscope.models.given import FittedEstimator, PredictFunction
from leakscope.recipe import AnyRecipe, EstimatorRecipe
from leakscope.types import Records


def assert_private(
    model: Any,
    records: Records | None = None,
    is_member: Any = None,
    recipe: AnyRecipe | None = None,
    *,
    gate: Gate | Preset = "release",
    allow_inconclusive: bool = False,
    out: Path | str | None = None,
    **settings: Any,
) -> None:
    """Audits a model, and raises an AssertionError with the verdict unless it passes the gate.

    Args:
        model: a fitted scikit-learn estimator, or a function `predict(features)`; or any source of an audit,
            such as `leakscope.SavedPredictions("predictions.npz")`, which needs no further arguments.
        records: members and non-members, as the model expects them.
        is_member: bool (records,), true for the records that the model was trained on.
        recipe: how reference models are trained; by default an estimator is fitted again like the model.
        gate: the limits, or the name of a preset.
        allow_inconclusive: do not fail where the audit is too small to decide. That is no pass: a model that
            leaks may go unnoticed. After a failed check of the audit itself, this fails nevertheless.
        out: run folder, where the report stays; None: nothing stays.
        **settings: fields of `leakscope.audits.settings.AuditSettings`, such as `models=16`.

    Raises:
        AssertionError: a limit is broken, or the audit is inconclusive.
    """
    __tracebackhide__ = True  # pytest then points at the test, not at this function
    limits = gate if isinstance(gate, Gate) else Gate(preset=gate)
    source, asked = _source(model, records, is_member, recipe), audit_settings({**settings, "gate": limits})
    if out is not None:
        _assert_passed(run_audit(asked, source, out), allow_inconclusive, f" The report is in {out}.")
        return
    with tempfile.TemporaryDirectory(prefix="leakscope-") as folder:
        remedy = " Give out='FOLDER' to see the report."
        _assert_passed(run_audit(asked, source, Path(folder) / "run"), allow_inconclusive, remedy)


def _source(model: Any, records: Records | None, is_member: Any, recipe: AnyRecipe | None) -> Source:
    """What the arguments say is audited."""
    if hasattr(model, "prepare"):
        given = {"records": records, "is_member": is_member, "recipe": recipe}
        unused = [name for name, value in given.items() if value is not None]
        if unused:
            raise InputError(f"{', '.join(unused)} would do nothing: {type(model).__name__} is complete")
        source: Source = model
        return source
    if records is None or is_member is None:
        raise InputError(
            "records or is_member is missing: give the model, its records and which of them it was trained on"
        )
    if is_table(records):
        raise InputError(
            f"records is {type(records).__name__}; give leakscope.read_table(table, labels), where labels "
            "are the name of a column or one value per row"
        )
    is_estimator = hasattr(model, "get_params") and hasattr(model, "predict")
    if not is_estimator and not callable(model):
        raise InputError(
            f"model is {type(model).__name__}: give a fitted scikit-learn estimator, a function "
            "predict(features), or a source such as leakscope.SavedPredictions('predictions.npz')"
        )
    if not is_estimator and recipe is None:
        raise InputError(
            "recipe is missing: a function does not say how reference models are trained; give for example "
            "leakscope.Recipe(net='mlp')"
        )
    target = FittedEstimator(model) if is_estimator else PredictFunction(model)
    return GivenTarget(records, target, is_member, _fitted_again(model) if recipe is None else recipe)


def _fitted_again(estimator: Any) -> EstimatorRecipe:
    """References that are fitted like the estimator."""
    from sklearn.base import clone

    return EstimatorRecipe(clone(estimator))


def _assert_passed(verdict: Verdict, allow_inconclusive: bool, where: str) -> None:
    """Raises where the audit's outcome is not a pass."""
    __tracebackhide__ = True
    results, outcome = verdict.results, verdict.outcome
    is_undecided = outcome == "inconclusive" and not has_failed_check(results)
    if outcome == "passed" or (is_undecided and allow_inconclusive):
        return
    sentences = [*opening_sentences(results), *gate_sentences(results), *claim_sentences(results)]
    remedy = (
        ""
        if outcome == "failed"
        else " An inconclusive audit is no pass; allow_inconclusive=True accepts it."
    )
    raise AssertionError(" ".join([*sentences, rating_sentence(results)]) + remedy + where)
