"""The main table of an audit: every attack's AUC, advantage and TPR, as text."""

from __future__ import annotations

from typing import Any


def intervals_in_words(n_targets: int) -> str:
    """What the figures behind ± are."""
    if n_targets > 1:
        return f"Mean over {n_targets} targets ± half of its 95% t interval over targets."
    return (
        "One target ± half of its 95% interval over records: DeLong (AUC), Dvoretzky-Kiefer-Wolfowitz "
        "(advantage), Clopper-Pearson (TPR)."
    )


def attack_rows(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and one row of text an attack: mean over targets ± half of its interval."""
    budgets = [point["fpr"] for point in next(iter(results["attacks"].values()))["tpr_at_fpr"]]
    headings = ["attack", "AUC", "advantage", *(f"TPR at {100 * budget:g}% FPR" for budget in budgets)]
    rows = [
        [name, _number(f["auc"]), _number(f["advantage"]), *(_percent(point) for point in f["tpr_at_fpr"])]
        for name, f in results["attacks"].items()
    ]
    return headings, rows


def unresolvable(results: dict[str, Any]) -> list[str]:
    """Why some cells have no number, one line a reason."""
    points = [p for figures in results["attacks"].values() for p in figures["tpr_at_fpr"]]
    return [f"Not resolvable: {reason}." for reason in sorted({p["reason"] for p in points if p["reason"]})]


def _number(found: dict[str, Any]) -> str:
    if found["low"] is None:
        return f"{found['value']:.3f}"
    return f"{found['value']:.3f} ± {(found['high'] - found['low']) / 2:.3f}"


def _percent(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "not resolvable"
    if found["low"] is None:
        return f"{100 * found['value']:.1f}%"
    return f"{100 * found['value']:.1f} ± {50 * (found['high'] - found['low']):.1f}%"
