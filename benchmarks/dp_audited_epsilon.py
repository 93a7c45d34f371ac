"""Does an audit ever prove an epsilon above the one that DP-SGD claims?

The records are made for the attacker: random directions with random labels, so that all that a model knows of
one is memorized; few steps on all members, without subsampling, a linear network. For each claimed epsilon,
populations with different seeds are trained and attacked by LiRA with fixed variance. Two bounds are held
against the claim: the one that audits report (median over targets, 95%), and a sharper one from the scores of
all targets together, which takes them as independent. A training without noise shows what the attack can do.

    python benchmarks/dp_audited_epsilon.py
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import torch

from leakscope.attacks.lira import Lira
from leakscope.design import make_design
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Recipe
from leakscope.stats.epsilon import epsilon_of_split
from leakscope.stats.roc import auc, split_scores
from leakscope.train.loop import inputs_from, train_block
from leakscope.types import Records, Signals

RECORDS, FEATURES, MODELS = 150, 150, 24
CLAIMS = (1.0, 4.0, 8.0)
DELTA, CONFIDENCE = 1e-5, 0.95


class Audited(NamedTuple):
    """What one population shows."""

    auc: float
    median_bound: float
    pooled_bound: float


def records_of(seed: int) -> Records:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(RECORDS, FEATURES)).astype(np.float32)
    labels = rng.integers(0, 2, RECORDS)
    return Records(features, labels, np.arange(RECORDS).astype(str), class_names=("a", "b"))


def audited(privacy: Privacy | None, seed: int) -> Audited:
    records = records_of(seed)
    recipe = Recipe(net="linear", optimizer="sgd", lr=4.0, batch_size=RECORDS, epochs=4, privacy=privacy)
    design = make_design("balanced", MODELS, RECORDS, seed)
    inputs, models = inputs_from(records, torch.device("cpu")), np.arange(MODELS)
    block = train_block(inputs, design, recipe, models, seed, ("log_odds",), "dense")
    scores = Lira()(Signals(block.signals, (recipe.epochs,), records.labels), design, models).values
    confidence = 1 - (1 - CONFIDENCE) / 2  # as audits do, for a median over targets
    bounds = [
        epsilon_of_split(split_scores(row, is_in), delta=DELTA, confidence=confidence).epsilon
        for row, is_in in zip(scores, design.in_mask, strict=True)
    ]
    together = split_scores(scores.ravel(), design.in_mask.ravel())
    pooled = epsilon_of_split(together, delta=DELTA, confidence=CONFIDENCE).epsilon
    return Audited(auc(scores.ravel(), design.in_mask.ravel()), float(np.median(bounds)), pooled)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--populations", type=int, default=50)
    n_populations = arguments.parse_args().populations
    torch.set_num_threads(1)
    print(f"{n_populations} populations of {MODELS} linear models on {RECORDS} random records each")
    print("claimed epsilon   AUC (mean)   largest bound of an audit   largest bound of all scores   above")
    for claim in (*CLAIMS, None):
        privacy = None if claim is None else Privacy(epsilon=claim)
        found = [audited(privacy, seed) for seed in range(n_populations)]
        medians, pooled = [f.median_bound for f in found], [f.pooled_bound for f in found]
        n_above = sum(max(f.median_bound, f.pooled_bound) > (claim or np.inf) for f in found)
        print(f"{'none' if claim is None else claim:>15}   {np.mean([f.auc for f in found]):10.3f}   "
              f"{max(medians):25.2f}   {max(pooled):27.2f}   {n_above:5d}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
