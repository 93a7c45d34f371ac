"""The attacks by name."""

from __future__ import annotations

from leakscope.attacks.base import Attack
from leakscope.attacks.correctness import Correctness
from leakscope.attacks.lira import Lira
from leakscope.attacks.loss import LossThreshold
from leakscope.attacks.shokri import Shokri

ATTACKS: dict[str, type[Attack]] = {a.name: a for a in (Correctness, LossThreshold, Shokri, Lira)}
