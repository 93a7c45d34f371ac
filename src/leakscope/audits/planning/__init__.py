"""What an audit will cost and what it can resolve, before anybody pays.

Time comes from a short trial of the real recipe, memory and disk from shapes, resolution from the
design; the formulas are in docs/plan.md. Nothing is written anywhere.
"""

from leakscope.audits.planning.plan import SUPPOSED_AUC, SUPPOSED_TPR, Plan, plan_audit, resolution
from leakscope.audits.planning.trial import Seconds

__all__ = ["SUPPOSED_AUC", "SUPPOSED_TPR", "Plan", "Seconds", "plan_audit", "resolution"]
