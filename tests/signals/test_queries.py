"""Queries about changed records: the same for every model, block and kind of model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from leakscope.array_types import AnyArray
from leakscope.audits.given import GivenTarget
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.bank.bank import Bank
from leakscope.data.predictions import Predictions
from leakscope.errors import InputError
from leakscope.models.given import FittedEstimator
from leakscope.recipe import EstimatorRecipe, FunctionRecipe
from leakscope.signals.asked import label_queries, log_odds_queries
from leakscope.signals.queries import changed, label_robustness_of, spread_of
from leakscope.train import loop
from leakscope.types import Records
from tests.engine.small_population import RECIPE, complete, noise, records, regression_records, use_blocks_of

NAME = "label_robustness"


@pytest.mark.parametrize("shape", [(7,), (2, 6, 5)])
def test_a_record_is_changed_alike_in_any_block(shape: tuple[int, ...]) -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(30, *shape)).astype(np.float32))
    spread = spread_of(x)
    queries = (*label_queries(shape), *log_odds_queries(shape, 18, mirrors=True))
    whole, part = (list(changed(own, spread, queries, first)) for own, first in ((x, 0), (x[11:20], 11)))
    for asked, again in zip(whole, part, strict=True):
        assert asked.shape == x.shape and torch.equal(asked[11:20], again)
    assert torch.equal(whole[0], x)


def test_images_are_moved_and_mirrored_as_the_queries_say() -> None:
    image = torch.arange(20.0).reshape(1, 1, 4, 5)
    queries = (*label_queries((1, 4, 5)), *log_odds_queries((1, 4, 5), 18, mirrors=True))
    for how, (seen,) in zip(queries, changed(image, spread_of(image), queries, 0), strict=True):
        if how.noise:
            continue
        given = image[0, 0].flip(-1) if how.mirrored else image[0, 0]
        for row in range(4):
            for column in range(5):
                from_row, from_column = np.clip(row - how.down, 0, 3), np.clip(column - how.right, 0, 4)
                assert seen[0, row, column] == given[from_row, from_column]


def test_noise_has_the_scale_of_its_feature_and_differs_between_queries() -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(4000, 3)).astype(np.float32))
    x = x * torch.tensor([1.0, 10.0, 0.1])
    spread, queries = spread_of(x), label_queries((3,))
    first, second = (asked - x for asked in list(changed(x, spread, queries, 0))[1:3])
    assert queries[1].noise == queries[2].noise == 0.1
    # Standard deviations of 4,000 normal numbers are within 6% of their expectation by 5 standard errors.
    assert torch.allclose(first.std(dim=0) / (0.1 * spread[0]), torch.ones(3), atol=0.06)
    assert abs(float(np.corrcoef(first[:, 0], second[:, 0])[0, 1])) < 5 / np.sqrt(4000)


def test_the_share_is_that_of_the_queries_which_get_the_label() -> None:
    features = np.array([[0.02], [3.0], [-0.02], [-3.0]], np.float32)
    labels = np.array([1, 1, 1, 0])

    def by_sign(x: AnyArray) -> AnyArray:
        return np.stack([-x[:, 0], x[:, 0]], axis=1)

    near, far, wrong, other = label_robustness_of(by_sign, features, labels).tolist()
    assert far > near > 0.2 and other > 0.75 and 0 < wrong < 0.75
    shares = np.array([near, far, wrong, other]) * len(label_queries((1,)))
    assert np.allclose(shares, shares.round(), atol=1e-4)


def test_uint8_images_are_asked_about_as_uint8() -> None:
    kinds = set()

    def predict(x: AnyArray) -> AnyArray:
        kinds.add(str(x.dtype))
        return np.zeros((len(x), 2))

    label_robustness_of(predict, np.full((3, 1, 4, 4), 255, np.uint8), np.zeros(3, np.int64))
    assert kinds == {"uint8"}


def test_networks_give_the_share_that_their_predictions_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block or many; the reference asks each network record by record, query by query."""
    whole = complete(tmp_path / "whole", signals=(NAME, "correct"))
    use_blocks_of(monkeypatch, 3)
    parts = complete(tmp_path / "parts", signals=(NAME, "correct"))
    share = whole.signals().arrays[NAME]
    assert np.array_equal(share, parts.signals().arrays[NAME]) and share.dtype == np.float32
    assert ((share >= 0) & (share <= 1)).all() and len(np.unique(share)) > 5
    given = records()
    nets: list[Any] = []
    train = loop.train

    def remembered(stack: Any, *rest: Any) -> Any:
        nets.append(stack)
        yield from train(stack, *rest)

    monkeypatch.setattr(loop, "train", remembered)
    complete(tmp_path / "again", signals=(NAME,))

    def predict(x: AnyArray) -> AnyArray:
        batch = torch.from_numpy(x).expand(3, *x.shape)
        outputs: AnyArray = nets[0].outputs(batch)[1].detach().numpy()
        return outputs

    assert np.array_equal(label_robustness_of(predict, given.features, given.labels), share[1, -1])


@pytest.mark.parametrize("kind", ["estimator", "function"])
def test_estimators_and_functions_are_asked_the_same(tmp_path: Path, kind: str) -> None:
    given = records()

    def train(some: Records, members: AnyArray, seed: int) -> Any:
        return (
            DecisionTreeClassifier(random_state=0)
            .fit(some.features[members], some.labels[members])
            .predict_proba
        )

    recipe = FunctionRecipe(train) if kind == "function" else EstimatorRecipe(DecisionTreeClassifier())
    bank: Bank = complete(tmp_path, recipe, signals=(NAME, "log_odds"))
    share, mask = bank.signals().arrays[NAME][:, 0], bank.design().in_mask
    assert share.shape == mask.shape and share[mask].mean() > share[~mask].mean()
    if kind == "function":
        predict = train(given, np.flatnonzero(mask[2]), 0)
        assert np.array_equal(share[2], label_robustness_of(predict, given.features, given.labels))


@pytest.mark.slow
def test_label_only_attacks_see_what_hidden_confidences_hide(tmp_path: Path) -> None:
    """Models that give labels alone: the share of changed records tells more than one prediction."""
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    attacks = ["correctness", "label_only", "label_only_lira"]
    verdict = audit(noise(), recipe, tmp_path, models=16, attacks=attacks, fpr=[0.1])
    aucs = {name: figures.auc.value or 0 for name, figures in verdict.results.attacks.items()}
    assert aucs["label_only"] > aucs["correctness"] + 0.02
    assert aucs["label_only_lira"] > 0.8


def test_a_given_model_is_queried_again_and_saved_outputs_are_not(tmp_path: Path) -> None:
    given, is_member = noise(), np.arange(120) % 2 == 0
    fitted = KNeighborsClassifier(1).fit(given.features[is_member], given.labels[is_member])
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    target = GivenTarget(given, FittedEstimator(fitted), is_member, recipe)
    verdict = audit(target, out=tmp_path / "run", models=8, attacks=["label_only"], fpr=[0.1])
    share = Bank.open(tmp_path / "run").signals().arrays[NAME][0, 0]
    assert np.array_equal(share, label_robustness_of(fitted.predict_proba, given.features, given.labels))
    assert verdict.results.attacks["label_only"].auc.low > 0.6
    saved = Predictions(np.zeros((120, 2), np.float32), given.labels, given.ids, is_member)
    with pytest.raises(InputError, match="queries the model again"):
        audit(SavedPredictions(saved), out=tmp_path / "saved", attacks=["label_only"])
    assert not (tmp_path / "saved").exists()


def test_a_regression_has_no_labels_to_hold_on_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not for regression models"):
        audit(regression_records(), RECIPE, tmp_path, models=8, attacks=["label_only"])
    assert not list(tmp_path.iterdir())
