"""The leakage study's report.md, from its results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.disk.storage import write_bytes

TITLES = {
    "1": "Training-set size, linear regression",
    "2": "Training-set size, network of five tanh layers",
    "3": "Ridge weight, linear regression, n = 10",
    "4": "Number of features, linear regression, n = 10, λ = 1e-6",
    "5": "Noise on the parameters, linear regression, n = 30",
}
AXES = {"1": "training records n", "2": "training records n", "3": "ridge weight λ",
        "4": "features p_x (principal components)", "5": "noise sd"}  # fmt: skip
HEAD = ("advantage (median)", "advantage (mean)", "rho_KL (mean)", "95% interval", "rho_KL (median)",
        "uncorrected", "floor", "rho_MI, bits")  # fmt: skip
FINE = "rho_kl_finite_precision"


def write_report(results: dict[str, Any], out: Path) -> None:
    """report.md, report.html and figures/*.png of a study folder."""
    from leakscope.studies.leakage.figures import write_figures
    from leakscope.studies.leakage.page import write_page

    write_bytes(out / "report.md", markdown(results).encode())
    write_figures(results, out / "figures")
    write_page(out)


def markdown(results: dict[str, Any]) -> str:
    """The report as Markdown."""
    sections = [["# Membership leakage: what drives it", "", setting_words(results)],
                ["## What must hold", "", *check_lines(results)]]  # fmt: skip
    for name in results["figures"]:
        picture = f"![figure {name}](figures/figure_{name}.png)"
        body = [*_table(results, name), "", picture, "", *poor_words(results, name)]
        sections.append([f"## Figure {name}: {TITLES[name]}", "", *body])
    sections += [["## The chain of bounds", "", "![bounds](figures/bounds.png)", "", *chain_words(results)],
                 ["## Conventions", "", *(f"- {line}" for line in convention_lines(results))]]  # fmt: skip
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def setting_words(results: dict[str, Any]) -> str:
    """What was trained, in one paragraph."""
    c = results["config"]
    about = (
        "Adult, categories as integer codes"
        if c["dataset"] == "adult"
        else "digits (built in, Adult is absent)"
    )
    linear = (
        f"{c['records']} records, for each two independent halves of K = {c['trials']:,} regressions with it "
        f"and {c['trials']:,} without"
    )
    network = (
        f" (network: {c['network_records']} records, K = {c['network_trials']})" if 2 in c["figures"] else ""
    )
    return (
        f"{about}, principal components of centred and scaled features; {linear}{network}; seed {c['seed']}."
    )


def check_lines(results: dict[str, Any]) -> list[str]:
    """One line a claim: holds, fails or undefined."""
    word = {True: "holds", False: "**fails**", None: "undefined"}
    return [f"- {word[check['holds']]}: {check['claim']} ({check['detail']})" for check in results["checks"]]


def poor_words(results: dict[str, Any], name: str) -> list[str]:
    """Where the Gaussian approximation should not be taken at its word, and what else to know of a figure."""
    points = results["figures"][name]["points"]
    lines = [_neighbour_words(points)] if any(p["answers"]["is_poor"] for p in points) else []
    beyond = [(number(p["value"]), p["chain"]["likelihood_ratio_beyond"]) for p in points]
    if any(count for _, count in beyond):
        where = ", ".join(f"{value} ({count})" for value, count in beyond if count)
        lines.append(
            "Points (and how many of their records) where the likelihood-ratio adversary does better than "
            f"the fitted Gaussians allow, so that the parameters are not Gaussian: {where}."
        )
    if any(p["trials"] < 4 * p["parameters"] for p in points):
        lines.append(
            "There are fewer than four trials for each parameter: correlations are shrunk, intervals and "
            "corrections are rough. Ask for more with --trials."
        )
    for reason in dict.fromkeys(p["rho_kl"]["reason"] for p in points if p["rho_kl"]["reason"]):
        at = [number(p["value"]) for p in points if p["rho_kl"]["reason"] == reason]
        lines.append(f"At {', '.join(at)}: {reason}.")
    if points[0]["answers"]["is_poor"] is None:
        lines.append(f"No nearest-neighbour check: {points[0]['answers']['reason']}.")
    return [line for text in lines for line in (text, "")]


def _neighbour_words(points: list[dict[str, Any]]) -> str:
    poor = [(number(p["value"]), p["answers"]) for p in points if p["answers"]["is_poor"]]
    pairs = ", ".join(
        f"{value}: {number(found['gaussian'])} against {number(found['nearest_neighbour'])}"
        for value, found in poor
    )
    return (
        f"The Gaussian fit is poor at {len(poor)} of {len(points)} points. Leakage of the answer about the "
        f"record in nats, Gaussian against nearest neighbours ({poor[0][1]['records']} records), at {pairs}. "
        "There the leakage line says how far apart the fits are, not how many nats there are."
    )


def number(value: float | None) -> str:
    """Three digits, or what is missing."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def interval(found: dict[str, Any]) -> str:
    """The 95% interval of a mean, where there is one."""
    return (
        "-" if found["mean_low"] is None else f"{number(found['mean_low'])} to {number(found['mean_high'])}"
    )


def _row_cells(point: dict[str, Any]) -> list[str]:
    """One point's cells under `HEAD`."""
    rho, advantage = point["rho_kl"], point["advantage"]
    return [f"{advantage['median']:.3f}", f"{advantage['mean']:.3f}", number(rho["mean"]), interval(rho),
            number(rho["median"]), number(rho["uncorrected"]), number(rho["floor"]),
            number(point["rho_mi_bits"]["mean"])]  # fmt: skip


def table_rows(results: dict[str, Any], name: str) -> list[list[str]]:
    """One row a point of a figure: its value, then the cells under `HEAD`."""
    return [
        [
            number(point["value"]),
            *_row_cells(point),
            *([number(point[FINE]["mean"])] if name == "3" else []),
        ]
        for point in results["figures"][name]["points"]
    ]


def _table(results: dict[str, Any], name: str) -> list[str]:
    head = [AXES[name].split(" (")[0], *HEAD, *(["rho_KL, finite precision"] if name == "3" else [])]
    rows = ["| " + " | ".join(head) + " |", "|" + "---:|" * len(head)]
    return rows + ["| " + " | ".join(cells) + " |" for cells in table_rows(results, name)]


def chain_words(results: dict[str, Any]) -> list[str]:
    """How to read the chain of bounds."""
    lines = [
        "Means over records, bounds cut at 1. The threshold adversary sees the record and the model's",
        "answer; the likelihood-ratio adversary sees the parameters, and is judged on trainings that its",
        "Gaussians were not fitted to. Total variation and bounds are those of the fitted Gaussians: no",
        "adversary can pass them if the parameters are Gaussian. The smaller of Pinsker and",
        "Bretagnolle-Huber is below the document's bound.",
    ]
    if "shuffled" in results:
        of_nothing = max(control["total_variation"] for control in results["shuffled"])
        lines += [
            "IN and OUT fits share their draws, so fits of one distribution stay close: with",
            f"presence shuffled the total variation is at most {of_nothing:.3f}.",
        ]
    return lines


def convention_lines(results: dict[str, Any]) -> list[str]:
    """How each figure is defined, one convention a line."""
    lines = [
        "rho_KL is the KL in both directions together, in nats; rho_MI is in bits, at most 1.",
        "Corrected: IN of one half against OUT of the other, less the same estimate between the two halves "
        "of one condition (the floor), times (K-p-2)/(K-1). Without added noise the floor is about "
        "p(p+3)/K.",
        "Records and draws are the same at every point of a figure; larger training sets contain the smaller "
        "ones. Intervals resample records.",
        "Threshold adversary: member when the squared error is at most the mean training loss of the "
        "record's trainings, IN and OUT alike; advantage: |P(says member, in) - P(says member, out)|. With "
        "noise on the parameters it is computed in closed form.",
        "Objective: mean squared error + lambda theta'theta, intercept included; where that does not "
        "determine the parameters, those of smallest norm.",
        f"Finite precision: parameters rounded to a grid of {results['config']['precision']}, in effect "
        "noise of sd grid / sqrt(12).",
    ]
    if "2" in results["figures"]:
        lines.append(
            "Network: five tanh layers of fifty units, Adam, full batches, as many steps at each size. Its "
            "leakage is that of its answer about the record, a lower bound on that of its parameters."
        )
    return lines
