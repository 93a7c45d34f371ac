"""report.html of an attack on one given model, and of the study that knows the truth: tables and ROC."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from leakscope.bank.run_folder import RESULTS, read_json, to_jsonable
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.report.gauge import Gauge
from leakscope.report.page import PAGE, Page, Section, paragraphs
from leakscope.report.study_page import (
    Command,
    bullets,
    closest,
    conventions,
    folder_facts,
    options,
    reproduce,
)
from leakscope.report.tables import table
from leakscope.single_model.page_roc import roc_chart
from leakscope.single_model.report import HEADINGS, footnotes, validation_rows, words

_CONVENTIONS = (
    "AUC: how often a member's score is above a non-member's, ties half; DeLong's 95% interval.",
    "TPR at 5% FPR: Clopper-Pearson's 95% interval, at a threshold chosen on the same records.",
    "Attackers learn from one part of the public records and are judged on the other.",
)


def write_page(folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> Path:
    """report.html of a run folder; returns its path. It tells nothing of single records."""
    results = read_json(folder / RESULTS)
    write_bytes(folder / PAGE, page(results, folder, disclosure).encode())
    return folder / PAGE


def page(results: dict[str, Any], folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> str:
    """The page as text."""
    knows_truth = "private_truth" in results
    sections = [
        *([_truth_section(results)] if knows_truth else []),
        Section(
            "validation",
            "Validation",
            table(HEADINGS, validation_rows(results)) + bullets(footnotes(results)),
        ),
        Section("roc", "ROC", roc_chart(results, folder)),
        Section("attackers", "Attackers", _attackers(results)),
        conventions([*_CONVENTIONS, results["ties"]]),
        reproduce(command(results), results["config"]["seed"], _versions(folder)),
    ]
    return Page(
        f"Who is a member, learned from public records: {results['config'].get('dataset', 'one model')}",
        headline(results),
        [*_facts(results), *folder_facts(folder)],
        sections,
        {},
        _limits(results),
        gauge=_gauge(results),
        redacted=disclosure.redacted,
    ).render()


def headline(results: dict[str, Any]) -> list[str]:
    """What was found, in plain words, with intervals; the truth first where it is known."""
    learned, chosen, *rest = words(results)
    if "private_truth" not in results:
        return [chosen, learned, *rest]
    from leakscope.studies.ensemble.study import target_words

    auc = results["private_truth"][results["chosen"]]["auc"]
    lead = (
        f"On the private records {results['chosen']} ranks a member above a non-member "
        f"{100 * auc['value']:.1f}% of the time (95% interval {100 * auc['low']:.1f}% to "
        f"{100 * auc['high']:.1f}%; guessing gives 50%)."
    )
    return [lead, f"On its validation records: {chosen}", learned, *rest, target_words(results)]


def command(results: dict[str, Any]) -> Command:
    """The command line that asks for this run; an attack's names its files only by their hashes."""
    from leakscope.studies.ensemble.study import PRESETS, EnsembleConfig

    config = results["config"]
    if "dataset" not in config:
        asked = {
            "attacker": config["attacker"],
            "validation_share": config["validation_share"],
            "seed": config["seed"],
        }
        files = ("--public-predictions", "PUBLIC.npz", "--private-predictions", "PRIVATE.npz")
        return Command(("leakscope", "attack", *files, *options(asked), "--out", "runs/again"))
    presets = {name: to_jsonable(asdict(EnsembleConfig(**changes))) for name, changes in PRESETS.items()}
    preset, given = closest(presets, config)
    return Command(
        ("leakscope", "study", "ensemble", "--preset", preset, *options(given), "--out", "runs/again")
    )


def _truth_section(results: dict[str, Any]) -> Section:
    from leakscope.studies.ensemble.study import COMPARISON, comparison_rows

    note = "The published figures are from other, undisclosed data: a companion, not a target."
    return Section(
        "truth", "Validation, truth, publication", table(COMPARISON, comparison_rows(results)), note
    )


def _attackers(results: dict[str, Any]) -> Markup:
    rows = [
        [
            name,
            ", ".join(f"{option} {value}" for option, value in found["settings"].items()),
            "yes" if found["stopped_early"] else "no",
            f"{found['private']['low']:.3f} to {found['private']['high']:.3f}",
        ]
        for name, found in results["attackers"].items()
    ]
    sha = results["submission_sha256"][:16]
    return table(("attacker", "settings", "stopped before it settled", "private scores, range"), rows) + (
        paragraphs([f"{results['chosen']} was chosen; submission.csv (sha256 {sha}) holds its scores."])
    )


def _gauge(results: dict[str, Any]) -> Gauge | None:
    truth = results.get("private_truth", results["attackers"])
    auc = truth[results["chosen"]]["auc"]
    if auc["value"] is None:
        return None
    where = "private" if "private_truth" in results else "validation"
    start = min(0.4, float(np.floor(10 * auc["low"]) / 10))
    label = f"AUC on the {where} records, {results['chosen']}"
    return Gauge(label, auc["value"], auc["low"], auc["high"], start, 1.0, reference=0.5)


def _versions(folder: Path) -> dict[str, Any]:
    """Of the packages the target was trained with, where it was trained here."""
    path = folder / "target" / "manifest.json"
    return dict(read_json(path)["versions"]) if path.exists() else {}


def _facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    config, public, split = results["config"], results["public"], results["split"]
    target = (
        f"{config['net']} on {config['dataset']}, {config['epochs']} epochs"
        if "dataset" in config
        else "given by its saved predictions"
    )
    hashes = [(f"{part.capitalize()} sha256", config[f"{part}_sha256"][:16]) for part in ("public", "private")
              if f"{part}_sha256" in config]  # fmt: skip
    return [
        ("Target", target),
        (
            "Public records",
            f"{public['records']:,}, {public['members']:,} of them members ({public['kind']})",
        ),
        ("Split", f"{split['training']:,} to learn from, {split['validation']:,} to judge on"),
        ("Private records", f"{results['private']['records']:,}"),
        ("Attackers", ", ".join(results["attackers"])),
        *hashes,
    ]


def _limits(results: dict[str, Any]) -> list[str]:
    lines = [
        "It is about one model: another training of the same network may leak more or less.",
        "The attackers know the membership of the public records; without such records they could not learn.",
    ]
    if len(results["attackers"]) > 1:
        lines.append("The attacker was chosen for its validation AUC, so that figure is slightly flattering.")
    if "private_truth" not in results:
        lines.append(
            "How well the private records were scored is not known: their membership is not looked at."
        )
    return lines
