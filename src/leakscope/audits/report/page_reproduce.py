"""How to get the same numbers again: commands, what was audited, the config file, versions."""

from __future__ import annotations

import json

from leakscope.bank.bank import Bank
from leakscope.evaluate.results import AuditResults, SourceKind
from leakscope.evaluate.sentences import seeds_text
from leakscope.report.page import Section
from leakscope.report.templates import template

_SOURCES: dict[SourceKind, str] = {
    "population": "All models were trained for this audit.",
    "given model": "The target's weights were given; its reference models were trained for this audit.",
    "predictions": "The audit evaluated saved outputs; no model was trained.",
    "merged": "The models of several audits were merged; none was trained for this one.",
}


def reproduce_section(results: AuditResults, bank: Bank) -> Section:
    """Commands, what was audited, config file, versions."""
    source, population = results.config.source, results.population
    body = template(
        "reproduce.html.j2",
        run=bank.folder.name,
        source=_SOURCES[source.kind],
        facts={
            **source.facts,
            "Records sha256": population.records_sha256,
            "Seed": seeds_text(population),
        },
        toml=source.toml,
        recipe=json.dumps(dict(population.recipe), indent=2, ensure_ascii=False),
        versions=bank.manifest.versions,
    )
    return Section("reproduce", "Reproduce", body)
