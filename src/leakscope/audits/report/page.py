"""An audit's report.html: the verdict first, then the evidence, down to single records where allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakscope.audits.report.page_figures import (
    bits_section,
    groups_section,
    precision_section,
    roc_section,
)
from leakscope.audits.report.page_gauge import audit_gauge
from leakscope.audits.report.page_method import bounds_section, checks_section, method_section
from leakscope.audits.report.page_records import record_rows, records_section
from leakscope.audits.report.page_reproduce import reproduce_section
from leakscope.audits.report.page_scores import scores_section
from leakscope.bank.bank import Bank
from leakscope.bank.manifest import Manifest
from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.evaluate.judge import Attacked
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.sentences import (
    check_sentences,
    how_often,
    key_findings,
    limitations,
    seeds_text,
    title,
)
from leakscope.report.page import PAGE, Badge, Page
from leakscope.report.roc_bands import RocBand

_SHOWN_HASH = 16
_LIMITATIONS = (
    "The AUC is an average over records: a few records may be fully exposed while most are safe.",
    "An attacker who sees more than the outputs, such as weights or gradients, may learn more.",
)


def write_page(
    results: AuditResults, attacked: Attacked, bands: Mapping[str, RocBand], disclosure: Disclosure
) -> None:
    """report.html of an audit whose run folder holds everything else.

    Args:
        results: the content of results.json.
        attacked: signals, design and scores behind them; its bank is in the run folder.
        bands: label of each attack -> its ROC.
        disclosure: what the page may reveal about single records.
    """
    bank = attacked.bank
    rows = record_rows(results, attacked, disclosure)
    page = Page(
        title=title(results),
        headline=headline(results),
        facts=facts(results, bank),
        sections=[
            roc_section(results, bands),
            precision_section(results),
            scores_section(results, attacked),
            records_section(rows, results),
            groups_section(results),
            bits_section(results),
            checks_section(results),
            bounds_section(results),
            method_section(results, disclosure),
            reproduce_section(results, bank),
        ],
        arrays=rows.arrays,
        limits=[*limitations(results), *_LIMITATIONS],
        gauge=audit_gauge(results),
        redacted=disclosure.redacted,
        badge=_badge(results),
        scripts=("audit.js",),
    )
    write_bytes(bank.folder / PAGE, page.render().encode("utf-8", "replace"))


def headline(results: AuditResults) -> list[str]:
    """The verdict: failed checks first, then whether membership is detectable, then what else matters."""
    return [*check_sentences(results, "failed"), detectable(results), *key_findings(results)]


def detectable(results: AuditResults) -> str:
    """Whether membership is detectable, in one sentence with the interval."""
    low = results.attacks[results.strongest_attack].auc.low
    if low is not None and low > 0.5:
        return (
            "Membership is detectable: the strongest attack ranks a random member above a random non-member "
            f"{how_often(results)}."
        )
    return (
        "Membership is not detectable with these attacks: a random member ranks above a random non-member "
        f"{how_often(results)}."
    )


def facts(results: AuditResults, bank: Bank) -> list[tuple[str, str]]:
    """What was audited."""
    population, manifest = results.population, bank.manifest
    is_saved = "saved" in population.recipe
    known = [
        ("Records", f"{population.records:,} ({results.config.records})"),
        (
            "Members",
            f"{population.members:,} per model" if population.targets > 1 else f"{population.members:,}",
        ),
        ("Models", _models(results)),
        ("Outputs" if is_saved else "Recipe", recipe_text(population.recipe)),
        ("Attacks", ", ".join(results.attacks)),
        ("Finished", str(manifest.created).replace("T", " ").replace("+00:00", " UTC")),
        ("Trained on", _training_cost(manifest)),
        ("Seed", "" if is_saved else seeds_text(population)),
        ("Records sha256", population.records_sha256[:_SHOWN_HASH]),
        ("Design sha256", bank.identity.design.sha256[:_SHOWN_HASH]),
        ("leakscope", manifest.versions.get("leakscope", "")),
    ]
    return [(name, value) for name, value in known if value]


def recipe_text(recipe: Mapping[str, Any]) -> str:
    """The settings a person looks for first."""
    if "saved" in recipe:
        return f"saved {recipe['saved']}"
    if "net" not in recipe:
        return str(recipe.get("estimator") or recipe.get("train") or "a training function")
    options = "".join(f" {name} {value}" for name, value in recipe["net_options"].items())
    return (
        f"{recipe['net']}{options}, {recipe['optimizer']} with learning rate {recipe['lr']:g}, "
        f"{recipe['epochs']} epochs, batch size {recipe['batch_size']}"
    )


def _models(results: AuditResults) -> str:
    population = results.population
    if population.models == 1:
        return "1, without reference models"
    role = "each attacked with the others" if population.targets > 1 else "one target and its references"
    n_diverged = len(population.diverged_models)
    diverged = f"; {n_diverged} more diverged" if n_diverged else ""
    return f"{population.models:,}, {role}{diverged}"


def _training_cost(manifest: Manifest) -> str:
    if manifest.device is None:
        return ""
    return f"{manifest.device}, {manifest.seconds:,.0f} s"


def _badge(results: AuditResults) -> Badge:
    if check_sentences(results, "failed"):
        return Badge("Checks failed", "bad")
    if results.gate is None:
        return Badge("No gate was set", "plain")
    return Badge("Gate passed", "good") if results.gate.passed else Badge("Gate failed", "bad")
