"""Advice on made-up populations: defences that do nothing are not recommended, one that works is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leakscope.advice.judge import _measured, bank_folder, results_of
from leakscope.advice.results import AdviceConfig, AdviceResults
from leakscope.advice.sentences import summary
from tests.made_up_audits import made_up_bank, quick_single_records

ATTACKS = ("loss", "lira")
USELESS = ("weight_decay", "dropout", "mixup", "label_smoothing")


def advised(
    folder: Path, gaps: dict[str | None, float], seed: int, attacks: tuple[str, ...] = ATTACKS
) -> AdviceResults:
    """Advice on populations with these gaps between members and others; None: without a defence."""
    defences = tuple(name for name in gaps if name is not None)
    config = AdviceConfig(
        toml=None, records="made up", records_sha256="ab" * 32, recipe={}, minutes=1.0, accepted_loss=0.02,
        utility="accuracy", unit=None,
        seed=0, design="balanced", models=16, attacks=attacks, fpr=0.1, defences=defences,
        settings=dict.fromkeys(defences, ""), not_applicable={},
    )  # fmt: skip
    for at, (name, gap) in enumerate(gaps.items()):
        made_up_bank(bank_folder(folder, config, name), gap, design_seed=seed, noise_seed=100 * seed + at)
    with quick_single_records():
        return results_of(folder, config)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 0.6])
def test_nothing_is_recommended_where_no_defence_does_anything(tmp_path: Path, gap: float) -> None:
    """Neither where nothing leaks nor where every population leaks alike.

    All intervals together hold with 95%, so one side of them is missed with 2.5%: of 8 advices, two or more
    have a chance of 1.6%.
    """
    found = [
        advised(tmp_path / str(seed), {None: gap, **dict.fromkeys(USELESS, gap)}, seed) for seed in range(8)
    ]
    assert sum(results.recommended is not None for results in found) <= 1
    nothing = next(results for results in found if results.recommended is None)
    assert summary(nothing)[0].startswith("No defence that was tried leaks less, beyond chance.")


def test_the_one_defence_that_works_is_recommended(tmp_path: Path) -> None:
    results = advised(tmp_path, {None: 1.5, "mixup": 1.5, "dp_sgd": 0.2}, 0)
    assert results.recommended == "dp_sgd"
    effects = {one.defence: one.effect for one in results.tried}
    assert effects == {"dp_sgd": "leaks less", "mixup": "no difference detected"}


def test_models_that_diverged_with_another_defence_stay_known_to_attacks(tmp_path: Path) -> None:
    """Left out because they diverged elsewhere or because they diverged here: partners are the same."""
    config = advised(tmp_path / "config", {None: 0.5}, 0, ("lira",)).config
    alike, part = (made_up_bank(tmp_path / str(at), 0.5, diverged=ids) for at, ids in enumerate([(), (3, 6)]))
    with quick_single_records():
        first, second = (_measured(bank, config, {3, 6}).figures.replicates for bank in (alike, part))
    np.testing.assert_allclose(first, second)


def test_models_are_left_out_of_scores_in_the_direction_of_the_figures(tmp_path: Path) -> None:
    """Members have the higher losses in both populations, which leak alike."""
    (one,) = advised(tmp_path, {None: -1.0, "mixup": -1.0}, 0, ("loss",)).tried
    assert one.auc.baseline is not None and one.auc.baseline > 0.6 and one.effect == "no difference detected"
    assert one.tpr is not None and one.tpr.low is not None and one.tpr.high is not None
    assert one.tpr.low < 0 < one.tpr.high  # the TPR of scores that are not turned around hardly varies
