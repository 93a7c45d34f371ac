"""What the faults happen to: small runs of each kind that trains or keeps something, in several blocks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.data.predictions import Predictions
from leakscope.engine import local, request
from leakscope.recipe import EstimatorRecipe, FunctionRecipe
from leakscope.studies.leakage import page as leakage_report
from leakscope.studies.leakage import study as leakage
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import page as scaling_report
from leakscope.studies.scaling import study as scaling
from tests.engine.functions import slow
from tests.engine.small_population import RECIPE, records
from tests.faults.injections import Case, Expected, undisturbed
from tests.faults.loaded import write_no_pages
from tests.faults.lost_nodes import CLUSTER

_ATTACKS = ("correctness", "lira")


def run_audit(folder: Path) -> None:
    audit(records(), RECIPE, folder, models=8, attacks=_ATTACKS, fpr=(0.1,), device="cpu")


def run_predictions(folder: Path) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 40)
    logits = rng.normal(size=(5, 40, 3)).astype(np.float32)
    members = rng.random((5, 40)) < 0.5
    logits[np.arange(5)[:, None], np.arange(40), labels] += members
    ids = np.array([f"p{i}" for i in range(40)])
    answers = Predictions(logits[0], labels, ids, members[0], reference_logits=logits[1:],
                          reference_in_mask=members[1:])  # fmt: skip
    audit(SavedPredictions(answers), out=folder, attacks=_ATTACKS, fpr=(0.1,))


def run_scaling(folder: Path) -> None:
    config = scaling.ScalingConfig(
        hidden_widths=(4, 6, 9), n_repeats=2, n_shadow=1, n_reference=2, n_samples=60
    )
    scaling.run(config, folder)


def run_leakage(folder: Path) -> None:
    config = leakage.LeakageConfig(dataset="digits", figures=(5,), records=3, trials=20, network_records=1,
                                   extensions=())  # fmt: skip
    leakage.run(config, folder)


def run_estimators(folder: Path) -> None:
    recipe = EstimatorRecipe(DecisionTreeClassifier(max_depth=2), processes=2)
    audit(records(), recipe, folder, models=8, attacks=_ATTACKS, fpr=(0.1,))


SLOW = FunctionRecipe(slow(0.4))


def run_functions(folder: Path) -> None:
    audit(records(), SLOW, folder, models=8, attacks=_ATTACKS, fpr=(0.1,))


def run_in_processes(folder: Path) -> None:
    local.SECONDS_WORTH_PROCESSES = 0.0
    run_functions(folder)


def run_on_ray(folder: Path) -> None:
    for stream in (1, 2):  # where Ray tells at length of nodes it has lost
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    where = {"engine": "ray", "address": CLUSTER.running().address}
    audit(records(), SLOW, folder, models=8, attacks=_ATTACKS, fpr=(0.1,), device="cpu", **where)


CASES = (
    Case("audit", run_audit),
    Case("predictions", run_predictions),
    Case("study scaling", run_scaling),
    Case("study leakage", run_leakage),
    Case("estimators", run_estimators, "processes"),
    Case("functions", run_in_processes, "processes", alone=run_functions),
    Case("audit on Ray", run_on_ray, "ray", alone=run_functions),
)


def make_small() -> None:
    """Blocks of two models, few draws, no pages: what is written from the results is not what is at stake."""
    request.BLOCK_SIZES, request.MODELS_PER_BLOCK = (2, 2), 4
    scaling_judge._N_DRAWS = 50
    write_no_pages()
    for report in (scaling_report, leakage_report):
        report.write_report = lambda *given: None  # type: ignore[attr-defined]


def prepared(folder: Path, places: set[str]) -> dict[str, tuple[Case, Expected]]:
    """The cases that are trained in these places, each with its undisturbed outcome."""
    make_small()
    wanted = [case for case in CASES if case.place in places]
    return {case.name: (case, undisturbed(case, folder / case.name)) for case in wanted}
