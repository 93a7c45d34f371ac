"""Gates by name: for whom a model is meant decides how much it may leak.

A preset allows what is rated below one level (docs/rating.md): `release` below "moderate", `research` below
"high", `internal` below "severe". It limits the AUC, the advantage and the TPR at 1% FPR, which every audit
has. It does not limit the share of exposed records, because that takes a population and grows with the number
of models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from leakscope.evaluate.gate import Gate, Preset, TprLimit
from leakscope.evaluate.levels import advantage_of, as_limit, auc_of, tpr_of
from leakscope.evaluate.rating_results import Level

BELOW: Mapping[Preset, Level] = {"release": "moderate", "research": "high", "internal": "severe"}
"""A model that passes a preset is rated below this level, by its AUC, its advantage and its TPR at 1% FPR."""
PRESET_FPR = 0.01
"""The lowest FPR that 500 non-members resolve; audits with fewer records than that are common."""


def with_preset(gate: Gate) -> Gate:
    """The gate with the limits of its preset, less those on a figure that it limits itself."""
    if gate.preset is None:
        return gate
    level = BELOW[gate.preset]
    of_preset = TprLimit(PRESET_FPR, as_limit(tpr_of(level, PRESET_FPR)))
    is_given = any(limit.fpr == PRESET_FPR for limit in gate.max_tpr)
    return replace(
        gate,
        max_auc=as_limit(auc_of(level)) if gate.max_auc is None else gate.max_auc,
        max_advantage=(as_limit(advantage_of(level)) if gate.max_advantage is None else gate.max_advantage),
        max_tpr=gate.max_tpr if is_given else (*gate.max_tpr, of_preset),
    )


def is_of_preset(gate: Gate, limit: float | TprLimit) -> bool:
    """True for a limit that the gate's preset sets."""
    if gate.preset is None:
        return False
    preset = with_preset(Gate(preset=gate.preset))
    return limit in (preset.max_auc, preset.max_advantage, *preset.max_tpr)
