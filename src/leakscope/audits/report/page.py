"""The report of an audit: the verdict first, then the evidence, down to single records where allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakscope.audits.recipe_text import recipe_text
from leakscope.audits.report.page_figures import (
    bits_section,
    groups_section,
    precision_section,
    roc_section,
    scores_section,
    sets_section,
)
from leakscope.audits.report.page_method import (
    bounds_section,
    checks_section,
    method_section,
    reproduce_section,
)
from leakscope.audits.report.page_records import RecordRows, record_rows, records_section
from leakscope.audits.report.page_redacted import redacted_records_section
from leakscope.audits.report.page_remedies import actions, rating_picture, what_to_do_section
from leakscope.audits.report.page_text import text_sections
from leakscope.bank.bank import Bank
from leakscope.disclosure import FEWEST_RECORDS, Disclosure
from leakscope.dp.page import claim_badge, claim_section
from leakscope.evaluate.attacked import Attacked
from leakscope.evaluate.coarse import about_members, rounding_of, shareable
from leakscope.evaluate.gate import GateOutcome, LimitOutcome
from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.limits import audit_outcome
from leakscope.evaluate.rating_sentences import above_chance, rating_sentence
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.sentences import (
    claim_sentences,
    has_failed_check,
    key_findings,
    limitations,
    opening_sentences,
    seeds_text,
    strongest_sentence,
    title,
)
from leakscope.evaluate.text_results import TextFigures
from leakscope.privacy.settings import PrivacySpent
from leakscope.report.gauge import Gauge
from leakscope.report.levels import Levels
from leakscope.report.page import Badge, Page, Section
from leakscope.report.roc_bands import RocBand, roc_bands, rounded_bands
from leakscope.stats.estimate import Estimate
from leakscope.stats.rounding import Rounding, round_up

_SHOWN_HASH = 16
_LIMITATIONS = (
    "The AUC is an average over records: a few records may be fully exposed while most are safe.",
    "An attacker who sees more than the outputs, such as weights or gradients, may learn more.",
)


def write_report(exact: AuditResults, attacked: Attacked, disclosure: Disclosure) -> None:
    """Writes report.html, report.md and figures/roc.png to the folder of the bank, or the redacted page."""
    results = exact if disclosure.with_membership else shareable(exact)
    bank, redacted = attacked.bank, disclosure.redacted is True
    is_secret = _is_secret(results, disclosure)
    bands = _bands(results, attacked, rounding_of(exact) if is_secret else None)
    rows = RecordRows() if redacted else record_rows(results, attacked, is_secret)
    sections = _sections(results, exact.text, attacked, rows, bands, disclosure)
    Page(
        title=title(results),
        headline=headline(results),
        facts=facts(results),
        sections=[section.rounded() if is_secret else section for section in sections],
        limits=[*limitations(results), *map(results.config.noun.say, _LIMITATIONS)],
        provenance=provenance(bank, is_secret),
        arrays=rows.arrays,
        picture=audit_picture(results),
        actions=actions(results),
        date=finished(bank),
        redacted=redacted,
        badges=[_badge(results), *_claim_badges(results), _rating_badge(results)],
        scripts=("audit.js",),
    ).write(bank.folder)


def _is_secret(results: AuditResults, disclosure: Disclosure) -> bool:
    """Whether the page says nothing about a record that depends on the target's membership."""
    return results.is_of_one_model and not disclosure.with_membership


def _sections(
    results: AuditResults,
    exact_text: TextFigures | None,
    attacked: Attacked,
    rows: RecordRows,
    bands: Mapping[str, RocBand],
    disclosure: Disclosure,
) -> list[Section]:
    folder, redacted = attacked.bank.folder, disclosure.redacted is True
    is_secret = _is_secret(results, disclosure)
    fewest = FEWEST_RECORDS if redacted or is_secret else 0
    return [
        what_to_do_section(results),
        sets_section(results, fewest),
        *_claim_sections(results, redacted),
        roc_section(results, bands, is_secret),
        precision_section(results),
        scores_section(results, attacked, is_secret),
        *text_sections(results, exact_text, folder, redacted),
        redacted_records_section(results, folder) if redacted else records_section(rows, results),
        groups_section(results, fewest),
        bits_section(results),
        checks_section(results),
        bounds_section(results),
        method_section(results, disclosure),
        reproduce_section(results, attacked.bank, disclosure),
    ]


def _bands(results: AuditResults, attacked: Attacked, rounding: Rounding | None) -> Mapping[str, RocBand]:
    """The ROC curves; rounded ones have only the points that the table of attacks has, too."""
    scores = {label: attacked.scores[label] for label in results.attacks}
    if rounding is None:
        return roc_bands(scores, attacked.memberships)
    bands = roc_bands(scores, attacked.memberships, results.config.fpr_budgets)
    return rounded_bands(bands, rounding)


def _claim_sections(results: AuditResults, redacted: bool) -> list[Section]:
    """The claim of differential privacy; none where nothing was claimed or nothing can be concluded."""
    claim = results.claim
    if claim is None:
        return []
    return [claim_section(claim.verdict, claim_sentences(results), claim.supposing_gaussian, redacted)]


def headline(results: AuditResults) -> list[str]:
    """The verdict: failed checks first, then whether membership is detectable, then what else matters."""
    opening = opening_sentences(results)
    if has_failed_check(results):
        return [*opening, rating_sentence(results), *key_findings(results)]
    if undermining(results.hygiene):
        opening = ["Inconclusive: the figures of this audit are unreliable.", *opening]
        return [*opening, rating_sentence(results), strongest_sentence(results), *key_findings(results)]
    is_detectable = results.rating.level not in ("none found", "inconclusive")
    verdict = "is detectable" if is_detectable else _not_detected(results)
    lead = [*opening, f"Membership {verdict}.", rating_sentence(results)]
    return [*lead, strongest_sentence(results), *key_findings(results)]


def _not_detected(results: AuditResults) -> str:
    """What to say where no level is reached, such that no interval beside it refutes it."""
    if above_chance(results):
        return "is barely detectable with these attacks, if at all"
    return "is not detectable with these attacks"


def facts(results: AuditResults) -> list[tuple[str, str]]:
    """What was audited."""
    population = results.population
    is_saved, per_model = "saved" in population.recipe, " per model" if population.targets > 1 else ""
    known = [
        (results.config.noun.say("Records"), _who(results)),
        ("Columns", results.config.source.facts.get("columns", "")),
        ("Columns to check", results.config.source.facts.get("columns to check", "")),
        ("Documents", results.config.source.facts.get("documents", "")),
        ("Documents to check", results.config.source.facts.get("documents to check", "")),
        ("Members", f"{about_members(results)}{per_model}"),
        ("Canaries", results.config.source.facts.get("canaries", "")),
        ("Models", _models(results)),
        (_recipe_name(population.recipe), recipe_text(population.recipe)),
        ("Privacy", "" if population.privacy is None else _privacy_text(population.privacy)),
        ("Attacks", ", ".join(results.attacks)),
        ("Seed", "" if is_saved else seeds_text(population)),
        ("Records sha256", population.records_sha256[:_SHOWN_HASH]),
    ]
    return [(name, value) for name, value in known if value]


def _who(results: AuditResults) -> str:
    """Number and name of those whose membership is in question."""
    population, name = results.population, results.config.records
    rows = "" if population.rows is None else f"{population.rows:,} records, "
    return f"{population.records:,} ({rows}{name})"


def provenance(bank: Bank, is_secret: bool) -> list[tuple[str, str]]:
    """When, where and by which version the bank was made.

    The hash of a design that has the secret members of a target could confirm a guess of them.
    """
    manifest = bank.manifest
    trained = "" if manifest.device is None else f"{manifest.device}, {manifest.seconds:,.0f} s"
    known = [
        ("Finished", finished(bank)),
        ("Trained on", trained),
        ("Design sha256", "" if is_secret else bank.identity.design.sha256[:_SHOWN_HASH]),
        ("leakscope", manifest.versions.get("leakscope", "")),
    ]
    return [(name, value) for name, value in known if value]


def finished(bank: Bank) -> str:
    """When the last model was trained."""
    return str(bank.manifest.created).replace("T", " ").replace("+00:00", " UTC")


def _recipe_name(recipe: Mapping[str, Any]) -> str:
    if "saved" in recipe:
        return "Outputs"
    return "Recipe of references" if "references" in recipe else "Recipe"


def _privacy_text(spent: PrivacySpent) -> str:
    return (
        f"DP-SGD, epsilon {spent.epsilon:.3g} at delta {spent.delta:g} for each record ({spent.accountant})"
    )


def _models(results: AuditResults) -> str:
    population = results.population
    if population.models == 1:
        return "1, without reference models"
    role = "each attacked with the others" if population.targets > 1 else "one target and its references"
    n_diverged = len(population.diverged_models)
    diverged = f"; {n_diverged} more diverged" if n_diverged else ""
    return f"{population.models:,}, {role}{diverged}"


def _badge(results: AuditResults) -> Badge:
    """The gate's outcome; green only where nothing else speaks against the models."""
    if has_failed_check(results):
        return Badge("Inconclusive", "bad")
    if results.gate is None:
        return (
            Badge("Unreliable", "bad") if undermining(results.hygiene) else Badge("No gate was set", "plain")
        )
    badges: dict[GateOutcome, Badge] = {
        "passed": Badge("Gate passed", "good" if audit_outcome(results) == "passed" else "plain"),
        "failed": Badge("Gate failed", "bad"),
        "inconclusive": Badge("Inconclusive", "bad"),
    }
    return badges[results.gate.outcome]


def _claim_badges(results: AuditResults) -> list[Badge]:
    return [] if results.claim is None else [claim_badge(results.claim.verdict)]


def _rating_badge(results: AuditResults) -> Badge:
    """The rating; never green, because nothing found is no proof of safety."""
    level = results.rating.level
    return Badge(f"Rating: {level}", "plain" if level in ("none found", "low") else "bad")


def audit_picture(results: AuditResults) -> Gauge | Levels | None:
    """The gate's tightest limit or, without a gate, the figures of the rating; None if inconclusive."""
    if audit_outcome(results) == "inconclusive" or undermining(results.hygiene):
        return None
    if results.gate is None or results.config.gate is None:
        return rating_picture(results)
    limits = [limit for limit in results.gate.limits if limit.outcome == results.gate.outcome]
    return _of_limit(min(limits, key=_margin), results)


def _margin(outcome: LimitOutcome) -> float:
    """How far the bound is below the limit, as a share of it; a figure without a bound has no margin."""
    if outcome.bound is None:
        return float("-inf")
    return (outcome.limit - outcome.bound) / max(outcome.limit, 1e-12)


def _of_limit(outcome: LimitOutcome, results: AuditResults) -> Gauge:
    limit, is_epsilon = outcome.limit, outcome.limit_on == "max_epsilon"
    passed = outcome.outcome == "passed"
    estimate, label = _figure_of(outcome, results)
    value, low, high = estimate.value, estimate.low, estimate.high
    if outcome.limit_on == "max_auc":
        return Gauge(label, value, low, high, 0.5, 1.0, limit, passed, 0.5, percent=True)
    end = round_up(1.25 * max(x for x in (limit, value, high) if x is not None))
    end = end if is_epsilon else min(end, 1.0)
    return Gauge(label, value, low, high, 0.0, end, limit, passed, percent=not is_epsilon)


def _figure_of(outcome: LimitOutcome, results: AuditResults) -> tuple[Estimate, str]:
    """The figure a limit applies to, and its name."""
    bound = Estimate(outcome.bound, None, None)
    if outcome.attack is None:
        what = f"individually exposed {results.config.noun.many}"
        share = "Upper bound on the share" if outcome.outcome == "passed" else "Share"
        return bound, f"{share} of {what}"
    figures = results.attacks[outcome.attack]
    if outcome.limit_on == "max_epsilon":
        return bound, f"Lower bound on epsilon ({outcome.attack})"
    if outcome.limit_on == "max_tpr":
        point = next(point for point in figures.tpr_at_fpr if point.fpr == outcome.fpr)
        return point, f"TPR at {100 * point.fpr:g}% FPR ({outcome.attack})"
    if outcome.limit_on == "max_advantage":
        return figures.advantage, f"Advantage ({outcome.attack})"
    return figures.auc, f"Chance to rank a member above a non-member (AUC of {outcome.attack})"
