"""The same code on a CUDA device: same answers as on the CPU, within float32 rounding."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakscope.design import make_design
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Distillation, Recipe, Treatment
from leakscope.signals.asked import label_queries
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.train import launch, loop, poisson
from leakscope.train.loop import choose_trainer, inputs_from, train_block
from leakscope.types import Records

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = torch.device("cuda")
NOISY = Privacy(noise_multiplier=0.5)
RECIPES = {
    "dense adam": Recipe(net="mlp", net_options=(("width", 32), ("depth", 2)), lr=0.01, epochs=3),
    "dense sgd": Recipe(net="mlp", optimizer="sgd", lr=0.1, momentum=0.9, nesterov=True, epochs=3),
    "stacked dropout": Recipe(net="mlp", net_options=(("dropout", 0.3), ("width", 32)), lr=0.01, epochs=3),
    "stacked cnn": Recipe(net="cnn", net_options=(("channels", 4),), optimizer="adamw", lr=0.01, epochs=2),
    "cnn with sam": Recipe(
        net="cnn",
        net_options=(("channels", 4),),
        optimizer="sgd",
        lr=0.05,
        momentum=0.9,
        sam_rho=0.05,
        epochs=2,
    ),
    "dense mixup": Recipe(net="mlp", lr=0.01, mixup=0.4, epochs=3),
    "dense relaxed": Recipe(net="mlp", optimizer="sgd", lr=0.2, relax_loss=0.5, epochs=4),
    "soft labels and entropy": Recipe(net="mlp", lr=0.01, label_entropy=0.6, entropy_weight=0.1, epochs=3),
    "mixed cnn": Recipe(net="cnn", net_options=(("channels", 4),), lr=0.01, mixup=0.4, epochs=2),
    "relaxed cnn": Recipe(
        net="cnn", net_options=(("channels", 4),), optimizer="sgd", lr=0.05, relax_loss=0.5, epochs=4
    ),
    "views of a wide resnet": Recipe(
        net="wide_resnet",
        net_options=(("depth", 10), ("widen", 1)),
        optimizer="sgd",
        lr=0.05,
        momentum=0.9,
        nesterov=True,
        weight_decay=5e-4,
        flips=True,
        crop=2,
        epochs=2,
    ),
    "serial cnn": Recipe(net="cnn", net_options=(("channels", 4),), lr=0.01, epochs=2, trainer="serial"),
    "some left out": Recipe(lr=0.01, epochs=3, treatment=Treatment("leave_out", "random", 0.2)),
    "some weigh less": Recipe(
        lr=0.01, epochs=4, treatment=Treatment("down_weight", "random", 0.2, epochs=2, restart=False)
    ),
    "distilled": Recipe(lr=0.01, epochs=2, distillation=Distillation(3, 1)),
    "distilled cnn": Recipe(
        net="cnn", net_options=(("channels", 4),), lr=0.01, epochs=2, distillation=Distillation(2, 1)
    ),
    "dense DP-SGD": Recipe(optimizer="sgd", lr=0.05, epochs=3, privacy=NOISY),
    "some clipped more": Recipe(
        optimizer="sgd", lr=0.05, epochs=3, privacy=NOISY, treatment=Treatment("clip_more", "random", 0.2)
    ),
    "some clipped more, cnn": Recipe(
        net="cnn",
        net_options=(("channels", 4), ("norm", "group")),
        optimizer="sgd",
        lr=0.05,
        epochs=2,
        privacy=NOISY,
        treatment=Treatment("clip_more", "random", 0.2),
    ),
}


def images(n=96):
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    pixels = rng.integers(0, 120, (n, 1, 8, 8)) + 40 * labels[:, None, None, None]
    return Records(
        features=pixels.astype(np.uint8),
        labels=labels.astype(np.int64),
        ids=np.array([f"i{i}" for i in range(n)]),
        class_names=("a", "b", "c"),
    )


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("kind", ["balanced", "bernoulli"])
def test_answers_are_those_of_the_cpu(name, kind, monkeypatch):
    monkeypatch.setattr(
        torch.backends.cudnn, "allow_tf32", False
    )  # convolutions in full float32, as on the CPU
    recipe, records = RECIPES[name], images()
    design = make_design(kind, 6, len(records), seed=1)
    answers = []
    for device in ("cpu", "cuda"):
        inputs = inputs_from(records, torch.device(device))
        trainer, _ = choose_trainer(recipe, inputs)
        kept = ("correct", "log_odds", "loss")
        answers.append(train_block(inputs, design, recipe, np.arange(6), 3, kept, trainer))
    assert answers[1].note == ""  # every step was captured
    # Rounding differs between devices, and Adam amplifies it where gradients are tiny.
    np.testing.assert_allclose(answers[1].signals["log_odds"], answers[0].signals["log_odds"], atol=0.02)
    assert (answers[0].diverged_at == 0).all()
    assert (answers[1].diverged_at == 0).all()


def with_copies():
    """The first records are planted, and trained on one to three times."""
    records = images()
    copies = np.ones(len(records), dtype=np.int64)
    copies[:12] = np.arange(12) % 3 + 1
    return replace(records, is_canary=copies > 1, copies=copies)


def with_duplicates():
    records, rows = images(), np.arange(96)
    rows[1::8] = rows[::8]  # of another class, hence the labels too
    return replace(records, features=records.features[rows], labels=records.labels[rows])


NEARLY_TIED = 0.04
"""The two largest logits of "stacked cnn" are within 0.02 of each other for 3.6% of the queries (CPU)."""

SPECIAL = {
    "planted records": (with_copies, RECIPES["dense adam"], NO_FILTER),
    "planted images": (with_copies, RECIPES["stacked cnn"], NO_FILTER),
    "planted images, DP-SGD": (
        with_copies,
        Recipe(net="cnn", net_options=(("channels", 4), ("norm", "group")), optimizer="sgd", lr=0.05,
               batch_size=16, epochs=2, privacy=Privacy(noise_multiplier=0.5)),
        NO_FILTER,
    ),
    "duplicates left out": (with_duplicates, replace(RECIPES["stacked cnn"], deduplicate=True), NO_FILTER),
    "random values returned": (images, RECIPES["stacked cnn"], OutputFilter(random_values=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_records_and_outputs_are_those_of_the_cpu(name, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    make, recipe, outputs = SPECIAL[name]
    records, answers = make(), []
    design = make_design("balanced", 6, len(records), seed=1)
    for device in ("cpu", "cuda"):
        inputs = inputs_from(records, torch.device(device), outputs)
        trainer, _ = choose_trainer(recipe, inputs)
        answers.append(train_block(inputs, design, recipe, np.arange(6), 3, ("log_odds",), trainer))
    assert answers[1].note == ""
    close = np.isclose(answers[1].signals["log_odds"], answers[0].signals["log_odds"], atol=0.02)
    # Random values come in the order of the classes, which rounding changes where two classes nearly tie.
    assert close.mean() >= (1 - NEARLY_TIED if outputs.random_values else 1)


@pytest.mark.parametrize("name", ["dense adam", "stacked cnn"])
def test_changed_records_get_the_labels_that_they_get_on_the_cpu(name, monkeypatch):
    """But for nearly tied classes."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    design, shares = make_design("balanced", 6, 96, seed=1), []
    for device in ("cpu", "cuda"):
        inputs = inputs_from(images(), torch.device(device))
        trainer, _ = choose_trainer(RECIPES[name], inputs)
        block = train_block(inputs, design, RECIPES[name], np.arange(6), 3, ("label_robustness",), trainer)
        shares.append(block.signals["label_robustness"])
    n_queries = len(label_queries((1, 8, 8)))
    counts = [np.rint(share * n_queries) for share in shares]
    assert np.abs(counts[1] - counts[0]).sum() <= NEARLY_TIED * counts[0].size * n_queries
    assert len(np.unique(counts[0])) > 5


TRAINERS = {"dense adam": "dense", "stacked dropout": "stacked", "stacked cnn": "side_by_side",
            "serial cnn": "serial"}  # fmt: skip


@pytest.mark.parametrize("name", TRAINERS)
def test_convolutions_go_side_by_side_and_what_is_said_to_be_serial_is(name):
    assert choose_trainer(RECIPES[name], inputs_from(images(), CUDA))[0] == TRAINERS[name]


def trained_block(recipe, kind="balanced"):
    design = make_design(kind, 6, 96, seed=1)
    return train_block(inputs_from(images(), CUDA), design, recipe, np.arange(6), 3, ("log_odds",),
                       "side_by_side")  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # of torch's own compiler, about itself
def test_a_compiled_step_ends_where_the_eager_one_ends(monkeypatch):
    recipe = RECIPES["views of a wide resnet"]
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    eager = trained_block(recipe)
    monkeypatch.setattr(loop, "_COMPILED_FROM", 0)
    compiled = trained_block(recipe)
    assert compiled.note == ""
    np.testing.assert_allclose(compiled.signals["log_odds"], eager.signals["log_odds"], atol=0.02)


def test_a_block_of_large_nets_in_bfloat16_goes_side_by_side():
    recipe = replace(RECIPES["views of a wide resnet"], precision="bfloat16")
    assert choose_trainer(recipe, inputs_from(images(), CUDA)) == ("side_by_side", None)
    rough, exact = trained_block(recipe), trained_block(replace(recipe, precision="float32"))
    assert 0 < np.abs(rough.signals["log_odds"] - exact.signals["log_odds"]).mean() < 0.1


def test_where_a_step_cannot_be_captured_it_is_launched_step_by_step_with_a_note(monkeypatch):
    captured = trained_block(RECIPES["stacked cnn"], "bernoulli")

    def refuse(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(launch, "CapturedSteps", refuse)
    launched = trained_block(RECIPES["stacked cnn"], "bernoulli")
    assert "not captured: operation not permitted" in launched.note
    np.testing.assert_allclose(launched.signals["log_odds"], captured.signals["log_odds"], atol=0.02)


PRIVATE = {
    "dense": RECIPES["dense adam"],
    "side_by_side": Recipe(net="cnn", net_options=(("norm", "group"),), optimizer="sgd", lr=0.1, flips=True,
                           crop=1, batch_size=16, epochs=3),
}  # fmt: skip


@pytest.mark.parametrize("trainer", PRIVATE)
def test_a_captured_step_of_dp_sgd_ends_where_a_launched_one_ends(trainer, monkeypatch):
    """In all, and where the first batches are wider than the place that was made for them."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    views = 2 if trainer == "side_by_side" else 1
    recipe = replace(PRIVATE[trainer], privacy=Privacy(noise_multiplier=0.5, views=views))
    inputs, design = inputs_from(images(), CUDA), make_design("bernoulli", 6, 96, seed=1)
    assert choose_trainer(recipe, inputs)[0] == trainer

    def ended():
        block = train_block(inputs, design, recipe, np.arange(6), 3, ("log_odds",), trainer)
        return block.signals["log_odds"], block.note

    captured, note = ended()
    assert note == ""
    monkeypatch.setattr(poisson, "_WIDE", -2.0)
    widened, note = ended()
    assert note == ""
    monkeypatch.setattr(launch, "CapturedSteps", _refuse)
    launched, note = ended()
    assert "not captured" in note
    np.testing.assert_allclose(widened, captured, atol=0.02)
    np.testing.assert_allclose(launched, captured, atol=0.02)


def _refuse(*_):
    raise RuntimeError("refused")
