"""The distance of each attack to the best possible one: a picture and a section of docs/scoreboard.md."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from page_parts import table, wrapped

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "distance_to_optimum.png"
OPTIMUM = "Optimum"
DRAWN = {
    "EB-LiRA": ("#c1272d", "-"),
    "LiRA, fixed variance": ("#0072b2", "-"),
    "LiRA, record variance": ("#56b4e9", "-"),
    "RMIA, best of 4": ("#009e73", "-"),
    "BASE": ("#7f7f7f", "-"),
    "BaVarIA-n": ("#e69f00", "-"),
    "BaVarIA-t": ("#cc79a7", "-"),
    "EB-LiRA offline": ("#c1272d", "--"),
    "LiRA offline, fixed variance": ("#0072b2", "--"),
    "RMIA offline, best of 8": ("#009e73", "--"),
    "BaVarIA-t offline": ("#cc79a7", "--"),
}


Cells = dict[str, dict[str, list[list[float]]]]


def share_of_optimum(
    cells: dict[str, dict[str, list[list[float]]]], name: str, figure: int
) -> dict[int, float]:
    """Number of references -> the attack's figure as a share of the optimum's.

    Of the AUC, what lies above 0.5 counts.
    """
    base = 0.5 if figure == 0 else 0.0
    mean = {
        (which, size): np.mean([row[figure] for row in rows]) - base
        for which in (name, OPTIMUM)
        for size, rows in cells[which].items()
    }
    return {int(size): float(mean[name, size] / mean[OPTIMUM, size]) for size in cells[name]}


def draw(path: Path, image: Path) -> None:
    """Shares of the optimum over the number of references: AUC above, TPR at 0.1% FPR below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    stored = json.loads(path.read_text())
    figure, axes = pyplot.subplots(
        2, len(stored), figsize=(11, 7.5), sharex=True, sharey="row", squeeze=False
    )
    for column, (population, cells) in enumerate(stored.items()):
        for row, (which, title) in enumerate(((0, "AUC above 0.5"), (2, "TPR at 0.1% FPR"))):
            axis = axes[row][column]
            for name, (color, style) in DRAWN.items():
                shares = share_of_optimum(cells, name, which)
                axis.plot(
                    *zip(*shares.items(), strict=True), style, marker="o", ms=3, color=color, label=name
                )
            axis.axhline(1, color="black", lw=0.8)
            axis.set_xscale("log")
            axis.set_xticks(list(shares), [str(size) for size in shares])
            axis.minorticks_off()
            axis.set_title(f"{population}: {title}", fontsize=10)
            axis.set_ylabel("share of the best possible attack's")
            axis.grid(alpha=0.25)
        axes[-1][column].set_xlabel("reference models")
    lines, names = axes[0][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="lower center", ncols=4, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    image.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(image, dpi=110)
    pyplot.close(figure)


_TEXT = """
`python benchmarks/distance_to_optimum.py` makes populations whose truth is known: Gaussian outputs, a shift
of its own for each record, and variances with heavy tails (inverse gamma with shape 2). The best possible
attack knows the parameters of every record; its figures stand first. The other cells are shares of the best
attack's figures: of the AUC above 0.5, and of the TPR at 0.1% FPR. In *unrelated*, shifts and variances
have nothing to do with the means, and variances follow BaVarIA's own prior. In *hard records move*, harder
records have larger shifts and variances. Dashed lines are attacks with OUT references only.
"""
_PICTURE = (
    "![Share of the best possible attack's AUC and TPR over the number of reference models]"
    "(images/distance_to_optimum.png)"
)


def section(path: Path) -> str:
    """Table and picture."""
    stored = json.loads(path.read_text())
    lines = ["## Distance to the optimum", wrapped(_TEXT), _PICTURE]
    for population, cells in stored.items():
        n_repeats = len(next(iter(cells[OPTIMUM].values())))
        lines.append(f"Mean over {n_repeats} populations of 20,000 records with one target each:")
        lines += [_table(population, cells), _ahead(cells)]
    return "\n\n".join(lines)


def _table(population: str, cells: Cells) -> str:
    sizes = sorted(int(size) for size in cells[OPTIMUM])
    best = [np.array(cells[OPTIMUM][str(size)], dtype=float).mean(axis=0) for size in sizes]
    head = [population, *(f"{size} references" for size in sizes)]
    rows = [["best possible, AUC / TPR", *(f"{b[0]:.3f} / {100 * b[2]:.1f}%" for b in best)]]
    for name in (n for n in cells if n != OPTIMUM):
        of_auc, of_tpr = share_of_optimum(cells, name, 0), share_of_optimum(cells, name, 2)
        shown = [f"{100 * of_auc[s]:.0f}% / {100 * of_tpr[s]:.0f}%" if s in of_auc else "" for s in sizes]
        rows.append([_bold(name), *shown])
    return table(head, rows)


def _ahead(cells: Cells) -> str:
    """The cells in which a rival comes closer to the optimum than EB-LiRA of its own side."""
    found = []
    for figure, title in ((0, "AUC"), (2, "TPR at 0.1%")):
        own = {name: share_of_optimum(cells, name, figure) for name in ("EB-LiRA", "EB-LiRA offline")}
        for name in (n for n in cells if n != OPTIMUM and not n.startswith("EB-LiRA")):
            is_offline = "offline" in name or name in ("Loss", "Calibrated", "Reference (Attack-R)")
            ours = own["EB-LiRA offline" if is_offline else "EB-LiRA"]
            closer = [s for s, share in share_of_optimum(cells, name, figure).items() if share > ours[s]]
            if closer:
                found.append(f"{name} in {title} with {', '.join(map(str, closer))}")
    text = "; ".join(found) or "none"
    return wrapped(f"Closer to the optimum than EB-LiRA (offline attacks: than EB-LiRA offline): {text}.")


def _bold(name: str) -> str:
    return f"**{name}**" if name.startswith("EB-LiRA") else name
