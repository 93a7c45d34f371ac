"""The attacks by name: those leakscope ships, and those of installed packages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from leakscope.attacks.base import Attack, Audit
from leakscope.attacks.base_model import BaseModel
from leakscope.attacks.base_score import Base
from leakscope.attacks.bavaria import Bavaria
from leakscope.attacks.calibrated import Calibrated
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.ez_mia import EzMia
from leakscope.attacks.label_only import LabelOnly, LabelOnlyLira
from leakscope.attacks.lira import Lira
from leakscope.attacks.min_k import MinK, MinKPlusPlus
from leakscope.attacks.population import Population
from leakscope.attacks.quantile import QuantileRegression
from leakscope.attacks.reference import Reference
from leakscope.attacks.rmia import Rmia
from leakscope.attacks.shokri import Shokri
from leakscope.attacks.thresholds import Correctness, LossThreshold
from leakscope.attacks.zlib_ratio import ZlibRatio
from leakscope.errors import InputError
from leakscope.signals.registry import Task

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_SHIPPED = (
    EbLira,
    Lira,
    Bavaria,
    Rmia,
    Base,
    Calibrated,
    Reference,
    Population,
    LossThreshold,
    Correctness,
    Shokri,
    QuantileRegression,
    LabelOnly,
    LabelOnlyLira,
    EzMia,
    BaseModel,
    MinKPlusPlus,
    MinK,
    ZlibRatio,
)
ENTRY_POINTS = "leakscope.attacks"
"""The group of entry points in which installed packages offer attacks."""


@cache
def attack_classes() -> dict[str, type[Attack]]:
    """Every attack by name: the shipped ones, then those of installed packages."""
    from importlib.metadata import entry_points  # slow to import

    classes: dict[str, type[Attack]] = {attack.name: attack for attack in _SHIPPED}
    for entry in entry_points(group=ENTRY_POINTS):
        attack = _loaded(entry)
        if attack.name in classes:
            raise InputError(f"{entry.value}: an attack named {attack.name!r} exists already; rename it")
        classes[attack.name] = attack
    return classes


def _loaded(entry: EntryPoint) -> type[Attack]:
    """The class that an installed package offers."""
    try:
        attack = entry.load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the attack {entry.value} of an installed package cannot be imported ({error}); reinstall or "
            "remove the package"
        ) from error
    if not (isinstance(attack, type) and issubclass(attack, Attack)):
        raise InputError(f"entry point {entry.value} is not a subclass of leakscope.Attack")
    return attack


def default_attacks(audit: Audit, task: Task) -> tuple[Attack, ...]:
    """The attacks that run by default in an audit of this kind, see `Attack.default_for`.

    Only shipped attacks do: installing a package does not change what an audit reports.
    """
    attacks = [attack() for attack in reversed(_SHIPPED) if audit in attack.default_for]
    if audit == "out_references":
        attacks.append(EbLira(online=False))
    return tuple(attack for attack in attacks if attack.reads(task))


PER_RECORD = EbLira()
"""The attack that assesses single records: the strongest one whose score is a log ratio."""
