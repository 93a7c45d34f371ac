"""How close does a test come to the claimed epsilon, on neighboring training sets made for the attacker?

A crafted canary has an input coordinate of its own, zero in every other record, and the clipping norm is so
small that its gradient is always clipped: each step moves the canary's log-odds by the clipping norm, plus
the noise. The other records are blank and in every model, so that nothing else differs between models. A
linear network is trained by DP-SGD for four steps on all members. The log-odds are then a Gaussian mechanism
of nearly the claimed epsilon. Half of the models have the canary, by fair coins. Their log-odds bound
epsilon, without an assumption on the trade-off and with a Gaussian one (95%, delta 1e-5).

    python benchmarks/dp_worst_case.py                     # 1,000 models, 20 populations per row
    python benchmarks/dp_worst_case.py --models 10000 --populations 3
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from leakscope.design import make_design
from leakscope.dp.bounds import evidence_of_rates
from leakscope.privacy.accounting import noise_multiplier
from leakscope.privacy.claim import Claim
from leakscope.privacy.settings import Privacy, Sampling
from leakscope.recipe import Recipe
from leakscope.train.loop import inputs_from, train_block
from leakscope.types import Design, Records

RECORDS, FEATURES, STEPS = 20, 10, 4
CLIP, SPREAD = 1e-6, 3.0  # the spread of log-odds by noise: far above that of the initial weights
CLAIMS = (1.0, 4.0, 8.0)
DELTA, CONFIDENCE = 1e-5, 0.95


def crafted_records() -> Records:
    """Blank records, and the canary as record 0."""
    features = np.zeros((RECORDS, FEATURES), np.float32)
    features[0, 0] = 1.0
    labels = np.arange(RECORDS) % 2
    return Records(features, labels, np.arange(RECORDS).astype(str), class_names=("a", "b"))


def noise_of(epsilon: float, design: Design) -> float:
    """The noise multiplier that epsilon asks for."""
    return noise_multiplier(Privacy(epsilon=epsilon, delta=DELTA), Sampling.of(design, RECORDS), STEPS)


def bounds(claimed: float, noise_share: float, n_models: int, seed: int) -> tuple[float, float]:
    """Lower bounds for any trade-off and for a Gaussian one, with this share of the noise that is needed."""
    records, coins = crafted_records(), make_design("bernoulli", n_models, RECORDS, seed).in_mask[:, :1]
    design = Design(np.concatenate([coins, np.ones((n_models, RECORDS - 1), np.bool_)], axis=1))
    noise = noise_share * noise_of(claimed, design)
    n_members = Sampling.of(design, RECORDS).n_members
    recipe = Recipe(
        net="linear",
        optimizer="sgd",
        lr=SPREAD * n_members / (2 * np.sqrt(STEPS) * CLIP * noise),
        batch_size=RECORDS,
        epochs=STEPS,
        privacy=Privacy(noise_multiplier=noise, delta=DELTA, clip=CLIP),
    )
    models, inputs = np.arange(n_models), inputs_from(records, torch.device("cpu"))
    block = train_block(inputs, design, recipe, models, seed, ("log_odds",), "dense")
    scores = np.asarray(block.signals["log_odds"][:, -1, 0], np.float64)
    any_tradeoff, gaussian = (
        evidence_of_rates(scores, coins[:, 0], claim, CONFIDENCE).epsilon
        for claim in (Claim(claimed, DELTA), Claim(claimed, DELTA, tradeoff="gaussian"))
    )
    return any_tradeoff, gaussian


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--models", type=int, default=1000)
    arguments.add_argument("--populations", type=int, default=20)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    print(f"{given.populations} populations of {given.models:,} linear models per row")
    print("claimed   noise   any trade-off (median, max)   Gaussian (median, max)   refuted   seconds each")
    for claimed in CLAIMS:
        for share in (1.0, 0.5):
            started = time.perf_counter()
            reached = np.array([bounds(claimed, share, given.models, s) for s in range(given.populations)])
            seconds = (time.perf_counter() - started) / given.populations
            (middle, gaussian), (top, top_gaussian) = np.median(reached, axis=0), reached.max(axis=0)
            refuted = (reached > claimed).sum(axis=0)
            print(f"{claimed:7g}   {share:5g}   {middle:12.2f} {top:14.2f}   "
                  f"{gaussian:12.2f} {top_gaussian:11.2f}"
                  f"   {refuted[0]:3d} {refuted[1]:3d}   {seconds:8.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
