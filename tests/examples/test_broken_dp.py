"""Every broken program is refuted; every control, and every program without its mistake, is not."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from leakscope.dp.verdict import ClaimVerdict

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "broken_dp"
SHARED = ("auditing", "dp_sgd")
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem not in SHARED)
NEED_OPACUS = ("smaller_sampling_rate", "fitted_preprocessing")
QUICK = ("correct", "unclipped_layer", "batch_norm")


@pytest.fixture(autouse=True)
def folder_of_the_program_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when Python runs the program."""
    monkeypatch.syspath_prepend(str(PROGRAMS))


def skip_without_what_it_needs(name: str) -> None:
    if name in NEED_OPACUS:
        pytest.importorskip("opacus", reason="opacus is not installed")


def program(name: str) -> Any:
    skip_without_what_it_needs(name)
    return importlib.import_module(name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES]
)
def test_a_program_prints_the_verdict(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_what_it_needs(name)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--seed", "1000"])
    runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    verdict = capsys.readouterr().out.splitlines()[0]
    assert ("are consistent with the claim" if name == "correct" else "is refuted with 95%") in verdict, (
        verdict
    )


def refuted(name: str, seeds: int = 3) -> list[ClaimVerdict]:
    verdicts = [program(name).audit(2000 + seed) for seed in range(seeds)]
    assert all(verdict.status != "not testable" for verdict in verdicts)
    return [verdict for verdict in verdicts if verdict.status == "refuted"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "constant", "harmless"),
    [
        ("noise_once_per_epoch", "STEPS_PER_EPOCH", 1),
        ("noise_divided_by_parts", "PARTS", 1),
        ("smaller_sampling_rate", "PARTS_PER_BATCH", 1),
    ],
)
def test_a_program_without_its_mistake_is_not_refuted(
    name: str, constant: str, harmless: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program(name), constant, harmless)
    assert refuted(name) == []


@pytest.mark.slow
def test_unscaled_noise_is_harmless_at_a_clipping_norm_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    dp_sgd = program("dp_sgd")
    monkeypatch.setattr(program("noise_without_clip"), "SETTINGS", dp_sgd.Settings(clip=1.0))
    assert refuted("noise_without_clip") == []


@pytest.mark.slow
def test_marked_records_do_not_refute_correct_training() -> None:
    """The first layer's weights are what a private training releases about a marked record's feature."""
    auditing, dp_sgd = program("auditing"), program("dp_sgd")
    settings = dp_sgd.Settings()

    def train(x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
        net = dp_sgd.make_net(x.shape[1])
        start = net[0].weight.detach().clone()
        optimizer = torch.optim.SGD(net.parameters(), lr=settings.lr)
        for _ in range(settings.steps):
            batch = dp_sgd.poisson_batch(len(x), settings.sampling_rate)
            gradients = dp_sgd.gradients_per_record(net, x[batch], y[batch])
            sums = dp_sgd.clipped_sums(gradients, settings.clip)
            sums = dp_sgd.with_noise(sums, settings.noise_multiplier * settings.clip)
            dp_sgd.descend(optimizer, sums, settings.sampling_rate * len(x))
        return (net[0].weight.detach() - start).norm(dim=0).double().numpy()

    verdicts = [auditing.audit_with_marked_records(train, settings.claim(), seed) for seed in range(3)]
    assert [verdict.status for verdict in verdicts] == ["consistent"] * 3


def test_poisson_batches_are_not_refuted_by_many_trainings() -> None:
    """The crafted record of `shuffling_as_poisson`, with the batches that the accountant assumes."""
    shuffling, auditing = program("shuffling_as_poisson"), program("auditing")
    settings, n = shuffling.SETTINGS, shuffling.N_TRAININGS
    rng = np.random.default_rng(7)
    is_in = rng.random(n) < 0.5
    shape = n, settings.steps
    sums = rng.binomial(shuffling.N_RECORDS - 1, settings.sampling_rate, shape).astype(np.float64)
    sums -= is_in[:, None] & (rng.random(shape) < settings.sampling_rate)
    sums += settings.noise_multiplier * rng.normal(size=shape)
    verdict = auditing.audit_trainings(shuffling.scores_of(torch.from_numpy(sums)), is_in, settings.claim())
    assert verdict.status == "consistent"


def test_shuffled_sums_are_what_the_docstring_says() -> None:
    """Without noise: one sum moves by 2 with the canary in, by 1 with it out, and no other sum moves."""
    shuffling = program("shuffling_as_poisson")
    noise = shuffling.SETTINGS.noise_multiplier
    torch.manual_seed(0)
    for has_canary, moved in ((True, 2.0), (False, 1.0)):
        sums = shuffling.train(200, has_canary)
        assert sums.shape == (200, shuffling.SETTINGS.steps)
        pull = (shuffling.BATCH_SIZE - sums).sum(dim=1).double()  # noise of all steps, and the move
        error = noise * np.sqrt(shuffling.SETTINGS.steps / 200)
        assert pull.mean().item() == pytest.approx(moved, abs=4 * error)


def test_the_epsilon_of_shuffling_is_at_least_what_the_docstring_says() -> None:
    """The event "a sum is below a threshold" has delta(7.9) above 1e-5, by union bounds on both sides."""
    settings = program("shuffling_as_poisson").SETTINGS
    assert settings.claim().claimed_epsilon() == pytest.approx(2.0, abs=0.05)
    moves = np.linspace(1, 8, 701)
    with_canary = stats.norm.sf((moves - 2) / settings.noise_multiplier)  # its own batch alone
    without = stats.norm.sf((moves - 1) / settings.noise_multiplier)
    without = without + settings.steps * stats.norm.sf(moves / settings.noise_multiplier)
    assert (with_canary - np.exp(7.9) * without).max() > 1e-5


def test_the_true_epsilons_in_the_docstrings() -> None:
    dp_sgd = program("dp_sgd")
    for noise_multiplier, name, epsilon in (
        (3.0, "correct", "2.3"),
        (0.3, "noise_without_clip", "118"),
        (0.6, "noise_divided_by_parts", "28.6"),
    ):
        exact = dp_sgd.Settings(noise_multiplier=noise_multiplier).claim().claimed_epsilon()
        assert f"{exact:.3g}".startswith(epsilon)
        assert epsilon in str(program(name).__doc__)


@pytest.mark.parametrize("page", [PROGRAMS / "README.md", ROOT / "docs" / "dp_claims.md"])
def test_the_table_has_every_program(page: Path) -> None:
    table = page.read_text().split("<!-- measured: broken_dp -->")[1].split("<!-- end -->")[0]
    assert sorted(line.split("`")[1] for line in table.splitlines() if "`" in line) == [
        f"{name}.py" for name in NAMES
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "correct"])
def test_a_program_marks_its_mistake(name: str) -> None:
    text = (PROGRAMS / f"{name}.py").read_text()
    assert text.startswith('"""Wrong: ')
    assert "\nWhy it breaks the claim: " in text
    assert text.count("# Wrong: ") == 1
    assert len(text.splitlines()) <= 90
