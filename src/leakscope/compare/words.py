"""A comparison in plain words: did it help, by how much, at what cost, and what could have been missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

NAMES = {
    "auc": "AUC",
    "advantage": "advantage",
    "record_advantage": "mean advantage of single records",
    "bits": "bits about one membership",
}
OUTCOMES = {
    "helped": "gives away less than",
    "worse": "GIVES AWAY MORE than",
    "mixed": "GIVES AWAY MORE in some figures and less in others than",
    "no difference": "shows no difference beyond chance from",
}


def outcome_of(leakage: Sequence[Row]) -> str:
    """ "helped", "worse", "mixed" or "no difference", by the simultaneous intervals."""
    found = {row["outcome"] for row in leakage}
    if "higher" in found:
        return "mixed" if "lower" in found else "worse"
    return "helped" if "lower" in found else "no difference"


def figure_name(row: Row) -> str:
    """A figure in words, such as "TPR at 1% FPR (lira)"."""
    name = f"TPR at {100 * row['fpr']:g}% FPR" if row["measure"] == "tpr" else NAMES[row["measure"]]
    return f"{name} ({row['attack']})" if row["attack"] else name


def sentences(found: Row, baseline: Row, other: Row, strongest: str) -> list[str]:
    """The answer for one run, most important first.

    Args:
        found: one entry of `comparisons` of results.json.
        baseline: what results.json says about the baseline.
        other: about the run it is compared with.
        strongest: the attack with the highest mean AUC.
    """
    return [
        *_distrust(baseline, other),
        *_answer(found, baseline["name"]),
        _strongest(found, strongest),
        *_worse_in_words(found),
        _cost(found),
        *_records(found),
        *_lost(baseline, other),
    ]


def _distrust(baseline: Row, other: Row) -> list[str]:
    return [
        f"DO NOT TRUST THIS COMPARISON ({run['name']}): {sentence}"
        for run in (baseline, other)
        for sentence in run["hygiene_failed"]
    ]


def _answer(found: Row, baseline: str) -> list[str]:
    if all(row["low"] is None for row in found["leakage"]):
        return [f"Nothing can be told of {found['run']} and {baseline}: too few models for an interval."]
    outcomes = [row["outcome"] for row in found["leakage"]]
    lower, higher = outcomes.count("lower"), outcomes.count("higher")
    return [
        f"{found['run']} {OUTCOMES[found['outcome']]} {baseline}.",
        f"Of {len(outcomes)} leakage figures, {lower} lower and {higher} higher beyond intervals that hold "
        "for all of them at once.",
    ]


def _strongest(found: Row, attack: str) -> str:
    (row,) = (r for r in found["leakage"] if r["measure"] == "auc" and r["attack"] == attack)
    return (
        f"The strongest attack ({attack}) ranks a member above a non-member {row['other']:.1%} of the time "
        f"instead of {row['baseline']:.1%}: {_change_in_points(row)}."
    )


def _worse_in_words(found: Row) -> list[str]:
    higher = [row for row in found["leakage"] if row["outcome"] == "higher"]
    if not higher:
        return []
    named = "; ".join(
        f"{figure_name(row)} {_plain(row['baseline'])} to {_plain(row['other'])}" for row in higher[:4]
    )
    more = f", and {len(higher) - 4} more" if len(higher) > 4 else ""
    return [f"Regression: {named}{more}."]


def _cost(found: Row) -> str:
    if not found["accuracy"]:
        return "What it costs in accuracy is not known: a run keeps no correct answers."
    row = found["accuracy"]["nonmembers"]
    now = (
        f"it gets {row['other']:.1%} of the records it was not trained on right instead of "
        f"{row['baseline']:.1%}"
    )
    if row["low"] is None:
        return f"Accuracy: {now}; too few models for an interval."
    if row["high"] < 0:
        return f"It costs accuracy: {now}, {_change_in_points(row)}."
    if row["low"] > 0:
        return f"Accuracy is better: {now}, {_change_in_points(row)}."
    return f"No cost in accuracy shows: {now}, {_change_in_points(row)}."


def _records(found: Row) -> list[str]:
    records = found["records"]
    if not records:
        return []
    return [
        f"Single records: {records['exposed_other']:,} are exposed instead of "
        f"{records['exposed_baseline']:,}; {records['less_exposed']:,} became less exposed and "
        f"{records['more_exposed']:,} more "
        f"(at most {records['false_discovery_rate']:.0%} of these are expected to be chance)."
    ]


def _lost(baseline: Row, other: Row) -> list[str]:
    return [
        f"{run['lost_models']} models of {run['name']} diverged and are left out."
        for run in (baseline, other)
        if run["lost_models"]
    ]


def _change_in_points(row: Row) -> str:
    """A difference of rates in points with its 95% interval."""
    points = f"{100 * row['difference']:+.1f} points"
    if row["low"] is None:
        return f"{points} (no interval)"
    return f"{points} (95% interval {100 * row['low']:+.1f} to {100 * row['high']:+.1f})"


def _plain(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
