"""Membership inference attacks, one per file or paper. `base.py` holds the contract and all checks."""

from leakscope.attacks.base import Attack
from leakscope.attacks.base_score import Base
from leakscope.attacks.bavaria import Bavaria
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.calibrated import Calibrated
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.label_only import LabelOnly, LabelOnlyLira
from leakscope.attacks.lira import Lira
from leakscope.attacks.population import Population
from leakscope.attacks.quantile import QuantileRegression
from leakscope.attacks.reference import Reference
from leakscope.attacks.rmia import Rmia
from leakscope.attacks.shokri import Shokri
from leakscope.attacks.spec import resolve, resolve_all, spec_of
from leakscope.attacks.thresholds import Correctness, LossThreshold

__all__ = [
    "Attack",
    "Base",
    "Bavaria",
    "Block",
    "Blocks",
    "Calibrated",
    "Correctness",
    "EbLira",
    "LabelOnly",
    "LabelOnlyLira",
    "Lira",
    "LossThreshold",
    "Population",
    "QuantileRegression",
    "Reference",
    "Rmia",
    "Shokri",
    "resolve",
    "resolve_all",
    "spec_of",
]
