"""Flips and crops: one gather against pictures cut by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakscope.design import make_design
from leakscope.engine.local import TrainingRequest, check_request
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.train.augment import Views, drawn_views, gathered, is_augmented, padded
from leakscope.train.side_by_side import SerialModel
from leakscope.train.stacked import VmapStack

from .problems import assert_same_state, class_records, image_records, trained_state

RECIPE = Recipe(net="cnn", net_options=(("channels", 3),), optimizer="sgd", lr=0.05, batch_size=4, epochs=2,
                flips=True, crop=2)  # fmt: skip


def by_hand(image, mirrored, top, left, crop):
    c, h, w = image.shape
    canvas = torch.zeros(c, h + 2 * crop, w + 2 * crop)
    canvas[:, crop : crop + h, crop : crop + w] = image
    cut = canvas[:, top : top + h, left : left + w]
    return cut.flip(2) if mirrored else cut


@pytest.mark.parametrize("crop", [0, 1, 3])
def test_views_are_those_cut_by_hand(crop):
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.normal(size=(6, 2, 5, 7)).astype(np.float32))
    index = torch.from_numpy(rng.integers(0, 6, (3, 4)))
    places = [torch.from_numpy(rng.integers(0, high, (3, 4))) for high in (2, 2 * crop + 1, 2 * crop + 1)]
    found = gathered(padded(images, crop), index, Views(*places), crop)
    assert found.shape == (3, 4, 2, 5, 7)
    for a in range(3):
        for b in range(4):
            wanted = by_hand(images[index[a, b]], *(int(p[a, b]) for p in places), crop)
            assert torch.equal(found[a, b], wanted)


def test_what_a_model_draws_does_not_depend_on_the_models_beside_it():
    together = next(drawn_views(RECIPE, np.array([3, 5]), 7, (4, 2, 6)))
    alone = next(drawn_views(RECIPE, np.array([5]), 7, (4, 1, 6)))
    assert all(torch.equal(t[:, 1], a[:, 0]) for t, a in zip(together, alone, strict=True))
    assert not all(torch.equal(t[:, 0], t[:, 1]) for t in together)


def test_draws_are_uniform_and_change_from_epoch_to_epoch():
    drawn = drawn_views(RECIPE, np.arange(2), 0, (20, 2, 50))
    first, second = next(drawn), next(drawn)
    assert not torch.equal(first.top, second.top)
    assert abs(float(first.mirrored.double().mean()) - 0.5) < 0.05
    for place in (first.top, first.left):
        counts = torch.bincount(place.flatten(), minlength=5)
        assert len(counts) == 5  # 0 to 2 * crop
        assert (abs(counts / 2000 - 0.2) < 0.05).all()


def test_without_flips_nothing_is_mirrored_and_without_either_nothing_is_augmented():
    recipe = Recipe(net="cnn", crop=1)
    assert not next(drawn_views(recipe, np.arange(2), 0, (2, 2, 8))).mirrored.any()
    assert is_augmented(recipe)
    assert is_augmented(Recipe(net="cnn", flips=True))
    assert not is_augmented(Recipe(net="cnn"))


def test_stacked_and_serial_train_on_the_same_views():
    records = image_records()
    design = make_design("balanced", 2, len(records), seed=1)
    stacked = trained_state(VmapStack, records, design, RECIPE)
    serial = trained_state(SerialModel, records, design, RECIPE, alone=True)
    assert_same_state(stacked, serial, rtol=1e-4, atol=1e-5)
    plain = trained_state(VmapStack, records, design, replace(RECIPE, flips=False, crop=0))
    assert any((plain[name] - stacked[name]).abs().max() > 1e-3 for name in plain)


def test_records_that_are_no_images_are_refused():
    records = class_records()
    design = make_design("balanced", 2, len(records), seed=0)
    with pytest.raises(InputError, match="flips and crop are for images"):
        check_request(TrainingRequest(records, design, Recipe(net="mlp", crop=2), 0, (), "cpu"))
