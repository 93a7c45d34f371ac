"""How the programs of this folder put their claims to the test, and print the verdict."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from dp_sgd import load_records
from torch import Tensor

from leakscope.array_types import BoolArray, FloatArray
from leakscope.dp import Canaries, Claim, audit_scores
from leakscope.dp.verdict import ClaimVerdict, Evidence, judge_claim
from leakscope.stats.epsilon import epsilon_of_split
from leakscope.stats.roc import split_scores

N_CANARIES = 1000
MARK = 100.0
"""The value of a marked record's own feature."""
Released = Callable[[Tensor, Tensor], FloatArray]
"""Trains on features and labels; returns one released number for each feature."""


def audit_with_canaries(train: Callable[[Canaries], None], claim: Claim, seed: int) -> ClaimVerdict:
    """Trains once with gradient canaries planted."""
    torch.manual_seed(seed)
    canaries = Canaries(N_CANARIES, seed=seed)
    train(canaries)
    return canaries.audit(claim)


def audit_with_marked_records(train: Released, claim: Claim, seed: int) -> ClaimVerdict:
    """Trains once on digits with 1,000 more features, and marked records that are in by fair coins.

    Ordinary records have 0 in the additional features, as with rare words or codes. Marked record i has a
    value in feature i of these, and 0 in the others. Like any record, it is one more or one less.
    """
    torch.manual_seed(seed)
    is_in: BoolArray = np.random.default_rng(seed).random(N_CANARIES) < 0.5
    digits, labels = load_records()
    ordinary = torch.cat([digits, torch.zeros(len(digits), N_CANARIES)], dim=1)
    marked = torch.zeros(N_CANARIES, ordinary.shape[1])
    marked[:, digits.shape[1] :].fill_diagonal_(MARK)
    inside = torch.from_numpy(is_in)
    x = torch.cat([ordinary, marked[inside]])
    y = torch.cat([labels, torch.zeros(int(inside.sum()), dtype=labels.dtype)])
    scores = np.abs(train(x, y)[digits.shape[1] :])
    return audit_scores(scores, is_in, claim, name="marked records, one run")


def audit_trainings(scores: FloatArray, is_in: BoolArray, claim: Claim) -> ClaimVerdict:
    """The verdict of many trainings, each with one canary that is in by a fair coin; no shape is assumed."""
    bound = epsilon_of_split(split_scores(scores, is_in), delta=claim.delta, confidence=claim.confidence)
    best = epsilon_of_split(
        split_scores(is_in.astype(np.float64), is_in), delta=claim.delta, confidence=claim.confidence
    )
    evidence = Evidence(
        name="one crafted record, many trainings",
        epsilon=bound.epsilon,
        confidence=claim.confidence,
        ceiling=best.epsilon,
        method=bound.method,
        canaries=1,
        runs=len(scores),
        assumed=("The record was in by a fair coin for each training, and trainings are independent.",),
    )
    return judge_claim(claim, [evidence])


def show(audit: Callable[[int], ClaimVerdict]) -> None:
    """Prints the verdict of one audit; the seed is an option of the command line."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int, default=0)
    print(audit(arguments.parse_args().seed))
