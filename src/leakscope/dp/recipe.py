"""A recipe's own claim, tested by one training with leakscope's trainers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from leakscope.array_types import FloatArray
from leakscope.dp.one_run import audit_scores
from leakscope.dp.verdict import ClaimVerdict
from leakscope.errors import InputError
from leakscope.privacy.accounting import privacy_spent
from leakscope.privacy.claim import Claim
from leakscope.privacy.settings import Sampling
from leakscope.recipe import Recipe
from leakscope.train.loop import Inputs, choose_trainer, initial_nets, inputs_from, train_block
from leakscope.types import Design, Records

NAME = "records with a feature of their own, one run"
_FEATURE = 30.0  # in units of the clipping norm: gradients are well above it


def audit_recipe(recipe: Recipe, *, number: int = 1000, seed: int = 0) -> ClaimVerdict:
    """Tests what DP-SGD of a recipe claims to spend, with one training by leakscope's trainer.

    Each canary is a record with a feature that no other record has. The network is replaced by a linear one,
    in which such a record has weights of its own. Sampling, clipping, noise, optimizer and trainer are the
    recipe's. There are no other records.

    Args:
        recipe: with `privacy`.
        number: of canaries.
        seed: of coins and training.
    """
    privacy = recipe.privacy
    if privacy is None:
        raise InputError("the recipe has no privacy: there is no claim to test")
    recipe = replace(recipe, net="linear", net_options=())
    is_in = np.random.default_rng([seed, number]).random(number) < 0.5
    design = Design(is_in[None])
    sampling = Sampling.of(design, recipe.batch_size)
    spent = privacy_spent(privacy, sampling, recipe.epochs)
    claim = Claim(
        delta=spent.delta,
        noise_multiplier=spent.noise_multiplier,
        sampling_rate=spent.sampling_rate,
        steps=spent.steps,
    )
    scores = _scores(recipe, design, _records(number, _FEATURE * privacy.clip), seed)
    return audit_scores(scores, is_in, claim, name=NAME, white_box=True)


def _records(number: int, feature: float) -> Records:
    features = np.zeros((number, number), dtype=np.float32)
    np.fill_diagonal(features, feature)
    labels = np.arange(number) % 2
    return Records(features, labels, np.arange(number).astype(str), class_names=("a", "b"))


def _scores(recipe: Recipe, design: Design, records: Records, seed: int) -> FloatArray:
    """How far training raised the log-odds of each record's label; float64 (canaries,)."""
    inputs, models = inputs_from(records, torch.device("cpu")), np.arange(1)
    before = _log_odds_at_start(recipe, inputs, seed)
    trainer, _ = choose_trainer(recipe, inputs)
    block = train_block(inputs, design, recipe, models, seed, ("log_odds",), trainer)
    return np.asarray(block.signals["log_odds"][0, -1], dtype=np.float64) - before


def _log_odds_at_start(recipe: Recipe, inputs: Inputs, seed: int) -> FloatArray:
    (net,) = initial_nets(recipe, inputs, np.arange(1), seed)
    with torch.no_grad():
        outputs = net(inputs.x).double()
    own = outputs.gather(1, inputs.y[:, None])[:, 0]
    log_odds: FloatArray = (2 * own - outputs.sum(dim=1)).numpy()
    return log_odds
