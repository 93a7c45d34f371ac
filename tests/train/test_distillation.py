"""SELENA: soft labels come from sub-models new to the member, and the model is trained on them."""

import numpy as np
import pytest
import torch
from torch import nn

from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.recipe import Distillation
from leakscope.train.distillation import Distilled
from leakscope.train.loop import initial_nets, inputs_from, train_block
from leakscope.train.losses import Objective
from leakscope.train.plan import BatchPlan
from leakscope.types import Design

from .problems import CPU, class_records, mlp_recipe, real_records

RECORDS = class_records(60)
DESIGN = make_design("bernoulli", 3, 60, seed=2)
MODELS = np.arange(3)
SEED = 3


def recipe(distillation=None, **changes):
    settings = {"optimizer": "adam", "lr": 0.01, "batch_size": 8, "epochs": 4, **changes}
    return mlp_recipe(distillation=distillation, **settings)


def logits(made, records=RECORDS, design=DESIGN, trainer="dense", models=MODELS):
    found = train_block(inputs_from(records, CPU), design, made, models, SEED, ("logits",), trainer)
    return found.signals["logits"][:, -1]


FIVE = Distillation(5, 2)


def stages(distillation=FIVE, design=DESIGN, models=MODELS):
    return Distilled(recipe(distillation), distillation, design, models, SEED, 3)


def seen_in(plan):
    """The records of each model in one epoch of a plan."""
    (order,) = plan.epochs(1)
    return [set(order[:, m].reshape(-1).tolist()) for m in range(order.shape[1])]


@pytest.mark.parametrize(("n_models", "left_out"), [(2, 1), (5, 2), (7, 6)])
def test_each_member_is_new_to_exactly_the_left_out_sub_models(n_models, left_out):
    made = stages(Distillation(n_models, left_out))
    seen = [seen_in(made.plan(stage)) for stage in range(n_models)]
    for model in MODELS:
        for member in DESIGN.members(model).tolist():
            assert sum(member not in rows[model] for rows in seen) == left_out
        assert set().union(*(rows[model] for rows in seen)) <= set(DESIGN.members(model).tolist())
    assert seen_in(made.plan(n_models)) == [set(DESIGN.members(m).tolist()) for m in MODELS]


def test_a_soft_label_is_the_mean_over_the_sub_models_that_are_new_to_it():
    made, rng = stages(), np.random.default_rng(0)
    predicted = rng.normal(size=(5, 3, 60, 3)).astype(np.float32)
    seen = [seen_in(made.plan(stage)) for stage in range(5)]
    for stage in range(5):
        made.read(stage, predicted[stage])
    soft = made.labels(5)
    for model in MODELS:
        for member in DESIGN.members(model).tolist():
            new = [s for s in range(5) if member not in seen[s][model]]
            wanted = torch.from_numpy(predicted[new, model, member]).softmax(-1).mean(0)
            np.testing.assert_allclose(soft[model, member], wanted, rtol=1e-5)
    assert made.labels(0) is None


def plain_distilled(made, model):
    """One model by the loop anybody would write: sub-models, soft labels, and a model trained on these."""
    inputs, distillation = inputs_from(RECORDS, CPU), made.distillation
    own = Distilled(made, distillation, DESIGN, np.array([model]), SEED, 3)
    members = set(DESIGN.members(model).tolist())
    soft = torch.zeros(60, 3)
    for stage in range(distillation.models):
        net = trained(made, own.plan(stage), inputs.x, inputs.y)
        new = sorted(members - seen_in(own.plan(stage))[0])
        with torch.no_grad():
            soft[new] += net(inputs.x[new]).softmax(-1) / distillation.left_out
    net = trained(made, BatchPlan(DESIGN, np.array([model]), made.batch_size, SEED), inputs.x, soft)
    with torch.no_grad():
        return net(inputs.x).numpy()


def trained(made, plan, x, y):
    inputs = inputs_from(RECORDS, CPU)
    (net,) = initial_nets(made, inputs, plan.models, plan.seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=made.lr)
    criterion = nn.CrossEntropyLoss(label_smoothing=made.label_smoothing, reduction="none")
    for order in plan.epochs(made.epochs):
        for step in range(plan.steps):
            if plan.idle[step, 0]:
                for state in optimizer.state.values():
                    state["step"] += 1
                continue
            batch, weight = torch.from_numpy(order[step, 0]), torch.from_numpy(plan.row_weight[step, 0])
            optimizer.zero_grad()
            (criterion(net(x[batch]), y[batch]) * weight).sum().backward()
            optimizer.step()
    return net.eval()


@pytest.mark.parametrize("trainer", ["dense", "stacked", "serial"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_every_trainer_distills_as_a_plain_loop_does(trainer, label_smoothing):
    made = recipe(Distillation(3, 2), label_smoothing=label_smoothing)
    found = logits(made, trainer=trainer)
    for model in MODELS:
        np.testing.assert_allclose(found[model], plain_distilled(made, model), rtol=2e-3, atol=2e-4)


def test_labels_of_members_matter_only_through_models_not_trained_on_them():
    """With one member's label changed, its own soft label stays; that of others may not."""
    altered = class_records(60)
    member = int(DESIGN.members(0)[4])
    altered.labels[member] = (altered.labels[member] + 1) % 3
    soft = []
    for records in (RECORDS, altered):
        made, given = stages(), recipe(Distillation(5, 2))
        for stage in range(5):
            inputs = inputs_from(records, CPU)
            nets = [trained(given, alone(stage, m), inputs.x, inputs.y) for m in MODELS]
            with torch.no_grad():
                made.read(stage, torch.stack([net(inputs.x) for net in nets]).numpy())
        soft.append(made.labels(5))
    np.testing.assert_array_equal(soft[0][0, member], soft[1][0, member])
    assert not np.array_equal(soft[0], soft[1])


def alone(stage, model):
    """The plan of one model in one stage."""
    return stages(models=np.array([model])).plan(stage)


def test_a_model_does_not_depend_on_the_models_trained_beside_it():
    made = recipe(Distillation(3, 1))
    together = logits(made)
    for model in MODELS:
        own = logits(made, models=np.array([model]))
        np.testing.assert_allclose(own[0], together[model], rtol=1e-4, atol=1e-5)


def test_designs_with_columns_of_their_own_have_soft_labels_by_record():
    columns = np.stack([np.arange(40), np.arange(20, 60)])
    design = Design(np.random.default_rng(0).random((2, 40)) < 0.5, columns)
    made = stages(design=design, models=np.arange(2))
    for stage in range(5):
        made.read(stage, np.zeros((2, 40, 3), dtype=np.float32))
    soft = made.labels(5)
    for model in range(2):
        is_labeled = np.flatnonzero(soft[model].sum(axis=1) > 0)
        assert set(is_labeled.tolist()) == set(design.members(model).tolist())
    assert np.isfinite(logits(recipe(Distillation(3, 1)), design=design, models=np.arange(2))).all()


def test_soft_labels_that_are_certain_are_the_labels():
    """Loss and gradient of one-hot soft labels are those of integer labels."""
    rng = torch.Generator().manual_seed(0)
    outputs, y = torch.randn(2, 3, 7, generator=rng), torch.randint(0, 3, (2, 7), generator=rng)
    weight = torch.rand(2, 7, generator=rng)
    for smoothing in (0.0, 0.3):
        objective, soft = Objective(smoothing), nn.functional.one_hot(y, 3).float()
        by_class = objective.output_gradient_(outputs.clone(), y, weight)
        torch.testing.assert_close(objective.output_gradient_(outputs.clone(), soft, weight), by_class)
        rows = outputs[0].T
        torch.testing.assert_close(objective.row_losses(rows, soft[0]), objective.row_losses(rows, y[0]))


def test_what_cannot_be_distilled_is_refused():
    with pytest.raises(InputError, match="distillation is for classification"):
        logits(recipe(Distillation()), records=real_records(60))
    few = Design(np.eye(3, 60, dtype=bool) | np.eye(3, 60, 1, dtype=bool))
    with pytest.raises(InputError, match="models=3: a model has only 2 members"):
        logits(recipe(Distillation(3, 1)), design=few)
