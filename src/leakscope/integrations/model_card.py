"""The verdict as metadata of a model card: the `model-index` that the Hugging Face Hub reads.

    model-index:
    - name: my-model
      results:
      - task: {type: membership-inference, ...}
        metrics:
        - type: membership_inference_auc
          value: 0.83
          args: {interval_95: [0.80, 0.86], ...}

The types are named after membership inference: an AUC of .9 here is a leak, not a good model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from leakscope.errors import InputError, printable
from leakscope.evaluate.coarse import shareable
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.verdict import Verdict
from leakscope.stats.estimate import Estimate

_DIGITS = 4


@dataclass(frozen=True)
class CardMetric:
    """One figure of a model card.

    Attributes:
        type: machine-readable name.
        name: the figure in words, with its interval.
        value: the figure.
        low: lower end of the 95% interval; None: there is no interval.
        high: upper end of the 95% interval; None: there is no interval.
    """

    type: str
    name: str
    value: float
    low: float | None
    high: float | None


def model_card(verdict: Verdict, model: str) -> str:
    """The `model-index` of an audit as YAML, for the metadata at the top of a model's README.md.

    Args:
        verdict: of an audit.
        model: name of the model.

    Raises:
        InputError: a check of the audit failed, so that no figure of it should be quoted.
    """
    results = shareable(verdict.results)
    if verdict.rating == "inconclusive":
        raise InputError(
            f"{verdict.folder}: the rating is inconclusive ({results.rating.reason}); a model card should "
            "not quote this audit"
        )
    lines = [
        "model-index:",
        f"- name: {_text(model)}",
        "  results:",
        "  - task:",
        "      type: membership-inference",
        '      name: "Membership inference: what the model reveals about who was in its training set"',
        "    dataset:",
        f"      type: {_text(results.config.records)}",
        f"      name: {_text(results.config.records)}",
        "    metrics:",
        *(line for metric in card_metrics(results) for line in _metric_lines(metric, results)),
    ]
    return "\n".join(lines) + "\n"


def card_metrics(results: AuditResults) -> list[CardMetric]:
    """The figures of a model card: AUC, and the TPR at each FPR that can be measured."""
    return list(_defined(results))


def _defined(results: AuditResults) -> Iterator[CardMetric]:
    strongest = results.attacks[results.strongest_attack]
    figures: list[tuple[str, str, Estimate]] = [
        ("auc", "Membership inference AUC", results.headline.auc),
        *(
            (f"tpr_at_fpr_{rate.fpr:g}", f"Membership inference TPR at {100 * rate.fpr:g}% FPR", rate)
            for rate in strongest.tpr_at_fpr
        ),
    ]
    for kind, name, figure in figures:
        if figure.value is not None and math.isfinite(figure.value):
            shown = f"{name} (95% interval {_shown(figure.low)} to {_shown(figure.high)})"
            has_interval = figure.low is not None and figure.high is not None
            label = shown if has_interval else f"{name} (no interval)"
            yield CardMetric(f"membership_inference_{kind}", label, figure.value, figure.low, figure.high)


def _metric_lines(metric: CardMetric, results: AuditResults) -> list[str]:
    interval = [] if metric.low is None else [f"interval_95: [{_shown(metric.low)}, {_shown(metric.high)}]"]
    population = results.population
    args = [
        *interval,
        f"rating: {_text(results.rating.level)}",
        f"attack: {_text(results.strongest_attack)}",
        f"models: {population.models}",
        f"targets: {population.targets}",
        f"records: {population.records}",
    ]
    return [
        f"    - type: {metric.type}",
        f"      name: {_text(metric.name)}",
        f"      value: {_shown(metric.value)}",
        "      args:",
        *(f"        {line}" for line in args),
    ]


def _shown(value: float | None) -> str:
    return "" if value is None else repr(round(value, _DIGITS))


def _text(text: str) -> str:
    """A string of YAML: JSON is a part of YAML, so every character is quoted as it should be."""
    return json.dumps(printable(text))
