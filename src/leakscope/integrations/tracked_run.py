"""What a tracker is sent about an audit: figures with their intervals, settings, words and files.

A tracker is often shared, so it gets what the run's page says and no more. For a run that was redacted, this
is the redacted page. `results.json` accompanies the private page of a population only: for a redacted run or
a given model, it holds what their pages leave out. Facts that name files are never sent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leakscope import __version__
from leakscope.audits.report.page import headline
from leakscope.bank.run_folder import RESULTS
from leakscope.disclosure import FEWEST_RECORDS, is_redacted
from leakscope.errors import InputError
from leakscope.evaluate.coarse import shareable
from leakscope.evaluate.results import AuditResults, SetFigures
from leakscope.evaluate.sentences import seeds_text
from leakscope.evaluate.verdict import Verdict
from leakscope.report.page import PAGE, REDACTED_PAGE
from leakscope.stats.estimate import Estimate

PREFIX = "leakscope/"
"""Starts every name, so that none meets one of the user's own in the same run of a tracker."""
LONGEST_VALUE, LONGEST_TEXT = 500, 4000
"""Characters of a setting and of a text; the smallest limits among the trackers and their stores."""
_LONGEST_NAME = 60
_HASH = 16


@dataclass(frozen=True)
class TrackedRun:
    """An audit as a tracker is sent it. All names start with `leakscope/`.

    Attributes:
        name: name of the run folder.
        metrics: name -> figure; an end of an interval ends with `_low` or `_high`. All are finite.
        params: name -> setting, as text.
        tags: name -> word or text: rating, outcome, strongest attack, verdict.
        files: files to store.
    """

    name: str
    metrics: Mapping[str, float]
    params: Mapping[str, str]
    tags: Mapping[str, str]
    files: tuple[Path, ...]


def tracked_run(verdict: Verdict) -> TrackedRun:
    """What a tracker is sent about an audit.

    Raises:
        InputError: the run has no page that may be sent; `leakscope report` writes it.
    """
    results, is_private = shareable(verdict.results), not is_redacted(verdict.folder)
    return TrackedRun(
        name=verdict.folder.resolve().name,
        metrics={f"{PREFIX}{name}": value for name, value in _metrics(results, is_private)},
        params={f"{PREFIX}{name}": shown(value, LONGEST_VALUE) for name, value in _params(results)},
        tags={
            f"{PREFIX}{name}": shown(value, LONGEST_TEXT)
            for name, value in _tags(verdict, results, is_private)
        },
        files=_files(verdict.folder, is_private, results),
    )


def shown(value: object, longest: int) -> str:
    """A value as text: the home folder as ~, and not longer than the trackers take."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _files(folder: Path, is_private: bool, results: AuditResults) -> tuple[Path, ...]:
    page = folder / (PAGE if is_private else REDACTED_PAGE)
    if not page.exists():
        redact = "" if is_private else " --redact"
        raise InputError(f"{page} is missing; write it with: leakscope report {folder}{redact}")
    return (page, folder / RESULTS) if is_private and not results.is_of_one_model else (page,)


def _metrics(results: AuditResults, is_private: bool) -> Iterator[tuple[str, float]]:
    """The defined figures. An undefined one is left out: a tracker would draw it as a number."""
    for name, value in _figures(results, is_private):
        if value is not None and math.isfinite(value):
            yield name, float(value)


def _figures(results: AuditResults, is_private: bool) -> Iterator[tuple[str, float | None]]:
    strongest = results.attacks[results.strongest_attack]
    yield from _ends("auc", results.headline.auc)
    yield from _ends("advantage", strongest.advantage)
    for rate in strongest.tpr_at_fpr:
        yield from _ends(f"tpr_at_fpr_{rate.fpr:g}", rate)
    for name, set_of in (
        ("most_exposed_auc", results.headline.most_exposed),
        ("canaries_auc", results.headline.canaries),
    ):
        if set_of is not None and _is_on_page(set_of, is_private and not results.is_of_one_model):
            yield from _ends(name, set_of.auc)
    if results.exposed is not None:
        yield "exposed_records", results.exposed.records
        yield "exposed_share", results.exposed.share
    if results.leakage.checkpoints and results.leakage.checkpoints[-1].bits.has_interval:
        yield from _ends("bits", results.leakage.checkpoints[-1].bits)
    yield "epsilon_lower_bound", strongest.epsilon.general.value
    yield from _fit(results)
    for name, attack in zip(_names(results.attacks), results.attacks.values(), strict=True):
        yield from _ends(f"attacks/{name}/auc", attack.auc)


def _is_on_page(figures: SetFigures, is_open: bool) -> bool:
    """True where the run's page has the figures of a set, too."""
    return figures.reason is None and (is_open or figures.records >= FEWEST_RECORDS)


def _fit(results: AuditResults) -> Iterator[tuple[str, float | None]]:
    for name, fit in (("accuracy", results.accuracy), ("error", results.error)):
        if fit is not None:
            yield from _ends(f"{name}_members", fit.members)
            yield from _ends(f"{name}_nonmembers", fit.nonmembers)


def _ends(name: str, figure: Estimate) -> Iterator[tuple[str, float | None]]:
    yield name, figure.value
    yield f"{name}_low", figure.low
    yield f"{name}_high", figure.high


def _names(labels: Iterable[str]) -> list[str]:
    """Labels of attacks as names that every tracker takes, all different."""
    names: list[str] = []
    for label in labels:
        plain = re.sub(r"\W+", "_", label, flags=re.ASCII).strip("_")[:_LONGEST_NAME] or "attack"
        taken = [name for name in names if name == plain or re.fullmatch(rf"{re.escape(plain)}_\d+", name)]
        names.append(f"{plain}_{len(taken) + 1}" if taken else plain)
    return names


def _params(results: AuditResults) -> Iterator[tuple[str, Any]]:
    """Settings that identify the audit; neither files nor the text of the config, which may name any."""
    population, gate = results.population, results.config.gate
    yield "records", results.config.records
    yield "records_sha256", population.records_sha256[:_HASH]
    yield "number_of_records", population.records
    yield "members", population.members
    yield "models", population.models
    yield "targets", population.targets
    yield "seed", seeds_text(population)
    for name, value in population.recipe.items():
        if name == "code":  # digests
            continue
        yield f"recipe/{_names([name])[0]}", value
    for name, value in asdict(gate).items() if gate else ():
        if value not in (None, ()):
            yield f"gate/{name}", value


def _tags(verdict: Verdict, results: AuditResults, is_private: bool) -> Iterator[tuple[str, Any]]:
    yield "rating", verdict.rating
    yield "rating_at_most", results.rating.at_most
    yield "gate", "not set" if results.gate is None else results.gate.outcome
    yield "outcome", verdict.outcome or "nothing to decide"
    yield "strongest_attack", verdict.strongest_attack
    yield "attacks", ", ".join(results.attacks)
    yield "verdict", " ".join(headline(results))
    yield "redacted", "no" if is_private else "yes"
    yield "version", __version__
