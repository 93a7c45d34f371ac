"""Training losses: gradients written by hand against autograd, and what each loss is there for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.train.losses import PLAIN, Objective
from leakscope.train.mixup import drawn_mixes, mixed
from leakscope.train.plan import BatchPlan
from tests.train.problems import unequal_design

MODELS, CLASSES, ROWS = 5, 4, 6
ON, OFF = torch.ones(()), torch.zeros(())
OBJECTIVES = {
    "plain": PLAIN,
    "smooth": Objective(label_smoothing=0.3),
    "labels of high entropy": Objective(label_entropy=0.8),
    "outputs of high entropy": Objective(entropy_weight=0.5),
    "both": Objective(label_entropy=0.5, entropy_weight=2.0),
    "relaxed by ascent": Objective(relax_loss=1.5, flattens=OFF),
    "relaxed by flat labels": Objective(relax_loss=1.5, flattens=ON),
}


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs (models, classes, rows) of several confidences, labels, and weights that sum to 1."""
    rng = torch.Generator().manual_seed(seed)
    z = torch.randn(MODELS, CLASSES, ROWS, generator=rng, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (MODELS, ROWS), generator=rng)
    confidence = torch.tensor([0.0, 1.0, 3.0, 6.0, 30.0], dtype=torch.float64)[:, None]
    z.scatter_add_(1, y[:, None, :4], confidence[:, None].expand(-1, 1, 4))  # two rows stay wrong or unsure
    weight = torch.rand(MODELS, ROWS, generator=rng, dtype=torch.float64)
    weight[:, -1] = 0
    return z, y, weight / weight.sum(1, keepdim=True)


def autograd_s(objective: Objective, z: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    z = z.clone().requires_grad_()
    losses = [objective.loss(z[m].T, y[m], weight[m]) for m in range(MODELS)]
    (gradient,) = torch.autograd.grad(sum(losses), z)
    return gradient


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_is_that_of_the_loss(name: str) -> None:
    z, y, weight = batch()
    wanted = autograd_s(OBJECTIVES[name], z, y, weight)
    torch.testing.assert_close(OBJECTIVES[name].output_gradient_(z.clone(), y, weight), wanted)


@pytest.mark.parametrize("name", ["plain", "smooth", "labels of high entropy", "both"])
def test_the_gradient_with_probabilities_for_labels(name: str) -> None:
    z, _, weight = batch()
    y = torch.rand(MODELS, ROWS, CLASSES, dtype=torch.float64).softmax(-1)
    wanted = autograd_s(OBJECTIVES[name], z, y, weight)
    torch.testing.assert_close(OBJECTIVES[name].output_gradient_(z.clone(), y, weight), wanted)


def test_certain_probabilities_are_class_indices() -> None:
    z, y, weight = batch()
    certain = torch.nn.functional.one_hot(y, CLASSES).double()
    for objective in (PLAIN, Objective(0.3), Objective(label_entropy=0.5, entropy_weight=1.0)):
        one, other = (objective.output_gradient_(z.clone(), labels, weight) for labels in (y, certain))
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_labels_have_the_entropy_asked_for(share: float, n_classes: int) -> None:
    """The loss of outputs that equal the labels is the entropy of the labels: find it by descent."""
    outputs = torch.zeros(1, n_classes, dtype=torch.float64)
    y, objective = torch.tensor([0]), Objective(label_entropy=share)
    labels = (
        outputs.softmax(-1)
        - objective.output_gradient_(outputs[..., None].clone(), y[:, None], torch.ones(1, 1))[..., 0]
    )
    entropy = -(labels * labels.log()).sum() / np.log(n_classes)
    assert entropy.item() == pytest.approx(share, abs=1e-9)
    assert labels.argmax() == 0


class TestRelaxLoss:
    """Chen et al. 2022."""

    def test_a_batch_above_the_target_descends_as_usual(self) -> None:
        z, y, weight = batch()
        plain, relaxed = PLAIN, Objective(relax_loss=1e-9, flattens=ON)
        torch.testing.assert_close(
            relaxed.output_gradient_(z.clone(), y, weight), plain.output_gradient_(z.clone(), y, weight)
        )

    def test_a_batch_below_it_ascends_in_even_epochs(self) -> None:
        z, y, weight = batch()
        relaxed = Objective(relax_loss=1e9, flattens=OFF)
        torch.testing.assert_close(
            relaxed.output_gradient_(z.clone(), y, weight), -PLAIN.output_gradient_(z.clone(), y, weight)
        )

    def test_odd_epochs_move_misclassified_rows_towards_flat_labels(self) -> None:
        """The own logit falls and all others rise by the same amount; other rows ascend."""
        z, y, weight = batch()
        gradient = Objective(relax_loss=1e9, flattens=ON).output_gradient_(z.clone(), y, weight)
        is_wrong = z.argmax(1) != y
        assert is_wrong.any() and not is_wrong.all()
        for m, row in zip(*np.nonzero((is_wrong & (weight > 0)).numpy()), strict=True):
            slope = gradient[m, :, row]
            others = torch.cat([slope[: y[m, row]], slope[y[m, row] + 1 :]])
            assert slope[y[m, row]] > 0 and (others < 0).all()
            torch.testing.assert_close(others, others[:1].expand_as(others))
        ascent = -PLAIN.output_gradient_(z.clone(), y, weight)
        right = ~is_wrong[:, None].expand_as(gradient)
        torch.testing.assert_close(gradient[right], ascent[right])

    def test_each_model_has_its_own_side_of_the_target(self) -> None:
        z, y, weight = batch()
        gradient = Objective(relax_loss=1.0, flattens=OFF).output_gradient_(z.clone(), y, weight)
        plain = PLAIN.output_gradient_(z.clone(), y, weight)
        signs = [1 if torch.allclose(gradient[m], plain[m]) else -1 for m in range(MODELS)]
        losses = [PLAIN.loss(z[m].T, y[m], weight[m]).item() for m in range(MODELS)]
        assert signs == [1 if loss >= 1 else -1 for loss in losses] and len(set(signs)) == 2

    def test_epochs_take_turns(self) -> None:
        objective = Objective.of(Recipe(relax_loss=0.5))
        assert objective.flattens is not None
        turns = []
        for epoch in range(4):
            objective.begin_epoch(epoch)
            turns.append(objective.flattens.item())
        assert turns == [0, 1, 0, 1]


class TestMixup:
    """Zhang et al. 2018."""

    def plan(self, batch_size: int = 8) -> BatchPlan:
        return BatchPlan(unequal_design((21, 8, 3), 40), np.arange(3), batch_size, seed=2)

    def test_partners_are_permutations_of_the_real_rows(self) -> None:
        plan = self.plan()
        mix = next(drawn_mixes(0.5, plan))
        assert mix.partner.shape == (plan.steps, 3, plan.batch)
        for step in range(plan.steps):
            for model in range(3):
                partner, is_real = mix.partner[step, model].numpy(), plan.row_weight[step, model] > 0
                assert sorted(partner[is_real]) == np.flatnonzero(is_real).tolist()
                assert (partner[~is_real] == np.flatnonzero(~is_real)).all()

    @pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
    def test_shares_follow_the_beta_distribution(self, alpha: float) -> None:
        draws = drawn_mixes(alpha, self.plan(1))
        shares = torch.cat([next(draws).share.reshape(-1) for _ in range(200)]).double()
        spread = 1 / (4 * (2 * alpha + 1))  # variance of Beta(alpha, alpha)
        error = np.sqrt(spread / len(shares))
        assert abs(shares.mean() - 0.5) < 4 * error
        assert shares.var().item() == pytest.approx(spread, rel=0.1)
        assert ((shares >= 0) & (shares <= 1)).all()

    def test_epochs_that_were_skipped_change_nothing(self) -> None:
        draws = drawn_mixes(0.3, self.plan())
        epochs = [next(draws) for _ in range(4)]
        resumed = next(drawn_mixes(0.3, self.plan(), first=3))
        assert all(torch.equal(*pair) for pair in zip(epochs[3], resumed, strict=True))
        assert not torch.equal(epochs[0].partner, epochs[1].partner)

    def test_a_model_draws_the_same_in_any_block(self) -> None:
        design = unequal_design((21, 8, 3), 40)
        alone = next(drawn_mixes(0.3, BatchPlan(design, np.array([1]), 8, seed=2)))
        together = next(drawn_mixes(0.3, self.plan()))
        assert torch.equal(alone.share[:, 0], together.share[:, 1])
        assert torch.equal(alone.partner[:, 0], together.partner[:, 1])

    def test_values_are_mixed_by_the_share(self) -> None:
        values = torch.arange(6.0).view(1, 3, 2)
        found = mixed(values, torch.tensor([0.75]), torch.tensor([[2, 1, 0]]))
        assert found.tolist() == [[[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"label_entropy": 1.0}, r"label_entropy=1.0: must be in \[0, 1\)"),
        ({"mixup": -0.1}, "mixup=-0.1: must be 0 or more"),
        ({"relax_loss": float("nan")}, "relax_loss=nan: must be 0 or more"),
        ({"entropy_weight": float("inf")}, "entropy_weight=inf: must be 0 or more"),
        ({"label_entropy": 0.5, "label_smoothing": 0.1}, "label_entropy and label_smoothing exclude"),
        ({"relax_loss": 0.5, "mixup": 0.2}, "relax_loss and mixup exclude each other"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        replace(Recipe(), **wrong)  # type: ignore[arg-type]
