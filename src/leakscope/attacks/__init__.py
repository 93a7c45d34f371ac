"""Membership inference attacks, one per file or paper. `base.py` holds the contract and all checks."""

from leakscope.attacks.base import Attack
from leakscope.attacks.base_model import BaseModel
from leakscope.attacks.base_score import Base
from leakscope.attacks.bavaria import Bavaria
from leakscope.attacks.blocks import Block, Blocks
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
from leakscope.attacks.spec import resolve, resolve_all, spec_of
from leakscope.attacks.thresholds import Correctness, LossThreshold
from leakscope.attacks.zlib_ratio import ZlibRatio

__all__ = [
    "Attack",
    "Base",
    "BaseModel",
    "Bavaria",
    "Block",
    "Blocks",
    "Calibrated",
    "Correctness",
    "EbLira",
    "EzMia",
    "LabelOnly",
    "LabelOnlyLira",
    "Lira",
    "LossThreshold",
    "MinK",
    "MinKPlusPlus",
    "Population",
    "QuantileRegression",
    "Reference",
    "Rmia",
    "Shokri",
    "ZlibRatio",
    "resolve",
    "resolve_all",
    "spec_of",
]
