"""What `verify` says of a run without problems: its limits, and what was not recomputed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from leakscope.bank.run_folder import files_outside_banks
from leakscope.evaluate.gate import LimitOutcome
from leakscope.evaluate.record_metadata import FACTS
from leakscope.evaluate.results import AuditResults

_DRAWN = {".html", ".md", ".png"}
_OUTPUTS = {*_DRAWN, ".csv", ".parquet"}
_OF_RECORDS = ("previews.npz", "tokens.npz")
"""Copies of records, which a run folder does not have."""


def limits_applied(results: Any) -> Iterator[str]:
    """The gate and the claim of an audit: nothing in a folder shows that they are those somebody set."""
    if not isinstance(results, AuditResults):
        return
    if results.gate is None:
        yield "Gate: none was set."
    else:
        yield f"Gate: {'; '.join(map(_limit_text, results.gate.limits))}."
    if results.claim is not None:
        claim = results.claim.verdict
        yield f"Claim: epsilon = {claim.epsilon:g} at delta = {claim.delta:g}, {claim.status}."


def _limit_text(limit: LimitOutcome) -> str:
    at = "" if limit.fpr is None else f" at {100 * limit.fpr:g}% FPR"
    return f"{limit.limit_on}{at} = {limit.limit:g}, {limit.outcome}"


def only_by_checksum(folder: Path, rewritten: Collection[str], unlike: Collection[str]) -> Iterator[str]:
    """The outputs of a run that nothing but checksums vouches for.

    Args:
        folder: the run folder.
        rewritten: files that were written again and compared.
        unlike: what of them differs although they say the same, in words.
    """
    names = [path.relative_to(folder).as_posix() for path in files_outside_banks(folder)]
    others = [name for name in names if _is_output(name) and name not in rewritten]
    places = dict.fromkeys("figures" if name.startswith("figures/") else name for name in others)
    what = [*places, *unlike]
    if not what:
        return
    note = f"Compared only with checksums in this folder, and unchanged: {', '.join(what)}."
    is_drawn = bool(unlike) or any(Path(name).suffix in _DRAWN for name in others)
    yield f"{note} `leakscope report {folder}` writes pages and figures again." if is_drawn else note


def _is_output(name: str) -> bool:
    return name in _OF_RECORDS or (Path(name).suffix in _OUTPUTS and name != FACTS)
