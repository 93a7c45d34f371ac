"""Populations with a known truth: outputs drawn from the very model that LiRA assumes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.registry import PER_RECORD
from leakscope.evaluate.hygiene.checks import check_all
from leakscope.evaluate.hygiene.members import AttackedModels
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.hygiene.shift import ShiftScores, search_for_shift
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.types import Design, Signals

N_MODELS, N_RECORDS = 12, 600


@dataclass(frozen=True, eq=False)
class Population:
    """Models that know their members by a shift of log-odds; `stated` is who is said to be a member."""

    features: AnyArray
    gap: FloatArray
    stated: BoolArray
    log_odds: FloatArray
    duplicate_of: IntArray


def population(seed: int, n_models: int = N_MODELS, n_records: int = N_RECORDS) -> Population:
    """A clean one."""
    rng = np.random.default_rng(seed)
    half = np.repeat([True, False], n_models // 2)
    in_mask = np.stack([rng.permutation(half) for _ in range(n_records)], axis=1)
    difficulty, gap = rng.normal(1, 1.5, n_records), rng.exponential(0.8, n_records)
    log_odds = difficulty + gap * in_mask + rng.normal(0, 0.7, (n_models, n_records))
    features = rng.normal(size=(n_records, 6)).astype(np.float32)
    return Population(features, gap, in_mask, log_odds, np.arange(n_records))


def with_wrong_members(clean: Population, share: float, seed: int = 0) -> Population:
    """A share of the first model's stated members was never trained on."""
    rng = np.random.default_rng(seed)
    members = np.flatnonzero(clean.stated[0])
    hidden = rng.permutation(members)[: int(share * len(members))]
    log_odds = clean.log_odds.copy()
    log_odds[0, hidden] -= clean.gap[hidden]
    return replace(clean, log_odds=log_odds)


def outcomes(given: Population, single: bool = True) -> tuple[Outcome, ...]:
    """Every check, of the first model alone or of all in turn."""
    design = Design(given.stated)
    signals = Signals(
        {
            "log_odds": given.log_odds[:, None],
            "correct": (given.log_odds > 0)[:, None],
        },
        (1,),
        np.zeros(given.stated.shape[1], dtype=np.int64),
    )
    targets = np.array([0]) if single else np.arange(len(given.stated))
    n_records = given.stated.shape[1]
    metadata = RecordMetadata(
        np.arange(n_records).astype(str),
        np.zeros(n_records, dtype="U1"),
        duplicate_of=given.duplicate_of,
        shift=ShiftScores(search_for_shift(given.features.__getitem__, given.stated[0]).scores),
    )
    scores = PER_RECORD(signals, design).values
    to_compare = AttackedModels(np.arange(len(scores)), scores, design.in_mask)
    return check_all(signals, design, targets, metadata, to_compare)
