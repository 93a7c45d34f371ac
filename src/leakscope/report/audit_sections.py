"""The longer tables of an audit's report.md: hygiene, precision, calibration, epsilon, bits, groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Results = dict[str, Any]


def hygiene_section(results: Results) -> list[str]:
    """What was checked before anything is believed."""
    checks = results.get("hygiene", [])
    rows = [[check["name"], check["status"], check["sentence"]] for check in checks]
    return ["## Checked first", "", *_table(["check", "outcome", "what was found"], rows), ""] if rows else []


def attacker_section(results: Results) -> list[str]:
    """What an attacker gets who must choose a threshold and meets few members; every attack."""
    points = [(name, point) for name, f in results["attacks"].items() for point in f["tpr_at_fpr"]]
    resolved = [(name, point) for name, point in points if point["value"] is not None]
    if not resolved:
        return []
    priors = [entry["prior"] for entry in resolved[0][1]["precision"]]
    headings = ["attack", "FPR", "TPR", *(f"precision if {prior:.0%} are members" for prior in priors)]
    rows = [
        [name, _percent(point["fpr"]), _figure(point), *(_figure(entry) for entry in point["precision"])]
        for name, point in resolved
    ]
    return ["## If few are members", "", *_table(headings, rows), ""]


def calibrated_section(results: Results) -> list[str]:
    """TPR and FPR reached with thresholds from the other models."""
    rows = [
        [name, _percent(point["fpr_budget"]), _figure(point["fpr"]), _figure(point["tpr"])]
        for name, figures in results["attacks"].items()
        for point in figures["calibrated"]
        if point["reason"] is None
    ]
    if not rows:
        return []
    text = "Thresholds chosen on the other models' non-members, as an attacker must; all targets count."
    headings = ["attack", "FPR wanted", "FPR reached", "TPR reached"]
    return ["## With thresholds from the other models", "", text, "", *_table(headings, rows), ""]


def epsilon_section(results: Results) -> list[str]:
    """Lower bounds on epsilon."""
    some = next(iter(results["attacks"].values()))["epsilon"]["general"]
    rows = [
        [name, _epsilon(figures["epsilon"]["general"]), _epsilon(figures["epsilon"]["gaussian"])]
        for name, figures in results["attacks"].items()
    ]
    text = (
        f"Training is not (epsilon, {some['delta']:g})-private for any epsilon below the bound, with "
        f"{some['confidence']:.0%} confidence, if records may be taken for independent. Of several targets "
        "the median bound, at a confidence that pays for taking it."
    )
    headings = ["attack", "any trade-off", "Gaussian trade-off"]
    return ["## Epsilon, from below", "", text, "", *_table(headings, rows), ""]


def leakage_section(results: Results) -> list[str]:
    """Bits that an answer carries about a record's membership, by checkpoint."""
    leakage = results["leakage"]
    title = ["## Bits about one membership", ""]
    if leakage["reason"] and (
        not leakage["checkpoints"] or leakage["checkpoints"][-1]["bits"]["value"] is None
    ):
        return [*title, f"Not computed: {leakage['reason']}.", ""]
    text = (
        f"How differently a record's {leakage['signal']} is distributed over models that saw it and over "
        "models that did not, a Gaussian each. Mutual information is at most 1 bit; rho_KL, both KL "
        "divergences together, is in bits too; as far as the Gaussians hold, nobody who sees this answer "
        "alone has a larger advantage than the bound. What permuted designs show is taken off; intervals "
        "are over models."
    )
    headings = ["epoch", "mutual information", "most exposed 1%", "rho_KL", "bound on the advantage"]
    rows = [
        [
            str(at["epoch"]),
            *(_number(at[name]) for name in ("bits", "most_exposed", "rho_kl", "advantage_bound")),
        ]
        for at in leakage["checkpoints"]
    ]
    more = [f"No interval: {leakage['reason']}.", ""] if leakage["reason"] else []
    return [*title, text, "", *_table(headings, rows), "", *more]


def groups_section(results: Results, attack: str) -> list[str]:
    """AUC and TPR by group, of one attack."""
    return list(_group_lines(results, attack))


def _group_lines(results: Results, attack: str) -> Iterator[str]:
    figures = results["attacks"][attack]
    for column, groups in figures["groups"].items():
        budgets = [point["fpr"] for point in groups[0]["tpr_at_fpr"]]
        headings = [column, "records", "AUC", *(f"TPR at {_percent(budget)} FPR" for budget in budgets)]
        rows = [
            [g["group"], f"{g['records']:,}", _number(g["auc"]), *(_figure(p) for p in g["tpr_at_fpr"])]
            for g in groups
        ]
        yield from [f"## By {column} ({attack})", "", *_table(headings, rows), ""]
    for column, reason in results["groups_left_out"].items():
        yield from [f"Not judged by {column}: {reason}.", ""]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_row(headings), "|" + "---|" * len(headings), *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _percent(rate: float) -> str:
    return f"{100 * rate:g}%"


def _figure(found: Results) -> str:
    """A rate with its interval."""
    if found["value"] is None:
        return "not resolvable"
    if found["low"] is None:
        return f"{found['value']:.1%}"
    return f"{found['value']:.2%} ({max(found['low'], 0):.2%} to {found['high']:.2%})"


def _number(found: Results) -> str:
    if found["value"] is None:
        return "too few records"
    return f"{found['value']:.3f}" + (
        "" if found["low"] is None else f" ({found['low']:.3f} to {found['high']:.3f})"
    )


def _epsilon(bound: Results) -> str:
    return f"{bound['value']:.2f}" if bound["value"] is not None else f"none: {bound['reason']}"
