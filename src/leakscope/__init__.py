"""leakscope: what a trained model gives away about who was in its training set.

    import leakscope

    verdict = leakscope.audit(leakscope.load("digits"), leakscope.Recipe(), out="runs/mine")
    print("\\n".join(verdict.words()))

Importing this package loads no torch; that waits until models are trained.
"""

__version__ = "0.1.0"

from leakscope.attacks.base import Attack
from leakscope.audits.population import audit
from leakscope.audits.predictions import audit_predictions
from leakscope.audits.target import audit_target
from leakscope.data.files import read_table
from leakscope.data.registry import load
from leakscope.dynamics.monitor import Monitor
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.types import Design, Records, Scores, Signals

__all__ = [
    "Attack",
    "Design",
    "EstimatorRecipe",
    "FunctionRecipe",
    "Gate",
    "Monitor",
    "Recipe",
    "Records",
    "Scores",
    "Signals",
    "TprLimit",
    "Verdict",
    "audit",
    "audit_predictions",
    "audit_target",
    "load",
    "read_table",
]
