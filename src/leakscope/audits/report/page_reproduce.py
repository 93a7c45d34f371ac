"""How to get the same numbers again: commands, the settings as a config file, versions."""

from __future__ import annotations

import json
from typing import Any

from leakscope.bank.bank import Bank
from leakscope.report.page import Section
from leakscope.report.templates import template

Results = dict[str, Any]
_OF_THE_MODEL = ("net", "net_options", "net_sha256", "evaluated_epochs")


def reproduce_section(results: Results, bank: Bank) -> Section:
    """Commands, settings, versions."""
    body = template(
        "reproduce.html.j2",
        run=bank.folder.name,
        settings=settings_toml(results),
        recipe=json.dumps(results["population"]["recipe"], indent=2, ensure_ascii=False),
        versions=bank.manifest.versions,
        records_sha256=results["population"]["records_sha256"],
        recipe_note=bank.manifest.note or "",
    )
    return Section("reproduce", "Reproduce", body)


def settings_toml(results: Results) -> str:
    """The audit as a config file; empty where a model of the user's own or saved answers were judged."""
    population, config = results["population"], results["config"]
    recipe = population["recipe"]
    if "net" not in recipe or config.get("targets"):
        return ""
    training = {k: v for k, v in recipe.items() if k not in _OF_THE_MODEL and v not in (None, [], {}, "")}
    lines = [
        *_section("data", {"dataset": config["records"]}),
        *_section("model", {"net": recipe["net"], "options": recipe["net_options"]}),
        *_section("training", training),
        *_section("population", {"models": _trained(population), "seed": population["seed"]}),
        *_section("attacks", {"names": config["attacks"], "fpr": config["fpr_budgets"]}),
    ]
    gate = {k: v for k, v in (config.get("gate") or {}).items() if v not in (None, [], ())}
    if gate and "max_epsilon" not in gate:
        gate = {k: v for k, v in gate.items() if k not in ("delta", "confidence")}
    return "\n".join([*lines, *(_section("gate", gate) if gate else [])]).strip()


def _trained(population: Results) -> int:
    return int(population["models"]) + len(population["lost_models"])


def _section(name: str, settings: Results) -> list[str]:
    return [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in settings.items()), ""]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False)  # text, numbers and bools are written alike in both
