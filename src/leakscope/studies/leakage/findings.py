"""What the leakage study must show: trends with the document's sign, the bias, the chain of bounds."""

from __future__ import annotations

from typing import Any

from leakscope.stats.correlation import spearman

NAMES = {
    1: "training records n (linear regression)",
    2: "training records n (network)",
    3: "ridge weight lambda",
    4: "features p_x",
    5: "noise sd",
}
"""Figure -> what it varies."""

EXPECTED = {1: -0.9, 2: -0.9, 3: -0.9, 4: 0.8, 5: -0.9}
"""Figure -> Spearman correlation its trend must reach, with the document's sign."""

_BIAS_TOLERANCE = 0.15


def trends(figure: int, points: list[dict[str, Any]]) -> dict[str, Any]:
    """Rank correlations of leakage and advantage with what the figure varies.

    In figure 3 the leakage is that at finite precision: the continuous one levels off, as it should.
    """
    leakage = "rho_kl_finite_precision" if figure == 3 else "rho_kl"
    series = {
        "leakage": [point[leakage]["mean"] for point in points],
        "median_leakage": [point[leakage]["median"] for point in points],
        "median_advantage": [point["advantage"]["median"] for point in points],
    }
    return {name: _rank_correlation([p["value"] for p in points], values, EXPECTED[figure])
            for name, values in series.items()}  # fmt: skip


def checks(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Each claim, whether it holds (None: undefined here), and the numbers behind it."""
    points = [point for found in results["figures"].values() for point in found["points"]]
    found = [_trend_check(int(f), figure["trends"]) for f, figure in results["figures"].items()]
    found.append(_count_check("measured advantage <= total variation + its error, every record and point",
                              [p["chain"]["advantage_beyond"] for p in points]))  # fmt: skip
    found.append(_count_check("total variation <= Pinsker and Bretagnolle-Huber <= the document's bound",
                              [p["chain"]["total_variation_beyond"] + p["chain"]["tightest_beyond_document"]
                               for p in points]))  # fmt: skip
    found.append(_count_check("rho_MI <= rho_KL / 4, every record and point",
                              [p["rho_mi_bits"]["beyond_quarter_rho_kl"] for p in points]))  # fmt: skip
    found += [_levelling_check(results["figures"]["3"]["points"])] if "3" in results["figures"] else []
    found += [_control_check(control) for control in results.get("shuffled", [])]
    return found


def _rank_correlation(x: list[float], y: list[float | None], expected: float) -> dict[str, Any]:
    defined = [v for v in y if v is not None]
    if len(defined) < len(y):
        return {"spearman": None, "holds": None, "reason": "undefined at some points"}
    found = spearman(x, defined)
    holds = None if found.reason else (found.r >= expected if expected > 0 else found.r <= expected)
    return {"spearman": found.r, "holds": holds, "reason": found.reason}


def _trend_check(figure: int, found: dict[str, Any]) -> dict[str, Any]:
    parts = [found["leakage"], found["median_advantage"]]
    numbers = ["undefined" if part["holds"] is None else f"{part['spearman']:+.2f}" for part in parts]
    sign = "at least" if EXPECTED[figure] > 0 else "at most"
    holds = None if any(part["holds"] is None for part in parts) else all(part["holds"] for part in parts)
    return {
        "claim": f"figure {figure}: Spearman with {NAMES[figure]} {sign} {EXPECTED[figure]:+.1f}",
        "holds": holds,
        "detail": f"leakage {numbers[0]}, median advantage {numbers[1]}",
    }


def _count_check(claim: str, beyond: list[int]) -> dict[str, Any]:
    n_points = sum(count > 0 for count in beyond)
    detail = f"{sum(beyond)} records beyond, at {n_points} of {len(beyond)} points"
    return {"claim": claim, "holds": sum(beyond) == 0, "detail": detail}


def _levelling_check(points: list[dict[str, Any]]) -> dict[str, Any]:
    """At the largest weights: continuous leakage is flat and above 0, that at finite precision is gone."""
    last, before = points[-1], points[-2]
    continuous = [point["rho_kl"]["mean"] for point in (before, last)]
    fine = last["rho_kl_finite_precision"]["mean"]
    claim = "figure 3: continuous leakage levels off while that at finite precision goes to 0"
    if fine is None or None in continuous:
        return {"claim": claim, "holds": None, "detail": "undefined: every record is told apart for sure"}
    is_flat = abs(continuous[1] - continuous[0]) < 0.1 * abs(continuous[0])
    return {
        "claim": claim,
        "holds": bool(is_flat and continuous[1] > 0 and abs(fine) < 0.02 * continuous[1]),
        "detail": f"at the largest lambda {continuous[1]:.3g} against {fine:.2g} nats",
    }


def _control_check(control: dict[str, Any]) -> dict[str, Any]:
    claim = f"presence shuffled, n = {control['n']}: corrected leakage is 0, uncorrected is p(p+3)/K"
    if control["reason"]:
        return {"claim": claim, "holds": None, "detail": control["reason"]}
    detail = (
        f"{control['corrected']:.1e} ({control['low']:.1e} to {control['high']:.1e}); "
        f"{control['uncorrected']:.4g} against {control['analytic']:.4g} nats ({control['ratio'] - 1:+.0%})"
    )
    holds = control["low"] <= 0 <= control["high"] and abs(control["ratio"] - 1) <= _BIAS_TOLERANCE
    return {"claim": claim, "holds": holds, "detail": detail}
