"""An audit's report.html: the verdict first, then what it rests on, record by record where it may."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakscope.audits.report.page_figures import (
    bits_section,
    groups_section,
    prior_section,
    roc_section,
    scores_section,
)
from leakscope.audits.report.page_gauge import audit_gauge
from leakscope.audits.report.page_method import checks_section, method_section, more_section
from leakscope.audits.report.page_records import record_rows, records_section
from leakscope.audits.report.page_reproduce import reproduce_section
from leakscope.bank.bank import Bank
from leakscope.bank.manifest import Manifest
from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.evaluate.judge import converged_models
from leakscope.evaluate.verdict import Verdict
from leakscope.report.page import PAGE, Badge, render
from leakscope.report.roc_bands import RocBand
from leakscope.types import Design, Scores

Results = dict[str, Any]
_SHOWN_HASH = 16


def write_page(
    results: Results,
    design: Design,
    scores: Mapping[str, Scores],
    bands: Mapping[str, RocBand],
    folder: Path,
    disclosure: Disclosure,
) -> None:
    """report.html of an audit's run folder that has all else.

    Args:
        results: the content of results.json.
        design: of the models that did not diverge.
        scores: attack -> its scores.
        bands: attack -> its ROC.
        folder: the run folder.
        disclosure: what the page may tell about single records.
    """
    bank, verdict = Bank.open(folder), Verdict(results, folder)
    signals, _ = converged_models(bank)
    rows = record_rows(folder, results, signals, design, disclosure)
    page = render(
        title=f"What {_whose(results)} gives away: {results['config']['records']}",
        headline=headline(verdict),
        facts=facts(results, bank),
        sections=[
            roc_section(results, bands),
            prior_section(results),
            scores_section(results, scores, design, verdict.strongest_attack),
            records_section(rows, results, disclosure),
            groups_section(results, verdict.strongest_attack),
            bits_section(results),
            checks_section(results),
            more_section(results),
            method_section(results, disclosure),
            reproduce_section(results, bank),
        ],
        arrays=rows.arrays,
        limits=limits(verdict),
        gauge=audit_gauge(results, verdict.strongest_attack),
        redacted=disclosure.redacted,
        badge=_badge(verdict),
        scripts=("audit.js",),
    )
    write_bytes(folder / PAGE, page.encode("utf-8", "replace"))


def headline(verdict: Verdict) -> list[str]:
    """The verdict: a failed check before everything, then the answer, then what follows from it."""
    alarms = verdict.hygiene_in_words("failed")
    findings = [line for line in verdict.findings() if line not in alarms]
    return [*alarms, answer(verdict), *findings]


def answer(verdict: Verdict) -> str:
    """Does membership show? In one sentence, with the interval."""
    auc = verdict.results["attacks"][verdict.strongest_attack]["auc"]
    interval = "one target, no interval"
    if auc["low"] is not None:
        interval = f"95% interval {auc['low']:.1%} to {auc['high']:.1%}"
    how_often = f"{auc['value']:.1%} of the time ({interval}; guessing gives 50%)"
    if auc["low"] is not None and auc["low"] > 0.5:
        return f"Membership shows: an attacker ranks a member above a non-member {how_often}."
    return (
        "No attack here tells members from others better than guessing: a member ranks above a non-member "
        f"{how_often}."
    )


def limits(verdict: Verdict) -> list[str]:
    """What the page does not show."""
    more = [
        "The AUC is an average over records: a few may be exposed completely where most are safe.",
        "Whoever sees more than the answers, like weights or gradients, may find more.",
    ]
    return [*verdict.limits(), *more]


def facts(results: Results, bank: Bank) -> list[tuple[str, str]]:
    """What was audited."""
    population, manifest = results["population"], bank.manifest
    lost = f", {len(population['lost_models'])} more diverged" if population["lost_models"] else ""
    judged = "each judged by the others" if population["targets"] > 1 else "one of them judged"
    if population["models"] == 1:
        judged = "judged alone"
    known = [
        ("Records", f"{population['records']:,} ({results['config']['records']})"),
        ("Members", f"{population['members']:,} of them in a training set"),
        ("Models", f"{population['models']:,}, {judged}{lost}"),
        ("Recipe", recipe_in_words(population["recipe"])),
        ("Attacks", ", ".join(results["attacks"])),
        ("Finished", manifest.created.replace("T", " ").replace("+00:00", " UTC")),
        ("Trained on", _training_cost(manifest)),
        ("Seed", str(population["seed"])),
        ("Records' hash", population["records_sha256"][:_SHOWN_HASH]),
        ("Design's hash", bank.identity.design.sha256[:_SHOWN_HASH]),
        ("Version", f"leakscope {manifest.versions.get('leakscope', 'unknown')}"),
    ]
    return [(name, value) for name, value in known if value]


def recipe_in_words(recipe: Results) -> str:
    """The settings a person looks for first."""
    if "saved" in recipe:
        return f"saved answers ({recipe['saved']}), nothing was trained"
    if "net" not in recipe:
        return str(recipe.get("estimator") or recipe.get("train") or "a model of the user's own")
    options = "".join(f" {name} {value}" for name, value in recipe["net_options"].items())
    return (
        f"{recipe['net']}{options}, {recipe['optimizer']} at {recipe['lr']:g}, {recipe['epochs']} epochs, "
        f"batches of {recipe['batch_size']}"
    )


def _training_cost(manifest: Manifest) -> str:
    if manifest.device is None:
        return ""
    return f"{manifest.device}, {manifest.seconds:,.0f} s"


def _whose(results: Results) -> str:
    return "the model" if results["config"].get("targets") else "this recipe"


def _badge(verdict: Verdict) -> Badge | None:
    if verdict.hygiene_in_words("failed"):
        return Badge("Checks failed", "bad")
    if "gate" not in verdict.results:
        return Badge("No gate was set", "plain")
    return Badge("Gate failed", "bad") if verdict.gate_failed else Badge("Gate passed", "good")
