"""The attacks by name: those leakscope ships, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from leakscope.attacks.base import Attack
from leakscope.attacks.calibrated import Calibrated
from leakscope.attacks.correctness import Correctness
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.attacks.loss import LossThreshold
from leakscope.attacks.population import Population
from leakscope.attacks.quantile import QuantileRegression
from leakscope.attacks.reference import Reference
from leakscope.attacks.rmia import Rmia
from leakscope.attacks.shokri import Shokri
from leakscope.errors import InputError

_SHIPPED = (
    EbLira,
    Lira,
    Rmia,
    Calibrated,
    Reference,
    Population,
    LossThreshold,
    Correctness,
    Shokri,
    QuantileRegression,
)
ENTRY_POINTS = "leakscope.attacks"
"""Group of entry points by which an installed package brings attacks."""


@cache
def attack_classes() -> dict[str, type[Attack]]:
    """Every attack by name: the shipped ones, then those of installed packages."""
    found: dict[str, type[Attack]] = {attack.name: attack for attack in _SHIPPED}
    for entry in entry_points(group=ENTRY_POINTS):
        attack = entry.load()
        if attack.name in found:
            raise InputError(f"{entry.value}: an attack named {attack.name!r} exists already; rename it")
        found[attack.name] = attack
    return found


def default_attacks(audit: str) -> tuple[Attack, ...]:
    """The attacks that run by default in an audit of this kind, see `Attack.default_for`."""
    return tuple(attack() for attack in reversed(_SHIPPED) if audit in attack.default_for)


PER_RECORD = EbLira()
"""Judges single records: the strongest attack whose score is a log ratio."""
