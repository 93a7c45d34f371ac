"""The claims of the scaling study's publication, settled by numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from leakscope.studies.claims import Outcome, Settled, StudyClaims, complete
from leakscope.studies.scaling.claim_list import CLAIMS
from leakscope.studies.scaling.discussion import discussion_body
from leakscope.studies.scaling.evidence import ROUNDING, Trainings, exact_row, r_range, sorted_evidence
from leakscope.studies.scaling.published import (
    FIGURES,
    MEASURED_TIME,
    PUBLISHED,
    PUBLISHED_CORRELATIONS,
    PUBLISHED_SECONDS,
)
from leakscope.studies.scaling.results import ScalingResults, Spread
from leakscope.studies.scaling.settle_five import both_text, five_widths_protocol, statements
from leakscope.studies.scaling.settle_further import settle_further

_BY_KEY = {claim.key: claim for claim in CLAIMS}
_OTHER_CODE = "it is about the publication's own code, which is not part of this package"
_NOT_TESTABLE = {
    "augmentation": "vectors drawn from Gaussian classes have no usual augmentation",
    "unit_tests": _OTHER_CODE,
    "files": f"{_OTHER_CODE}; our run folder passes the same checks, which is tested",
    "deterministic": f"{_OTHER_CODE}; our own reruns write the same bytes, which is tested",
}


def settle(results: Sequence[ScalingResults]) -> list[Settled]:
    """One entry per claim."""
    evidence = sorted_evidence(results)
    settled = {
        key: Settled(_BY_KEY[key], Outcome.NOT_TESTABLE, why=why) for key, why in _NOT_TESTABLE.items()
    }
    settled["runtime"] = _runtime()
    trainings = Trainings.of(evidence.published)
    if trainings is not None:
        for entry in (
            *_cells(trainings),
            *_correlations(trainings),
            *statements(trainings, evidence.decisive, _BY_KEY),
        ):
            settled[entry.claim.key] = entry
    for entry in settle_further(evidence, trainings, _BY_KEY):
        settled[entry.claim.key] = entry
    return complete(CLAIMS, settled)


def _runtime() -> Settled:
    """By a measurement in docs/benchmarks.md: results hold no times, so that reruns write the same bytes."""
    measured = MEASURED_TIME
    slowest = max(measured.compiled_s, measured.plain_loop_s)
    agrees = Outcome.REPRODUCED if slowest < PUBLISHED_SECONDS else Outcome.NOT_REPRODUCED
    ours = f"{measured.compiled_s:.3f} s; as a plain PyTorch loop {measured.plain_loop_s:.2f} s"
    return Settled(_BY_KEY["runtime"], agrees, ours, measured.protocol)


def _cells(trainings: Trainings) -> Iterator[Settled]:
    """The published table, cell by cell."""
    for k, (width, theirs) in enumerate(PUBLISHED.items()):
        count = trainings.config.n_params(width)
        agrees = Outcome.REPRODUCED if count == theirs.n_params else Outcome.REFUTED
        yield Settled(_BY_KEY[f"n_params_{width}"], agrees, f"{count:,}", "counted")
        for figure in FIGURES:
            exact = getattr(exact_row(trainings, width), figure)
            spread: Spread = getattr(trainings.spread.widths[k], figure)
            tolerance = trainings.sd_tolerance if figure.startswith("std_") else trainings.tolerance
            claim = _BY_KEY[f"{figure}_{width}"]
            yield _cell(claim.key, getattr(theirs, figure), exact, spread, tolerance, trainings.spread.n)


def _cell(key: str, theirs: float, exact: float, spread: Spread, tolerance: float, n: int) -> Settled:
    in_range = spread.low - ROUNDING <= theirs <= spread.high + ROUNDING
    by_seeds = abs(exact - theirs) <= tolerance
    why = ""
    if by_seeds and not in_range:
        why = "with its seeds; other initial weights rarely give it"
    elif in_range and not by_seeds:
        why = "within the range over initializations"
    outcome = Outcome.REPRODUCED if by_seeds or in_range else Outcome.SAME_DIRECTION
    return Settled(_BY_KEY[key], outcome, both_text(f"{exact:.3f}", spread, n), five_widths_protocol(n), why)


def _correlations(trainings: Trainings) -> Iterator[Settled]:
    """The three published correlations."""
    success, gap = (trainings.exact_values(figure) for figure in ("attack_auc", "overfit_gap"))
    moves = trainings.tolerance
    size = _log_params(trainings)
    ranges = {
        "auc_vs_log_params": r_range(success, size, moves, 0),
        "auc_vs_overfit_gap": r_range(success, gap, moves, moves),
        "gap_vs_log_params": r_range(gap, size, moves, 0),
    }
    for key, theirs in PUBLISHED_CORRELATIONS.items():
        exact = getattr(trainings.exact.correlations, key)
        spread: Spread | None = getattr(trainings.spread, key)
        low, high = ranges[key]
        by_seeds = low <= theirs.r <= high
        in_range = spread is not None and spread.low <= theirs.r <= spread.high
        why = f"rounding and one record allow {low:.3f} to {high:.3f} with its seeds"
        outcome = Outcome.REPRODUCED if by_seeds or in_range else Outcome.SAME_DIRECTION
        if outcome is Outcome.REPRODUCED and spread is not None and spread.low <= 0 <= spread.high:
            outcome = Outcome.NOISE
        ours = both_text(f"r = {exact.r:.3f}, p = {exact.p:.3f}", spread, trainings.spread.n)
        yield Settled(_BY_KEY[key], outcome, ours, five_widths_protocol(trainings.spread.n), why)


def _log_params(trainings: Trainings) -> list[float]:
    return [math.log2(trainings.config.n_params(width)) for width in trainings.config.hidden_widths]


PUBLICATION = StudyClaims(
    study="scaling",
    publication="Membership Inference in Small MLPs: A Toy Study of Model Size and Overfitting (2603.00412)",
    results_type=ScalingResults,
    claims=CLAIMS,
    settle=settle,
    discussion=discussion_body,
)
