"""The same code on a CUDA device: same answers as on the CPU, within float32 rounding."""

import numpy as np
import pytest
import torch

from leakscope.design import make_design
from leakscope.recipe import Recipe
from leakscope.train.loop import choose_trainer, inputs_from, train_block
from leakscope.types import Records

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

RECIPES = {
    "dense adam": Recipe(net="mlp", net_options=(("width", 32), ("depth", 2)), lr=0.01, epochs=3),
    "dense sgd": Recipe(net="mlp", optimizer="sgd", lr=0.1, momentum=0.9, nesterov=True, epochs=3),
    "stacked dropout": Recipe(net="mlp", net_options=(("dropout", 0.3), ("width", 32)), lr=0.01, epochs=3),
    "stacked cnn": Recipe(net="cnn", net_options=(("channels", 4),), optimizer="adamw", lr=0.01, epochs=2),
    "serial cnn": Recipe(net="cnn", net_options=(("channels", 4),), lr=0.01, epochs=2, trainer="serial"),
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
    assert answers[0].trainer == answers[1].trainer
    # Rounding differs between devices, and Adam amplifies it where gradients are tiny.
    np.testing.assert_allclose(answers[1].signals["log_odds"], answers[0].signals["log_odds"], atol=0.02)
    assert (answers[0].lost_at == 0).all()
    assert (answers[1].lost_at == 0).all()
