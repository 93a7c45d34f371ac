"""A claim of differential privacy, put to the test: canaries, lower bounds on epsilon, and a verdict.

A test can refute a claim. It cannot prove one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakscope.dp.canaries import Canaries as Canaries
    from leakscope.dp.one_run import audit_scores as audit_scores
    from leakscope.dp.recipe import audit_recipe as audit_recipe
    from leakscope.privacy.claim import Claim as Claim

_MODULES = {
    "Canaries": "leakscope.dp.canaries",
    "Claim": "leakscope.privacy.claim",
    "audit_recipe": "leakscope.dp.recipe",
    "audit_scores": "leakscope.dp.one_run",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'leakscope.dp' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value
