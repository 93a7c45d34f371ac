"""Presets of the gate: the levels of the rating, under limits that were given."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from leakscope.bank.run_folder import to_jsonable
from leakscope.evaluate.gate import Gate, Preset, TprLimit
from leakscope.evaluate.levels import LEVELS, advantage_of, auc_of, tpr_of
from leakscope.evaluate.limits import judge_gate
from leakscope.evaluate.presets import BELOW, with_preset
from leakscope.evaluate.results import Figure, TprAtFpr
from tests.evaluate.test_gate import figures

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rating.md"
PRESETS: tuple[Preset, ...] = ("release", "research", "internal")


def sentences(gate: Gate, auc: float, advantage: float, tpr: float) -> list[str]:
    """The sentences about an attack with these figures, each known to ± 0.0001."""
    point = TprAtFpr(tpr, tpr - 1e-4, tpr, None, fpr=0.01, precision=(), high_99=tpr + 1e-4, reason=None)
    made_up = figures(auc, 1e-4, None, None)
    known = {"auc": auc, "advantage": advantage}
    given = {name: Figure(at, at - 1e-4, at, sd=None, high_99=at + 1e-4) for name, at in known.items()}
    attack = replace(made_up, **given, tpr_at_fpr=(point,))
    return [limit.sentence for limit in judge_gate(with_preset(gate), {"lira": attack}, None).limits]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_passes_below_its_level_and_fails_above(preset: Preset) -> None:
    level, gate = BELOW[preset], Gate(preset=preset)
    at = np.array([auc_of(level), advantage_of(level), tpr_of(level, 0.01)])
    below, above = sentences(gate, *(at - 1e-3)), sentences(gate, *(at + 1e-3))
    assert [text.split(":")[0] for text in below] == ["Gate passed"] * 3
    assert [text.split(":")[0] for text in above] == ["Gate failed"] * 3
    assert all(f"that of {preset!r}" in text for text in below + above)


def test_presets_grow_looser_in_the_order_of_the_rating() -> None:
    gates = [with_preset(Gate(preset=preset)) for preset in PRESETS]
    assert [gate.max_auc for gate in gates] == sorted(gate.max_auc or 0 for gate in gates)
    assert [LEVELS.index(BELOW[preset]) for preset in PRESETS] == [2, 3, 4]


def test_a_given_limit_replaces_that_of_the_preset_on_the_same_figure_only() -> None:
    own = with_preset(Gate(preset="release", max_auc=0.55))
    assert own.max_auc == 0.55
    assert own.max_tpr == with_preset(Gate(preset="release")).max_tpr
    lower = with_preset(Gate(preset="release", max_tpr=(TprLimit(0.001, 0.002),), max_exposed_share=0.0))
    assert [limit.fpr for limit in lower.max_tpr] == [0.001, 0.01]
    assert lower.max_exposed_share == 0.0
    assert with_preset(Gate(preset="release", max_tpr=(TprLimit(0.01, 0.5),))).max_tpr == (
        TprLimit(0.01, 0.5),
    )


def test_a_sentence_names_the_preset_only_where_the_limit_is_its_own() -> None:
    auc, _, tpr = sentences(Gate(preset="release", max_auc=0.55), 0.6, 0.1, 0.02)
    assert auc.endswith("the limit is 0.55.")
    assert tpr.endswith("the limit is 3.4%, that of 'release'.")


def test_a_preset_in_place_changes_nothing_when_it_is_read_again() -> None:
    gate = with_preset(Gate(preset="research", max_exposed_share=0.01))
    stored = TypeAdapter(Gate).validate_json(json.dumps(to_jsonable(gate)), strict=True)
    assert with_preset(stored) == gate


def test_the_page_has_the_limits() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+)% \|", PAGE.read_text(), flags=re.MULTILINE
    )
    assert [row[0] for row in rows] == list(PRESETS)
    for preset, level, auc, advantage, tpr in rows:
        gate = with_preset(Gate(preset=preset))
        assert BELOW[preset] == level
        assert (gate.max_auc, gate.max_advantage) == (float(auc), float(advantage))
        assert gate.max_tpr[0].tpr == pytest.approx(float(tpr) / 100)
