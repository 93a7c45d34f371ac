"""leakscope: what a trained model reveals about who was in its training set.

    import leakscope

    verdict = leakscope.audit(leakscope.load("digits"), leakscope.Recipe(), out="runs/mine")
    print(verdict)

Importing this package is quick: a name is imported from its module when it is first used.
"""

__version__ = "0.2.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakscope import dp as dp
    from leakscope.adapter_recipe import AdapterRecipe as AdapterRecipe
    from leakscope.adapter_recipe import Lora as Lora
    from leakscope.advice.advise import Advice as Advice
    from leakscope.advice.advise import AdviceOptions as AdviceOptions
    from leakscope.advice.advise import advise as advise
    from leakscope.attacks.base import Attack as Attack
    from leakscope.audits.given import GivenTarget as GivenTarget
    from leakscope.audits.merged import MergedRuns as MergedRuns
    from leakscope.audits.population import TrainedPopulation as TrainedPopulation
    from leakscope.audits.predictions import SavedPredictions as SavedPredictions
    from leakscope.audits.run import audit as audit
    from leakscope.data.canaries import Canaries as Canaries
    from leakscope.data.files import read_table as read_table
    from leakscope.data.registry import load as load
    from leakscope.data.text_records import read_text as read_text
    from leakscope.dynamics.monitor import Monitor as Monitor
    from leakscope.evaluate.gate import Gate as Gate
    from leakscope.evaluate.gate import TprLimit as TprLimit
    from leakscope.evaluate.verdict import Verdict as Verdict
    from leakscope.integrations.tracking import log_run as log_run
    from leakscope.models.fine_tuned import FineTuned as FineTuned
    from leakscope.models.given import (
        FittedEstimator as FittedEstimator,
    )
    from leakscope.models.given import (
        NetWeights as NetWeights,
    )
    from leakscope.models.given import (
        PredictFunction as PredictFunction,
    )
    from leakscope.privacy.settings import Privacy as Privacy
    from leakscope.recipe import (
        EstimatorRecipe as EstimatorRecipe,
    )
    from leakscope.recipe import (
        FunctionRecipe as FunctionRecipe,
    )
    from leakscope.recipe import (
        Recipe as Recipe,
    )
    from leakscope.runs.run import Run as Run
    from leakscope.runs.run import open_run as open_run
    from leakscope.signals.output_filter import OutputFilter as OutputFilter
    from leakscope.studies.defences.study import compare_defences as compare_defences
    from leakscope.types import Design as Design
    from leakscope.types import Records as Records
    from leakscope.types import Scores as Scores
    from leakscope.types import Signals as Signals

_MODULES = {
    "AdapterRecipe": "leakscope.adapter_recipe",
    "Advice": "leakscope.advice.advise",
    "AdviceOptions": "leakscope.advice.advise",
    "Attack": "leakscope.attacks.base",
    "Canaries": "leakscope.data.canaries",
    "Design": "leakscope.types",
    "EstimatorRecipe": "leakscope.recipe",
    "FineTuned": "leakscope.models.fine_tuned",
    "FittedEstimator": "leakscope.models.given",
    "FunctionRecipe": "leakscope.recipe",
    "Gate": "leakscope.evaluate.gate",
    "GivenTarget": "leakscope.audits.given",
    "Lora": "leakscope.adapter_recipe",
    "MergedRuns": "leakscope.audits.merged",
    "Monitor": "leakscope.dynamics.monitor",
    "NetWeights": "leakscope.models.given",
    "OutputFilter": "leakscope.signals.output_filter",
    "PredictFunction": "leakscope.models.given",
    "Privacy": "leakscope.privacy.settings",
    "Recipe": "leakscope.recipe",
    "Records": "leakscope.types",
    "Run": "leakscope.runs.run",
    "SavedPredictions": "leakscope.audits.predictions",
    "Scores": "leakscope.types",
    "Signals": "leakscope.types",
    "TprLimit": "leakscope.evaluate.gate",
    "TrainedPopulation": "leakscope.audits.population",
    "Verdict": "leakscope.evaluate.verdict",
    "advise": "leakscope.advice.advise",
    "audit": "leakscope.audits.run",
    "compare_defences": "leakscope.studies.defences.study",
    "load": "leakscope.data.registry",
    "log_run": "leakscope.integrations.tracking",
    "open_run": "leakscope.runs.run",
    "read_table": "leakscope.data.files",
    "read_text": "leakscope.data.text_records",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "dp":
        return import_module("leakscope.dp")
    if name not in _MODULES:
        raise AttributeError(f"module 'leakscope' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "dp"})
