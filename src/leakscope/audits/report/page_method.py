"""The sections a reviewer of the audit reads: checks, further bounds, definitions, how to reproduce."""

from __future__ import annotations

import json
from collections.abc import Mapping

from leakscope.audits.report.cells import percent, rate
from leakscope.bank.bank import Bank
from leakscope.disclosure import Disclosure
from leakscope.evaluate.config import EvaluationConfig, SourceKind
from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.limits import audit_outcome
from leakscope.evaluate.presets import is_of_preset
from leakscope.evaluate.results import AuditResults, EpsilonFigure
from leakscope.evaluate.sentences import seeds_text
from leakscope.privacy.claim import Claim
from leakscope.report.blocks import Absent, Body, Definitions, Heading, Raw, Table
from leakscope.report.page import Section
from leakscope.report.study_page import Command, options
from leakscope.report.templates import template

_TONES = {"ok": "good", "warning": "bad", "unreliable": "bad", "failed": "bad"}
_ROUNDED = (
    "Figures and numbers of members are rounded, and more so where they are about fewer records: from exact "
    "ones, a reader could compute how many members a group has. Intervals allow for the rounding. The exact "
    "figures are in results.json, in the run folder."
)
_SOURCES: dict[SourceKind, str] = {
    "population": "All models were trained for this audit.",
    "given model": "The target's weights were given; its reference models were trained for this audit.",
    "predictions": "The audit evaluated saved outputs; no model was trained.",
    "merged": "The models of several audits were merged; none was trained for this one.",
}


def checks_section(results: AuditResults) -> Section:
    """Can the audit itself be trusted?"""
    # Nothing is green on a page that concludes nothing.
    is_void = audit_outcome(results) == "inconclusive" or bool(undermining(results.hygiene))
    tones = {**_TONES, "ok": "plain"} if is_void else _TONES
    checks = [(check, tones.get(check.status, "plain")) for check in results.hygiene]
    rows = [[check.name, check.status, check.sentence] for check in results.hygiene]
    table = Table(["check", "outcome", "finding"], rows)
    body: Body = [Raw(template("checks.html.j2", checks=checks), [table])]
    if not checks:
        body = [Absent("Nothing is known of the records; no check was run.")]
    return Section("checks", "Checks", body, "Faults in the setup that would make the figures misleading.")


def bounds_section(results: AuditResults) -> Section:
    """Lower bounds on epsilon, and rates at thresholds an attacker could have chosen."""
    bounds = {label: figures.epsilon for label, figures in results.attacks.items()}
    rows = [[label, _epsilon(bound.general), _epsilon(bound.gaussian)] for label, bound in bounds.items()]
    body = [
        Heading("Lower bounds on epsilon"),
        _epsilon_text(results),
        Table(["attack", "any trade-off curve", "Gaussian trade-off curve"], rows),
        Heading("Thresholds from the other models"),
        *_calibrated(results),
    ]
    return Section("more", "Bounds", body)


def _epsilon(bound: EpsilonFigure) -> str:
    return f"{bound.value:.2f}" if bound.value is not None else f"none: {bound.reason}"


def _epsilon_text(results: AuditResults) -> str:
    config = results.config
    median = " We report the median bound over targets." if results.population.targets > 1 else ""
    return config.noun.say(
        f"With {config.confidence:.0%} confidence, training is not (epsilon, {config.delta:g})-"
        "differentially private for any epsilon below the bound, provided that records are "
        f"independent.{median}"
    )


def _calibrated(results: AuditResults) -> Body:
    """Rates reached with thresholds from the other models; a single target has none."""
    rows = [
        [label, percent(point.fpr_budget), rate(point.fpr), rate(point.tpr)]
        for label, figures in results.attacks.items()
        for point in figures.calibrated
        if point.reason is None
    ]
    if not rows:
        return [Absent("Not available: there is only one target, or there are too few non-members.")]
    text = (
        "An attacker has to choose the threshold without knowing the target's members. Here, each target's "
        "threshold comes from the non-members of all other models."
    )
    return [text, Table(["attack", "FPR budget", "FPR reached", "TPR reached"], rows)]


def method_section(results: AuditResults, disclosure: Disclosure) -> Section:
    """The definitions behind the figures."""
    # What the page reveals about single records does not apply to report.md, which has none.
    say = results.config.noun.say
    single = Definitions([(say("Single records"), say(_disclosure_text(results, disclosure)))])
    return Section("method", "Method", [Definitions(_definitions(results)), Raw(single.html())])


def reproduce_section(results: AuditResults, bank: Bank, disclosure: Disclosure) -> Section:
    """Commands, what was audited, config file, versions."""
    source, population = results.config.source, results.population
    command = "" if source.kind == "merged" else _command(results, disclosure)
    facts = {**source.facts, "Records sha256": population.records_sha256, "Seed": seeds_text(population)}
    body = template(
        "reproduce.html.j2",
        run=bank.folder.name,
        source=_SOURCES[source.kind],
        facts=facts,
        toml=source.toml,
        command=command if source.toml or "file" in source.facts else "",
        recipe=json.dumps(dict(population.recipe), indent=2, ensure_ascii=False),
        versions=bank.manifest.versions,
    )
    return Section("reproduce", "Reproduce", [Raw(body)])


def _command(results: AuditResults, disclosure: Disclosure) -> str:
    """The command that repeats this audit of the same source, whatever its config file says."""
    config, source = results.config, results.config.source
    population, n_models = results.population, None
    if source.kind != "predictions":
        n_models = population.models + len(population.diverged_models) - len(config.targets or ())
    pinned = {
        "models": n_models,
        "unit": config.unit,
        "queries": population.recipe.get("queries"),
        "attacks": config.attacks,
        "fpr": config.fpr_budgets,
        "redact": disclosure.redacted or None,
        "with_membership": disclosure.with_membership or None,
        **_limits(config),
    }
    columns = {name[2:]: value for name, value in source.facts.items() if name.startswith("--")}
    of_file = {"predictions": source.facts.get("file"), **columns}
    given = ["audit.toml"] if source.toml else options(of_file)
    return str(Command(("leakscope", "audit", *given, *options(_given(pinned)))))


def _limits(config: EvaluationConfig) -> dict[str, object]:
    """Gate and claim as options of the command line, which may be where they came from.

    Limits that have no option, those on epsilon and on the share of exposed records, are in the config file.
    """
    given: dict[str, object] = {}
    if config.gate is not None:
        gate = config.gate
        own_auc = None if is_of_preset(gate, gate.max_auc or 0.0) else gate.max_auc
        own_advantage = None if is_of_preset(gate, gate.max_advantage or 0.0) else gate.max_advantage
        own_tpr = [f"{one.fpr:g}:{one.tpr:g}" for one in gate.max_tpr if not is_of_preset(gate, one)]
        given = {
            "gate": gate.preset,
            "max_auc": own_auc,
            "max_advantage": own_advantage,
            "max_tpr": own_tpr or None,
        }
    claim = config.claim
    if claim is not None and claim == Claim(claim.epsilon or 0.0, claim.delta):  # all that the option can say
        given["claim"] = [f"{claim.epsilon:g}", f"{claim.delta:g}"]
    return _given(given)


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _choice(results: AuditResults) -> str:
    """How the strongest attack is chosen without raising its AUC."""
    if results.population.targets == 1:
        how = "on one half of the records is measured on the other half"
    else:
        how = "on one half of the records and one half of the models is measured on the other halves"
    return f"The attack that is strongest {how}, so its AUC is not raised by the choice."


def _definitions(results: AuditResults) -> list[tuple[str, str]]:
    intervals = (
        "95%, for other records queried on the same model. They say nothing about another training run."
        if results.population.targets == 1
        else "95%. Intervals are for records like these: another sample of records, with models trained on "
        "it. Narrower ones, for these records (other models trained on random halves of them), are in the "
        "table of intervals. Both allow for references and records that targets share. For a single record: "
        "Clopper-Pearson for its rates and Newcombe's square-and-add for their difference, over models "
        "trained with and without it."
    )
    lines = [
        ("Member", "A record of the model's training set. Higher scores always mean member."),
        ("ROC", "Ties are exact: a threshold includes all records with the same score or none. There is no "
         "interpolation."),
        ("TPR at an FPR", "The TPR at the threshold whose expected FPR is the given one; a model that leaks "
         "nothing has a TPR equal to the FPR on average. The threshold is chosen on the target itself."),
        ("Advantage", "TPR - FPR on each half of the records, at the best threshold of the other half."),
        ("Strongest attack", _choice(results)),
        ("Intervals", intervals),
        ("Not measurable", "An FPR below one over the number of non-members cannot be observed."),
    ]  # fmt: skip
    if results.exposed:
        lines += [
            ("Risk of a record", "TPR - FPR of one record over the models. A model recognizes the record "
             f"when {results.exposed.decision}."),
            ("Exposed", "Benjamini and Hochberg's procedure on one-sided Fisher tests: at most "
             f"{results.exposed.false_discovery_rate:.0%} of the exposed records are expected to be false "
             "alarms."),
        ]  # fmt: skip
    say = results.config.noun.say
    return [*((say(name), say(text)) for name, text in lines), *_unit_definition(results)]


def _unit_definition(results: AuditResults) -> list[tuple[str, str]]:
    """Who is a member where records belong to units."""
    noun, rows = results.config.noun, results.population.rows
    if rows is None:
        return []
    text = (
        f"The {rows:,} records belong to {results.population.records:,} {noun.many}. All records of one "
        f"{noun.one} are in a training set, or none is. Their scores are combined into one score for the "
        f"{noun.one}: log likelihood ratios are added, other scores are averaged."
    )
    return [(noun.say("Record"), text)]


def _disclosure_text(results: AuditResults, disclosure: Disclosure) -> str:
    """What the page reveals about single records, and that its figures are rounded for that."""
    text = _single_records(results, disclosure)
    return f"{text} {_ROUNDED}" if results.is_rounded else text


def _single_records(results: AuditResults, disclosure: Disclosure) -> str:
    if disclosure.redacted:
        return (
            "This page has figures about many records together. It has no row about a single record, says "
            "nothing about which models were trained on it, and shows keyed ids only."
        )
    if not results.is_of_one_model:
        return (
            "This page says which models were trained on a record. These training sets were drawn at random "
            "for the audit, so this is no secret about a person."
        )
    if disclosure.with_membership:
        return "As requested, this file says which records the model was trained on."
    return (
        "This file does not say which records the model was trained on, and nothing it says about a record "
        "depends on that: outputs and bits of records are those of the reference models alone. "
        "The option --with-membership includes membership and scores."
    )
