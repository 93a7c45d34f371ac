"""The longer tables of an audit's report.md: hygiene, precision, calibration, epsilon, bits, groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Results = dict[str, Any]


class Cells(NamedTuple):
    """A table as text: headings, and one row of cells a line."""

    head: list[str]
    rows: list[list[str]]


def hygiene_section(results: Results) -> list[str]:
    """What was checked before anything is believed."""
    found = hygiene_cells(results)
    return ["## Checked first", "", *_table(*found), ""] if found.rows else []


def hygiene_cells(results: Results) -> Cells:
    """Every check and its outcome."""
    checks = results.get("hygiene", [])
    return Cells(
        ["check", "outcome", "what was found"], [[c["name"], c["status"], c["sentence"]] for c in checks]
    )


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


CALIBRATED_TEXT = (
    "Thresholds chosen on the other models' non-members, as an attacker must; all targets count."
)


def calibrated_section(results: Results) -> list[str]:
    """TPR and FPR reached with thresholds from the other models."""
    found = calibrated_cells(results)
    if not found.rows:
        return []
    return ["## With thresholds from the other models", "", CALIBRATED_TEXT, "", *_table(*found), ""]


def calibrated_cells(results: Results) -> Cells:
    """Rates reached with thresholds from the other models; no rows for a single target."""
    rows = [
        [name, _percent(point["fpr_budget"]), _figure(point["fpr"]), _figure(point["tpr"])]
        for name, figures in results["attacks"].items()
        for point in figures["calibrated"]
        if point["reason"] is None
    ]
    return Cells(["attack", "FPR wanted", "FPR reached", "TPR reached"], rows)


def epsilon_section(results: Results) -> list[str]:
    """Lower bounds on epsilon."""
    return ["## Epsilon, from below", "", epsilon_text(results), "", *_table(*epsilon_cells(results)), ""]


def epsilon_text(results: Results) -> str:
    """What the bounds mean."""
    some = next(iter(results["attacks"].values()))["epsilon"]["general"]
    return (
        f"Training is not (epsilon, {some['delta']:g})-private for any epsilon below the bound, with "
        f"{some['confidence']:.0%} confidence, if records may be taken for independent. Of several targets "
        "the median bound, at a confidence that pays for taking it."
    )


def epsilon_cells(results: Results) -> Cells:
    """Lower bounds on epsilon, every attack."""
    rows = [
        [name, _epsilon(figures["epsilon"]["general"]), _epsilon(figures["epsilon"]["gaussian"])]
        for name, figures in results["attacks"].items()
    ]
    return Cells(["attack", "any trade-off", "Gaussian trade-off"], rows)


def leakage_section(results: Results) -> list[str]:
    """Bits that an answer carries about a record's membership, by checkpoint."""
    title = ["## Bits about one membership", ""]
    reason = why_no_bits(results)
    if reason:
        return [*title, f"Not computed: {reason}.", ""]
    more = no_interval_words(results)
    return [*title, leakage_text(results), "", *_table(*leakage_cells(results)), "", *more]


def why_no_bits(results: Results) -> str:
    """Why there are no bits at all; empty where there are."""
    leakage = results["leakage"]
    is_defined = leakage["checkpoints"] and leakage["checkpoints"][-1]["bits"]["value"] is not None
    return "" if is_defined else leakage["reason"] or "nothing was found to compute them from"


def no_interval_words(results: Results) -> list[str]:
    """Why bits have no interval."""
    reason = results["leakage"]["reason"]
    return [f"No interval: {reason}.", ""] if reason else []


def leakage_text(results: Results) -> str:
    """What the bits are."""
    return (
        f"How differently a record's {results['leakage']['signal']} is distributed over models that saw it "
        "and over models that did not, a Gaussian each. Mutual information is at most 1 bit; rho_KL, both KL "
        "divergences together, is in bits too; as far as the Gaussians hold, nobody who sees this answer "
        "alone has a larger advantage than the bound. What permuted designs show is taken off; intervals "
        "are over models."
    )


def leakage_cells(results: Results) -> Cells:
    """Bits by checkpoint."""
    names = ("bits", "most_exposed", "rho_kl", "advantage_bound")
    rows = [
        [str(at["epoch"]), *(_number(at[name]) for name in names)] for at in results["leakage"]["checkpoints"]
    ]
    return Cells(["epoch", "mutual information", "most exposed 1%", "rho_KL", "bound on the advantage"], rows)


def groups_section(results: Results, attack: str) -> list[str]:
    """AUC and TPR by group, of one attack."""
    return list(_group_lines(results, attack))


def group_cells(groups: Sequence[Results], column: str) -> Cells:
    """AUC and TPR of one column's groups."""
    budgets = [point["fpr"] for point in groups[0]["tpr_at_fpr"]]
    head = [column, "records", "AUC", *(f"TPR at {_percent(budget)} FPR" for budget in budgets)]
    rows = [
        [g["group"], f"{g['records']:,}", _number(g["auc"]), *(_figure(p) for p in g["tpr_at_fpr"])]
        for g in groups
    ]
    return Cells(head, rows)


def _group_lines(results: Results, attack: str) -> Iterator[str]:
    for column, groups in results["attacks"][attack]["groups"].items():
        yield from [f"## By {column} ({attack})", "", *_table(*group_cells(groups, column)), ""]
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
