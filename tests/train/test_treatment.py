"""Targeted treatment: who is flagged, what becomes of them, and that every trainer does the same."""

import numpy as np
import pytest
import torch
from torch import nn

import leakscope
from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.recipe import Recipe, Treatment
from leakscope.train.gradient_norms import at_checkpoints
from leakscope.train.loop import initial_nets, inputs_from, train_block
from leakscope.train.treatment import Treated
from leakscope.types import Design

from .problems import CPU, class_records, image_records, mlp_recipe, real_records, unequal_design

RECORDS = class_records(60)
DESIGN = make_design("bernoulli", 4, 60, seed=2)
MODELS = np.arange(4)
SEED = 3


def recipe(treatment=None, **changes):
    settings = {"optimizer": "adam", "lr": 0.01, "batch_size": 8, "epochs": 8, **changes}
    return mlp_recipe(treatment=treatment, **settings)


def block(made, records=RECORDS, design=DESIGN, trainer="dense", kept=("logits",), models=None):
    models = np.arange(design.n_models) if models is None else models
    return train_block(inputs_from(records, CPU), design, made, models, SEED, kept, trainer)


def logits(made, **more):
    return block(made, **more).signals["logits"]


def flagged(treatment, records=RECORDS, design=DESIGN, **changes):
    """What a treatment flags, from the losses of plain training up to its window."""
    made = recipe(treatment, **changes)
    stages = Treated(made, treatment, design, np.arange(design.n_models), SEED)
    if treatment.choice == "early":
        window = treatment.window(made.epochs)
        plain = recipe(checkpoints=tuple(range(1, window + 1)), **changes)
        losses = block(plain, records, design, kept=("loss",)).signals["loss"]
        for epoch in range(window):
            stages.read(0, losses[:, epoch])
    return stages.flagged()


def plain_treated_outputs(made, model, members, weight):
    """One model by the loop anybody would write, on these members with these weights."""
    inputs = inputs_from(RECORDS, CPU)
    (net,) = initial_nets(made, inputs, np.array([model]), SEED)
    optimizer = torch.optim.Adam(net.parameters(), lr=made.lr)
    lesson = Treated(made, made.treatment, DESIGN, np.array([model]), SEED)
    plan = lesson.plan(0)
    for order in plan.epochs(made.epochs):
        rows = torch.from_numpy(order[:, 0].reshape(-1)[: len(members)])
        for step in range(plan.steps):
            batch = rows[step * plan.batch : (step + 1) * plan.batch]
            if len(batch) == 0:
                for state in optimizer.state.values():
                    state["step"] += 1
                continue
            losses = nn.functional.cross_entropy(net(inputs.x[batch]), inputs.y[batch], reduction="none")
            optimizer.zero_grad()
            (losses * weight[batch]).mean().backward()
            optimizer.step()
    with torch.no_grad():
        return net.eval()(inputs.x).numpy()


def test_the_early_choice_is_the_monitor_s():
    """The same members that `Monitor.top` names when it gets their losses after each epoch of the window."""
    window = 3
    plain = recipe(checkpoints=tuple(range(1, window + 1)))
    losses = block(plain, kept=("loss",)).signals["loss"]
    for share in (0.05, 0.2, 0.5):
        chosen = flagged(Treatment(share=share, epochs=window))
        for model in MODELS:
            members = DESIGN.members(model)
            monitor = leakscope.Monitor(len(members))
            for epoch in range(window):
                monitor.update(losses[model, epoch, members])
            np.testing.assert_array_equal(chosen[model], np.sort(members[monitor.top(share)]))


@pytest.mark.parametrize("choice", ["early", "random"])
def test_the_models_are_those_trained_without_the_flagged_members(choice):
    """In batches of all members, so that a list that flags other members in other models changes no shape."""
    treatment = Treatment(choice=choice, share=0.2)
    found = logits(recipe(treatment, batch_size=60))
    for model, out in enumerate(flagged(treatment, batch_size=60)):
        assert len(out) == round(0.2 * len(DESIGN.members(model)))
        listed = recipe(Treatment(choice="listed", records=tuple(out.tolist())), batch_size=60)
        wanted = logits(listed, models=np.array([model]))
        np.testing.assert_allclose(found[model], wanted[0], rtol=1e-3, atol=1e-4)
        assert np.abs(found[model] - logits(recipe(batch_size=60))[model]).max() > 0.01


@pytest.mark.parametrize("how", ["leave_out", "down_weight"])
@pytest.mark.parametrize("trainer", ["dense", "stacked", "serial"])
def test_every_trainer_treats_as_a_plain_loop_does(how, trainer):
    treatment = Treatment(how, "random", share=0.3, weight=0.25)
    found = logits(recipe(treatment), trainer=trainer)
    for model, chosen in enumerate(flagged(treatment)):
        members, weight = DESIGN.members(model), torch.ones(60)
        if how == "leave_out":
            members = np.setdiff1d(members, chosen)
        else:
            weight[chosen] = 0.25
        wanted = plain_treated_outputs(recipe(treatment), model, members, weight)
        np.testing.assert_allclose(found[model, 0], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("restart", [True, False])
def test_trainers_agree_on_the_early_choice(restart):
    made = recipe(Treatment(share=0.2, epochs=3, restart=restart))
    dense = logits(made)
    for trainer in ("stacked", "serial", "side_by_side"):
        np.testing.assert_allclose(logits(made, trainer=trainer), dense, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("trainer", ["dense", "stacked", "serial"])
@pytest.mark.parametrize("restart", [True, False])
def test_a_weight_of_one_changes_nothing(trainer, restart):
    """The early window leaves no trace in the model; trained on, the optimizer goes on where it was."""
    treatment = Treatment("down_weight", weight=1.0, share=0.3, epochs=3, restart=restart)
    treated, plain = logits(recipe(treatment), trainer=trainer), logits(recipe(), trainer=trainer)
    np.testing.assert_array_equal(treated, plain)


def test_a_weight_of_one_changes_nothing_in_a_network_with_noise_of_its_own():
    """Its dropout draws from torch's global generator, which goes on where the window ended."""
    noisy = {"net": "tests.train.nets:drops_by_itself", "epochs": 4}
    treatment = Treatment("down_weight", weight=1.0, epochs=2, restart=False)
    plain = logits(Recipe(**noisy), trainer="serial")
    np.testing.assert_array_equal(logits(Recipe(**noisy, treatment=treatment), trainer="serial"), plain)


def test_a_model_does_not_depend_on_the_models_trained_beside_it():
    for how in ("leave_out", "down_weight"):
        made = recipe(Treatment(how, share=0.2))
        together = logits(made)
        for model in MODELS:
            alone = logits(made, models=np.array([model]))
            np.testing.assert_allclose(alone[0], together[model], rtol=1e-4, atol=1e-5)


def test_random_choices_differ_between_models_and_seeds_and_are_members():
    treatment, everyone = Treatment(choice="random", share=0.2), Design(np.ones((3, 60), dtype=bool))
    chosen = flagged(treatment, design=everyone)
    assert len({tuple(rows) for rows in chosen}) == 3
    other = Treated(recipe(treatment), treatment, everyone, np.arange(3), SEED + 1).flagged()
    assert not np.array_equal(chosen[0], other[0])
    for model, rows in enumerate(flagged(treatment)):
        assert set(rows) <= set(DESIGN.members(model)) and len(set(rows)) == len(rows)


def test_left_out_members_are_not_trained_on():
    """Records whose features nobody trains on may be anything: the outputs on the others stay as they are."""
    listed = (3, 17, 40)
    made = recipe(Treatment(choice="listed", records=listed))
    altered = class_records(60)
    altered.features[list(listed)] = 1e3
    others = np.setdiff1d(np.arange(60), listed)
    np.testing.assert_array_equal(logits(made)[:, :, others], logits(made, records=altered)[:, :, others])
    assert not np.array_equal(logits(recipe())[:, :, others], logits(recipe(), records=altered)[:, :, others])


def test_designs_with_columns_of_their_own_flag_records_not_columns():
    columns = np.stack([np.arange(40), np.arange(20, 60)])
    design = Design(np.random.default_rng(0).random((2, 40)) < 0.5, columns)
    for treatment in (Treatment(share=0.3), Treatment("down_weight", share=0.3)):
        chosen = flagged(treatment, design=design)
        assert all(set(rows) <= set(design.members(m)) for m, rows in enumerate(chosen))
        assert np.isfinite(logits(recipe(treatment), design=design)).all()
    listed = Treatment(choice="listed", records=(30, 31, 55))
    for model, rows in enumerate(flagged(listed, design=design)):
        assert set(rows) == set(design.members(model)) & {30, 31, 55}


def test_treatment_works_for_a_regression_and_for_images():
    treatment = Treatment(share=0.2)
    found = block(recipe(treatment), real_records(60), kept=("loss",)).signals["loss"]
    assert np.isfinite(found).all()
    cnn = Recipe(net="cnn", net_options=(("channels", 3),), batch_size=4, epochs=4, flips=True, crop=1,
                 treatment=treatment)  # fmt: skip
    images, design = image_records(), unequal_design((12, 9, 7), 24)
    assert np.isfinite(logits(cnn, records=images, design=design, trainer="stacked")).all()


def test_a_model_that_diverges_in_the_window_is_reported_as_diverged():
    found = block(recipe(Treatment(share=0.2), optimizer="sgd", lr=1e30, options={"depth": 2}))
    assert (found.diverged_at > 0).all()


def test_a_treatment_that_leaves_nobody_is_refused():
    few = Design(np.eye(2, 60, dtype=bool) | np.eye(2, 60, 1, dtype=bool))
    with pytest.raises(InputError, match="all 2 members of model 0 would be flagged; flag fewer"):
        block(recipe(Treatment(choice="listed", records=(0, 1, 2))), design=few)
    assert np.isfinite(logits(recipe(Treatment()), design=few)).all()


def test_measures_of_models_trained_again_go_through_the_treatment():
    made = recipe(Treatment(share=0.3))
    inputs = inputs_from(RECORDS, CPU)
    (outputs,) = at_checkpoints(lambda net: net(inputs.x).detach(), inputs, DESIGN, made, 2, SEED)
    np.testing.assert_allclose(outputs.numpy(), logits(made)[2, 0], rtol=1e-3, atol=1e-4)
