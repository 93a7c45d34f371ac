"""The attacks by name. `EbLira` comes first: it is the default."""

from __future__ import annotations

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

_ALL = (
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
ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in _ALL}

PER_RECORD_ATTACK = "eb_lira"
"""The strongest attack whose score is a log ratio, so that above 0 means "member" for each record."""
