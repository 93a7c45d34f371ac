"""Where nothing leaks, every attack has a mean AUC of 0.5: the cheapest part of benchmarks/null_aucs.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SLOW = ("shokri", "quantile", "eb_lira", "eb_lira(online=false)")


@pytest.fixture(scope="module", autouse=True)
def benchmarks_can_be_imported() -> Iterator[None]:
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.slow
@pytest.mark.parametrize("design", ["balanced", "pairs"])
@pytest.mark.parametrize("noise", ["Gaussian", "heavy-tailed"])
def test_every_fast_attack_has_a_mean_auc_of_one_half(noise: str, design: str) -> None:
    import null_aucs

    asked = [attack for attack in null_aucs.attacks() if attack.label not in SLOW]
    assert len(asked) >= 12
    found = null_aucs.measured(null_aucs.Cell(noise, design, 8), asked, wanted=0.001, most=150)
    for label, one in found.items():
        assert abs(one.mean - 0.5) < 4 * one.error, label


def test_chance_that_is_shared_with_loss_is_taken_out() -> None:
    """AUCs that are half the chance of loss plus a little of their own, around 0.51."""
    import null_aucs

    rng = np.random.default_rng(0)
    of_loss, own = 0.5 + 0.02 * rng.normal(size=400), 0.001 * rng.normal(size=400)
    found = null_aucs.summary((0.51 + (of_loss - 0.5) / 2 + own).tolist(), of_loss.tolist())
    assert found.error == pytest.approx(0.001 / 20, rel=0.1)
    assert abs(found.mean - 0.51) < 4 * found.error


@pytest.mark.slow
def test_an_attack_that_knows_how_many_others_were_trained_is_found_out() -> None:
    """The number of other models trained with a record reveals the membership in a balanced design."""
    import null_aucs
    from leakscope.attacks import Lira

    (found,) = null_aucs.measured(
        null_aucs.Cell("Gaussian", "balanced", 8), [Lira(leave_out="one")], wanted=0.001, most=60
    ).values()
    assert abs(found.mean - 0.5) > 4 * found.error
