"""For test suites: `assert_private` fails where a model leaks too much, `check_attack` where an attack of
your own breaks the contract. Neither needs a test framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakscope.testing.attack_contract import PlantedBank as PlantedBank
    from leakscope.testing.attack_contract import check_attack as check_attack
    from leakscope.testing.attack_contract import planted_bank as planted_bank
    from leakscope.testing.private import assert_private as assert_private

_MODULES = {
    "PlantedBank": "leakscope.testing.attack_contract",
    "assert_private": "leakscope.testing.private",
    "check_attack": "leakscope.testing.attack_contract",
    "planted_bank": "leakscope.testing.attack_contract",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'leakscope.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value
