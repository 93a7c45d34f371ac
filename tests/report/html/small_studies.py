"""The other studies, run so small that a page of each costs a second or two."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.single_model.ensemble.attackers import ForestAttacker, MlpAttacker
from leakscope.studies.ensemble import study as ensemble
from leakscope.studies.ensemble.config import EnsembleConfig
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.leakage import study as leakage
from leakscope.studies.leakage.results import LeakageResults
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import study as scaling
from leakscope.studies.scaling.results import ScalingResults

LEAKAGE = leakage.LeakageConfig(dataset="digits", figures=(1, 3), records=4, trials=40, network_records=2,
                                network_trials=4, extensions=())  # fmt: skip
SCALING = scaling.ScalingConfig(hidden_widths=(4, 6, 9), n_repeats=3, n_shadow=2, n_reference=4, n_samples=60)
ENSEMBLE = EnsembleConfig(
    dataset="digits", n_public=200, n_private=160, width=16, epochs=3, validation_share=0.4
)


def small_leakage(folder: Path) -> LeakageResults:
    """Figures 1 and 3 of four records; without pictures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakscope.report.png.draw_png", lambda charts: b"")
        return leakage.run(LEAKAGE, folder)


def small_scaling(folder: Path) -> ScalingResults:
    """Three widths; with few bootstrap draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling_judge, "_N_DRAWS", 50)
        return scaling.run(SCALING, folder)


def small_ensemble(folder: Path) -> EnsembleResults:
    """Two small attackers on an MLP."""
    attackers = (ForestAttacker(n_trees=5), MlpAttacker(max_iterations=5))
    return ensemble.run(ENSEMBLE, folder, device="cpu", attackers=attackers)
