"""Blocks of models trained and asked: what comes out must not depend on how the work was cut."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.signals.functions import classification_signals
from leakscope.signals.residuals import label_spread
from leakscope.train import loop, queries, steps
from leakscope.train.loop import (
    Follow,
    choose_trainer,
    initial_nets,
    inputs_from,
    train_block,
    with_standard_labels,
)
from leakscope.types import Design, Records

from .problems import (
    CPU,
    EVERY_SIGNAL,
    class_records,
    image_records,
    mlp_recipe,
    plain_outputs,
    real_records,
    unequal_design,
)

GELU = Recipe(net="tests.train.nets:gelu", lr=0.01, batch_size=8, epochs=2)
RECIPES = {
    "dense": mlp_recipe(epochs=2),
    "stacked": GELU,
    "serial": mlp_recipe(epochs=2, trainer="serial"),
}


def answers_of(records, design, recipe, trainer, models=None, seed=3, kept=EVERY_SIGNAL, **more):
    models = np.arange(design.n_models) if models is None else np.asarray(models)
    return train_block(inputs_from(records, CPU), design, recipe, models, seed, kept, trainer, **more)


def assert_same_answers(found, wanted, **tolerance):
    assert set(found) == set(wanted)
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], **tolerance, err_msg=name)


@pytest.mark.parametrize("trainer", RECIPES)
def test_answers_are_a_plain_loop_s(trainer):
    records, recipe = class_records(), RECIPES[trainer]
    design = unequal_design((20, 11, 16), len(records))
    found = answers_of(records, design, recipe, trainer)
    assert found.trainer == trainer
    assert found.diverged_at.tolist() == [0, 0, 0]
    for m in range(3):
        z = plain_outputs(records, design, recipe, m)
        wanted = classification_signals(z, torch.from_numpy(records.labels), EVERY_SIGNAL)
        for name in EVERY_SIGNAL:
            assert found.signals[name].shape[:3] == (3, 1, len(records))
            np.testing.assert_allclose(found.signals[name][m, 0], wanted[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trainer", RECIPES)
def test_answers_do_not_depend_on_the_block(trainer):
    records, recipe = class_records(), RECIPES[trainer]
    design = make_design("bernoulli", 6, len(records), seed=0)
    together = answers_of(records, design, recipe, trainer).signals
    halves = [answers_of(records, design, recipe, trainer, m).signals for m in ([0, 1, 2], [3, 4, 5])]
    joined = {name: np.concatenate([half[name] for half in halves]) for name in together}
    assert_same_answers(joined, together, rtol=1e-5, atol=1e-6)
    shuffled = answers_of(records, design, recipe, trainer, [4, 1]).signals
    assert_same_answers(shuffled, {k: v[[4, 1]] for k, v in together.items()}, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("trainer", RECIPES)
def test_the_seed_alone_decides(trainer):
    records, recipe = class_records(), RECIPES[trainer]
    design = make_design("balanced", 2, len(records), seed=0)
    first = answers_of(records, design, recipe, trainer, seed=1).signals
    torch.manual_seed(99)
    again = answers_of(records, design, recipe, trainer, seed=1).signals
    assert_same_answers(again, first, rtol=0, atol=0)
    other = answers_of(records, design, recipe, trainer, seed=2).signals
    assert np.abs(other["loss"] - first["loss"]).max() > 1e-3


def test_a_module_that_draws_for_itself_is_reproducible_and_leaves_the_global_generator_alone():
    records, recipe = class_records(), Recipe(net="tests.train.nets:drops_by_itself", lr=0.1, epochs=2)
    design = make_design("balanced", 4, len(records), seed=0)
    assert choose_trainer(recipe, inputs_from(records, CPU))[0] == "serial"
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = answers_of(records, design, recipe, "serial").signals
    torch.testing.assert_close(torch.get_rng_state(), before)
    torch.manual_seed(1)
    alone = answers_of(records, design, recipe, "serial", [2]).signals
    assert_same_answers(alone, {name: values[[2]] for name, values in first.items()}, rtol=0, atol=0)


def test_models_start_from_different_networks():
    inputs = inputs_from(class_records(), CPU)
    nets = initial_nets(mlp_recipe(), inputs, np.array([0, 1, 0]), seed=3)
    first, second, again = (net[1].weight for net in nets)
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert (first != second).all()
    other_seed = initial_nets(mlp_recipe(), inputs, np.array([0]), seed=4)[0][1].weight
    assert (first != other_seed).all()


@pytest.mark.parametrize(("evaluated", "gathered"), [(1, 1), (200, 300)])
@pytest.mark.parametrize("with_columns", [False, True])
def test_answers_do_not_depend_on_how_many_rows_are_handled_at_once(
    evaluated, gathered, with_columns, monkeypatch
):
    records, recipe = class_records(), RECIPES["dense"]
    in_mask = make_design("balanced", 4, len(records), seed=0).in_mask
    columns = np.stack([np.random.default_rng(m).permutation(40) for m in range(4)])
    design = Design(in_mask, columns if with_columns else None)
    whole = answers_of(records, design, recipe, "dense").signals
    monkeypatch.setattr(queries, "EVALUATED_AT_ONCE", evaluated)
    monkeypatch.setattr(steps, "GATHERED_AT_ONCE", gathered)
    assert_same_answers(answers_of(records, design, recipe, "dense").signals, whole, rtol=1e-5, atol=1e-6)


def test_regression_answers_do_not_depend_on_how_many_rows_are_asked_at_once(monkeypatch):
    records, recipe = real_records(), mlp_recipe(epochs=2)
    design = make_design("balanced", 2, len(records), seed=0)
    kept = ("scaled_residual", "loss")
    whole = answers_of(records, design, recipe, "dense", kept=kept).signals
    monkeypatch.setattr(queries, "EVALUATED_AT_ONCE", 70)
    assert_same_answers(
        answers_of(records, design, recipe, "dense", kept=kept).signals, whole, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("trainer", RECIPES)
def test_regression_answers_are_residuals_in_spreads_of_the_labels(trainer):
    records, recipe = real_records(), RECIPES[trainer]
    design = unequal_design((20, 9), len(records))
    found = answers_of(records, design, recipe, trainer, kept=("scaled_residual", "loss")).signals
    for m in range(2):
        outputs = plain_outputs(records, design, recipe, m)[:, 0].numpy()
        residual = outputs - records.labels
        np.testing.assert_allclose(found["loss"][m, 0], residual**2, rtol=1e-3, atol=1e-5)
        wanted = np.arcsinh(residual / (3 * label_spread(records.labels)))
        np.testing.assert_allclose(found["scaled_residual"][m, 0], wanted, rtol=1e-3, atol=1e-5)


def test_the_unit_of_the_labels_does_not_change_what_a_network_learns():
    records, recipe = real_records(), mlp_recipe(epochs=3)
    design = make_design("balanced", 2, len(records), seed=0)
    moved = replace(records, labels=1000 * records.labels + 7)
    found, again = (
        train_block(
            with_standard_labels(inputs_from(given, torch.device("cpu"))),
            design, recipe, np.arange(2), 3, ("loss", "scaled_residual"), "dense",
        ).signals
        for given in (records, moved)
    )  # fmt: skip
    np.testing.assert_allclose(again["scaled_residual"], found["scaled_residual"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(again["loss"], 1e6 * found["loss"], rtol=1e-3, atol=1)


@pytest.mark.parametrize("trainer", RECIPES)
def test_models_with_their_own_columns_are_asked_about_those(trainer):
    # Members come in another order, so batches differ; full ones make the two designs comparable.
    records, recipe = class_records(), replace(RECIPES[trainer], batch_size=100)
    columns = np.stack([np.arange(5, 25), np.arange(39, 19, -1)])
    in_mask = np.arange(20) % 2 == np.array([[0], [1]])
    found = answers_of(records, Design(in_mask, columns), recipe, trainer).signals
    everybody = np.zeros((2, 40), dtype=bool)  # the same training sets written over all records
    for m in range(2):
        everybody[m, columns[m, in_mask[m]]] = True
    wanted = answers_of(records, Design(everybody), recipe, trainer).signals
    for name in EVERY_SIGNAL:
        assert found[name].shape[:3] == (2, 1, 20)
        for m in range(2):
            own = wanted[name][m, 0][columns[m]]
            np.testing.assert_allclose(found[name][m, 0], own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trainer", RECIPES)
def test_checkpoints_are_the_answers_of_shorter_runs(trainer):
    records = class_records()
    design = unequal_design((20, 11), len(records))
    recipe = replace(RECIPES[trainer], epochs=4, checkpoints=(1, 3))
    found = answers_of(records, design, recipe, trainer).signals
    for at, epochs in enumerate((1, 3)):
        short = replace(RECIPES[trainer], epochs=epochs)
        wanted = answers_of(records, design, short, trainer).signals
        assert_same_answers({k: v[:, at] for k, v in found.items()}, {k: v[:, 0] for k, v in wanted.items()})
    assert (found["loss"][:, 0] != found["loss"][:, 1]).any()


def test_asking_at_checkpoints_does_not_disturb_training():
    records, design = image_records(), unequal_design((12, 9), 24)
    options = {"net": "tests.train.nets:dropped_channels", "batch_size": 4, "epochs": 3}
    often = answers_of(records, design, Recipe(checkpoints=(1, 2, 3), **options), "stacked").signals
    once = answers_of(records, design, Recipe(**options), "stacked").signals
    assert_same_answers({k: v[:, -1] for k, v in often.items()}, {k: v[:, -1] for k, v in once.items()})


@pytest.mark.parametrize("trainer", RECIPES)
def test_progress_adds_up_to_the_models(trainer):
    records, parts = class_records(), []
    design = make_design("balanced", 4, len(records), seed=0)
    answers_of(records, design, RECIPES[trainer], trainer, models=[0, 2, 3], follow=Follow(parts.append))
    assert sum(parts) == pytest.approx(3)
    assert len(parts) > 1


class TestLostModels:
    """Record 0 has features so large that training on it overflows; only model 1 does."""

    def records(self):
        usual = class_records()
        features = usual.features.copy()
        features[0] = 1e25
        return Records(features, usual.labels, usual.ids, class_names=usual.class_names)

    def design(self):
        in_mask = unequal_design((20, 20, 20), 40).in_mask
        in_mask[:, 0] = [False, True, False]
        return Design(in_mask)

    @pytest.mark.parametrize("trainer", RECIPES)
    def test_the_diverged_one_is_named_and_the_others_go_on(self, trainer):
        recipe = replace(RECIPES[trainer], optimizer="sgd", epochs=4, checkpoints=(2, 4))
        found = answers_of(self.records(), self.design(), recipe, trainer)
        assert found.diverged_at.tolist() == [0, 2, 0]
        assert np.isfinite(found.signals["loss"][[0, 2]]).all()
        # The two others answer as they do when the diverging one is not there.
        alone = answers_of(self.records(), self.design(), recipe, trainer, models=[0, 2])
        assert alone.diverged_at.tolist() == [0, 0]
        for name in EVERY_SIGNAL:
            np.testing.assert_allclose(found.signals[name][[0, 2]], alone.signals[name], rtol=1e-5, atol=1e-6)

    def test_too_high_a_rate_is_noticed_at_the_first_checkpoint_it_shows(self):
        recipe = mlp_recipe(lr=1e20, epochs=3, checkpoints=(1, 2, 3), options={"depth": 2})
        found = answers_of(class_records(), make_design("balanced", 2, 40, 0), recipe, "dense")
        assert found.diverged_at.tolist() == [1, 1]

    def test_finite_parameters_with_infinite_answers_are_lost_too(self):
        """After one full-batch step at this rate the weights are finite and their products are not."""
        recipe = mlp_recipe(lr=1e22, epochs=1, batch_size=100, options={"depth": 2})
        found = answers_of(class_records(), make_design("balanced", 2, 40, 0), recipe, "dense")
        assert not np.isfinite(found.signals["loss"]).all()
        assert found.diverged_at.tolist() == [1, 1]


class TestChoice:
    def choose(self, recipe, records=None):
        return choose_trainer(recipe, inputs_from(records or class_records(), CPU))

    @pytest.mark.parametrize("trainer", ["auto", "stacked"])
    @pytest.mark.parametrize("net", ["mlp", "linear"])
    def test_perceptrons_are_dense(self, net, trainer):
        assert self.choose(Recipe(net=net, trainer=trainer)) == ("dense", None)

    @pytest.mark.parametrize("trainer", ["auto", "stacked"])
    def test_what_vmap_can_do_is_stacked(self, trainer):
        assert self.choose(Recipe(net="cnn", trainer=trainer), image_records()) == ("stacked", None)
        dropped = Recipe(net="mlp", net_options=(("dropout", 0.2), ("norm", "batch")), trainer=trainer)
        assert self.choose(dropped) == ("stacked", None)
        for own in ("gelu", "half_frozen", "tied"):
            assert self.choose(Recipe(net=f"tests.train.nets:{own}", trainer=trainer)) == ("stacked", None)

    def test_a_regression_target_is_stacked_too(self):
        assert self.choose(GELU, real_records()) == ("stacked", None)

    def test_one_at_a_time_when_asked(self):
        assert self.choose(Recipe(trainer="serial")) == ("serial", None)

    def test_large_networks_go_one_at_a_time_unless_asked(self, monkeypatch):
        monkeypatch.setattr(loop, "_STACKED_PARAMETERS", 50)
        assert self.choose(GELU) == ("serial", None)
        assert self.choose(Recipe(net=GELU.net, trainer="stacked")) == ("stacked", None)

    @pytest.mark.parametrize("net", ["undecided", "drops_by_itself"])
    def test_what_cannot_be_stacked_goes_one_at_a_time_with_a_note(self, net):
        trainer, note = self.choose(Recipe(net=f"tests.train.nets:{net}"))
        assert trainer == "serial"
        assert note.startswith("trained one at a time: ")
        assert "\n" not in note

    def test_asking_for_a_stack_of_what_cannot_be_stacked_is_refused(self):
        with pytest.raises(
            InputError, match=r"'tests.train.nets:undecided' cannot be stacked \(.*trainer='auto'"
        ):
            self.choose(Recipe(net="tests.train.nets:undecided", trainer="stacked"))

    def test_what_cannot_be_stacked_still_trains(self):
        records, recipe = class_records(), Recipe(net="tests.train.nets:undecided", lr=0.05, epochs=2)
        design = unequal_design((20, 20), len(records))
        found = answers_of(records, design, recipe, "serial")
        wanted = plain_outputs(records, design, recipe, 1)
        np.testing.assert_allclose(found.signals["logits"][1, 0], wanted, rtol=1e-4, atol=1e-5)


class TestInputs:
    def test_images_are_standardised_by_channel(self):
        records = image_records()
        inputs = inputs_from(records, CPU)
        assert inputs.shape == (2, 8, 8)
        assert inputs.n_outputs == 3
        plain = records.features.astype(np.float64)
        centre = plain.mean(axis=(0, 2, 3), keepdims=True)
        spread = plain.std(axis=(0, 2, 3), keepdims=True)
        np.testing.assert_allclose(inputs.x, (plain - centre) / spread, rtol=1e-3, atol=1e-3)

    def test_a_constant_channel_becomes_zero(self):
        records = image_records()
        records.features[:, 1] = 255
        assert (inputs_from(records, CPU).x[:, 1] == 0).all()

    def test_tables_are_taken_as_they_are(self):
        records = class_records()
        inputs = inputs_from(records, CPU)
        np.testing.assert_array_equal(inputs.x, records.features)
        np.testing.assert_array_equal(inputs.y, records.labels)
        assert inputs_from(real_records(), CPU).n_outputs == 1
