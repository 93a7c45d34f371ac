"""The pictures of docs/figures.md: what AUC, TPR at a low FPR, bits and epsilon mean, from closed forms.

    python benchmarks/explanation_pictures.py       # writes docs/images/explained_*.svg

Nothing is measured here. The same version of matplotlib writes the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr, ndtri

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MEMBERS, OTHERS, THIRD, GRAY = "#0072B2", "#D55E00", "#009E73", "#55616d"  # Okabe and Ito
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "leakscope", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
}  # fmt: skip
CERTAIN_SHARE = 0.02
"""Share of members that the second attacker of `tpr_picture` recognizes without error."""


def auc_of_separation(mu: float) -> float:
    """AUC of scores that are normal and lie mu standard deviations apart."""
    return float(ndtr(mu / np.sqrt(2)))


def bits_of_chance(right: float) -> float:
    """Bits about a fair coin in a hint that is right with this probability."""
    wrong = 1 - right
    entropy = -sum(p * np.log2(p) for p in (right, wrong) if p > 0)
    return float(1 - entropy)


def largest_tpr(epsilon: float, fpr: float) -> float:
    """The largest TPR at an FPR against (epsilon, 0)-differential privacy."""
    return float(min(np.exp(epsilon) * fpr, 1 - np.exp(-epsilon) * (1 - fpr)))


def auc_picture() -> Figure:
    """Scores of members and non-members, ever further apart."""
    figure = Figure((8.4, 2.4), layout="constrained")
    x = np.linspace(-4, 6, 80)
    for axes, mu in zip(figure.subplots(1, 3, sharey=True), (0.0, 1.0, 3.0), strict=True):
        for mean, hue, name in ((0.0, OTHERS, "non-members"), (mu, MEMBERS, "members")):
            density = np.exp(-((x - mean) ** 2) / 2)
            axes.plot(x, density, color=hue, label=name, linestyle="-" if hue == MEMBERS else "--")
            axes.fill_between(x, density, color=hue, alpha=0.15, linewidth=0)
        axes.set(title=f"AUC {auc_of_separation(mu):.0%}", xlabel="score", yticks=[], xticks=[])
        axes.spines["left"].set_visible(False)
    figure.axes[0].legend(loc="upper right", fontsize=8)
    return figure


def tpr_picture() -> Figure:
    """Two attackers with the same AUC, one of whom is certain about a few members."""
    figure = Figure((6.2, 3.4), layout="constrained")
    axes = figure.subplots()
    fpr = np.geomspace(1e-4, 1, 200)
    mu = 0.3
    even = ndtr(mu + ndtri(fpr))
    rest = (auc_of_separation(mu) - CERTAIN_SHARE) / (1 - CERTAIN_SHARE)  # AUC on the other members
    uneven = CERTAIN_SHARE + (1 - CERTAIN_SHARE) * ndtr(np.sqrt(2) * ndtri(rest) + ndtri(fpr))
    name = f"certain about {CERTAIN_SHARE:.0%} of the members, AUC {auc_of_separation(mu):.0%}"
    axes.plot(fpr, uneven, color=MEMBERS, label=name)
    axes.plot(
        fpr,
        even,
        color=OTHERS,
        linestyle="--",
        label=f"a little about everyone, AUC {auc_of_separation(mu):.0%}",
    )
    axes.plot(fpr, fpr, color=GRAY, linestyle=":", label="guessing, AUC 50%")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="FPR: non-members taken for members",
        ylabel="TPR: members recognized",
    )
    ticks = [1e-4, 1e-3, 1e-2, 1e-1, 1]
    axes.set_xticks(ticks, [f"{100 * tick:g}%" for tick in ticks])
    axes.set_yticks(ticks, [f"{100 * tick:g}%" for tick in ticks])
    axes.legend(loc="lower right", fontsize=8)
    return figure


def bits_picture() -> Figure:
    """Bits against the chance that a hint is right."""
    figure = Figure((6.2, 3.0), layout="constrained")
    axes = figure.subplots()
    right = np.linspace(0.5, 1, 200)
    axes.plot(right, [bits_of_chance(p) for p in right], color=MEMBERS)
    for p, place in ((0.6, (-12, 9)), (0.75, (8, -11)), (0.9, (8, -11))):
        axes.plot([p], [bits_of_chance(p)], "o", color=MEMBERS)
        axes.annotate(
            f"{bits_of_chance(p):.2f} bits", (p, bits_of_chance(p)), place, textcoords="offset points"
        )
    axes.set(xlabel="how often a hint about membership is right", ylabel="bits", ylim=(0, 1))
    axes.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1], ["50%", "60%", "70%", "80%", "90%", "100%"])
    return figure


def epsilon_picture() -> Figure:
    """The best attack that each epsilon allows."""
    figure = Figure((5.2, 3.8), layout="constrained")
    axes = figure.subplots()
    fpr = np.linspace(0, 1, 300)
    styles = ((1, THIRD, ":"), (2, OTHERS, "--"), (4, MEMBERS, "-"), (8, GRAY, "-."))
    for epsilon, hue, dash in styles:
        best = [largest_tpr(epsilon, rate) for rate in fpr]
        axes.plot(fpr, best, color=hue, linestyle=dash, label=f"epsilon {epsilon}")
    axes.plot(fpr, fpr, color=GRAY, linewidth=0.8, label="epsilon 0: guessing")
    axes.set(xlabel="FPR: non-members taken for members", ylabel="largest TPR", xlim=(0, 1), ylim=(0, 1.01))
    axes.legend(loc="lower right", fontsize=8)
    return figure


def main() -> None:
    """Writes the four pictures."""
    pictures = {"auc": auc_picture, "tpr": tpr_picture, "bits": bits_picture, "epsilon": epsilon_picture}
    with mpl.rc_context(STYLE):
        for name, draw in pictures.items():
            draw().savefig(IMAGES / f"explained_{name}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
