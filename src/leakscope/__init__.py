"""leakscope: what a trained model reveals about who was in its training set.

    import leakscope

    verdict = leakscope.audit(leakscope.load("digits"), leakscope.Recipe(), out="runs/mine")
    print(verdict)

Importing this package loads no torch; that waits until models are trained.
"""

__version__ = "0.1.0"

from leakscope.attacks.base import Attack
from leakscope.audits.given import GivenTarget
from leakscope.audits.merged import MergedRuns
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.data.files import read_table
from leakscope.data.registry import load
from leakscope.dynamics.monitor import Monitor
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.evaluate.verdict import Verdict
from leakscope.models.given import FittedEstimator, NetWeights, PredictFunction
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.runs.run import Run, open_run
from leakscope.types import Design, Records, Scores, Signals

__all__ = [
    "Attack",
    "Design",
    "EstimatorRecipe",
    "FittedEstimator",
    "FunctionRecipe",
    "Gate",
    "GivenTarget",
    "MergedRuns",
    "Monitor",
    "NetWeights",
    "PredictFunction",
    "Recipe",
    "Records",
    "Run",
    "SavedPredictions",
    "Scores",
    "Signals",
    "TprLimit",
    "TrainedPopulation",
    "Verdict",
    "audit",
    "load",
    "open_run",
    "read_table",
]
