"""leakscope: what a trained model gives away about who was in its training set.

    import leakscope

    verdict = leakscope.audit(leakscope.load("digits"), leakscope.Recipe(), out="runs/mine")
    print("\\n".join(verdict.words()))

Importing this package loads no torch; that waits until models are trained.
"""

__version__ = "0.1.0"

from leakscope.audit import audit
from leakscope.data.files import read_table
from leakscope.data.registry import load
from leakscope.gate import Gate, TprLimit
from leakscope.monitor import Monitor
from leakscope.predictions_audit import audit_predictions
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.target_audit import audit_target
from leakscope.types import Design, Records, Scores, Signals
from leakscope.verdict import Verdict

__all__ = [
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
