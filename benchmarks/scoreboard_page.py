"""docs/scoreboard.md from the cells that benchmarks/scoreboard.py computed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import distance_page
import published_cells
from leakscope.stats.intervals import mean_over_targets
from page_parts import table, wrapped

PAGE = Path(__file__).parents[1] / "docs" / "scoreboard.md"
FIGURES = ("AUC", "TPR at 1%", "TPR at 0.1%", "TPR at 0.01%")
OWN = ("EB-LiRA", "EB-LiRA offline")
OFFLINE = (
    "Calibrated", "Reference (Attack-R)", "LiRA offline, fixed variance", "LiRA offline, record variance",
    "BASE offline", "RMIA offline, best of 8", "BaVarIA-n offline", "BaVarIA-t offline", "EB-LiRA offline",
)  # fmt: skip
ONLINE = (
    "LiRA, fixed variance", "LiRA, record variance", "BASE", "RMIA, best of 4", "BaVarIA-n", "BaVarIA-t",
    "EB-LiRA",
)  # fmt: skip
MORE = (
    "RMIA offline, published signal", "RMIA offline, 18 queries", "LiRA offline, 18 queries",
    "EB-LiRA offline, 1 query", "EB-LiRA offline, RMIA's signal", "EB-LiRA offline, 18 queries",
    "RMIA, published signal", "RMIA, 1 query",
    "RMIA, 18 queries", "LiRA, 1 query", "LiRA, 18 queries", "EB-LiRA, 1 query",
    "EB-LiRA, RMIA's signal", "EB-LiRA, 18 queries", "EB-LiRA, checkpoints",
    "EB-LiRA, checkpoints and queries",
)  # fmt: skip

RIVALS = {
    "EB-LiRA": tuple(name for name in ONLINE + OFFLINE if name not in OWN),
    "EB-LiRA offline": tuple(name for name in OFFLINE if name not in OWN),
    "EB-LiRA, 1 query": ("LiRA, 1 query", "RMIA, 1 query", "RMIA, published signal"),
    "EB-LiRA offline, 1 query": ("RMIA offline, published signal",),
    "EB-LiRA, RMIA's signal": ("RMIA, published signal",),
    "EB-LiRA offline, RMIA's signal": ("RMIA offline, published signal",),
    "EB-LiRA, 18 queries": ("LiRA, 18 queries", "RMIA, 18 queries"),
    "EB-LiRA offline, 18 queries": ("LiRA offline, 18 queries", "RMIA offline, 18 queries"),
}
"""Own attack -> those that read as many outputs of as many models. RMIA's signal reads all logits of each."""


class Board(NamedTuple):
    """The cells of one bank: attack -> number of references -> (targets, figures)."""

    name: str
    n_models: int
    n_records: int
    n_targets: int
    cells: dict[str, dict[int, np.ndarray]]

    @property
    def sizes(self) -> list[int]:
        """Numbers of references; all of them last."""
        return sorted({size for row in self.cells.values() for size in row})

    def values(self, attack: str, size: int) -> np.ndarray | None:
        """(targets, figures), or None where the cell is missing."""
        return self.cells.get(attack, {}).get(size)


class Exceeded(NamedTuple):
    """A cell in which a rival's mean is above EB-LiRA's."""

    bank: str
    own: str
    size: int
    figure: str
    rival: str
    difference: float
    half_width: float

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the interval of the paired difference lies above 0."""
        return self.difference > self.half_width


def read_board(path: Path) -> Board:
    """The cells of a file; "all other models" under their number."""
    stored: dict[str, Any] = json.loads(path.read_text())
    everyone = stored["models"] - 1
    cells = {
        name: {int(size) or everyone: np.array(rows, dtype=float) for size, rows in row.items()}
        for name, row in stored["cells"].items()
    }
    return Board(stored["bank"], stored["models"], stored["records"], len(stored["targets"]), cells)


def comparisons(board: Board) -> Iterator[tuple[str, str, int, int, np.ndarray]]:
    """(own attack, rival, references, figure, rival minus own by target) of every cell."""
    for own, rivals in RIVALS.items():
        for rival in rivals:
            for size in board.sizes:
                ours, theirs = board.values(own, size), board.values(rival, size)
                if ours is not None and theirs is not None:
                    for figure in range(len(FIGURES)):
                        yield own, rival, size, figure, (theirs - ours)[:, figure]


def exceptions(board: Board) -> tuple[int, list[Exceeded]]:
    """The number of comparisons, and those in which the rival's mean is higher."""
    n, higher = 0, []
    for own, rival, size, figure, difference in comparisons(board):
        n += 1
        found = mean_over_targets(difference)
        if found.mean > 0:
            half = (found.interval.high - found.interval.low) / 2
            higher.append(Exceeded(board.name, own, size, FIGURES[figure], rival, found.mean, half))
    return n, higher


def write(results: Path) -> None:
    """The whole page."""
    boards = [read_board(path) for path in sorted(results.glob("*.json")) if path.name != "optimum.json"]
    sections = [_head(boards), _verdict(boards), _references_section(boards)]
    sections += [_bank_section(board) for board in boards]
    sections.append(published_cells.section(boards))
    if (results / "optimum.json").exists():
        sections.append(distance_page.section(results / "optimum.json"))
    PAGE.write_text("\n\n".join(sections) + "\n")
    print(f"wrote {PAGE}")


def _head(boards: list[Board]) -> str:
    names = " ".join(f"--bank {board.name}" for board in boards)
    return f"""# Scoreboard: which attack is the strongest, with how many reference models?

Every figure on this page comes from one command, which adds missing cells and writes the page:

```
python benchmarks/scoreboard.py {names}
```

{wrapped(_METHOD)}"""


_METHOD = """
Each target has its own random reference models for each number of them, the same for all attacks. AUC (area
under the ROC curve) and TPR (true positive rate, at a false positive rate of 1%, 0.1% and 0.01%) are over
all records of a bank. A cell is the mean over targets ± half of the 95% t interval over targets. It
describes models trained in this way on these records, with references drawn anew; it does not cover another
sample of records. With many references the targets share most of them, so those intervals are somewhat too
short. A TPR at 0.01% needs 10,000 non-members; targets with fewer are left out of that figure. Attacks run
with the defaults of their publications; RMIA gets the best of its settings in hindsight, for each cell and
figure. On cifar10-wrn28-2-rmia, EB-LiRA's cells with 1 and 2 references are of a fit without the target's
outputs ([why it reads them](eb_lira.md#one-or-two-references)); with them it is stronger on the other banks.
"""


def _verdict(boards: list[Board]) -> str:
    lines, clear = ["## Is EB-LiRA the strongest?"], []
    for board in boards:
        n, higher = exceptions(board)
        beyond = [one for one in higher if one.is_beyond_noise]
        lines.append(
            wrapped(
                f"**{board.name}**: EB-LiRA is at or above the rival in {n - len(higher)} of {n} "
                "comparisons: EB-LiRA with every rival, EB-LiRA offline with every offline rival, each with "
                "rivals that read as many queries, for each "
                f"number of references and each figure. The rival's mean is higher in {len(higher)}, in "
                f"{len(beyond)} of them beyond the noise over targets: the 95% interval of the paired "
                "difference lies above 0."
            )
        )
        clear += beyond
    if clear:
        lines += [wrapped(_summary(clear)), table(_EXCEEDED, [_exceeded(one) for one in clear])]
    return "\n\n".join(lines)


def _summary(clear: list[Exceeded]) -> str:
    """Which exceptions there are with more than one reference, in words."""
    more = [one for one in clear if one.size > 1]
    if not more:
        return "The exceptions beyond noise, all with one reference:"
    sizes: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in more:
        of_pair = sizes.setdefault((one.rival, one.own), {})
        of_pair.setdefault(one.figure, []).append(str(one.size))
    words = []
    for (rival, own), figures in sizes.items():
        each = " and ".join(f"{figure} ({', '.join(found)} references)" for figure, found in figures.items())
        words.append(f'"{rival}" is above "{own}" in {each}')
    return (
        f"{len(clear) - len(more)} of the {len(clear)} exceptions beyond noise are with one reference. With "
        f"more: {'; '.join(words)}. All of them:"
    )


_EXCEEDED = ("bank", "references", "figure", "rival", "compared with", "difference")


def _exceeded(one: Exceeded) -> tuple[str, ...]:
    difference = f"{one.difference:.4f} ± {one.half_width:.4f}"
    return one.bank, str(one.size), one.figure, one.rival, one.own, difference


_BOUGHT = (
    "bank", "references", "best with OUT", "AUC / TPR at 0.1%", "best with IN and OUT", "AUC / TPR at 0.1%",
)  # fmt: skip
_BUYS = (
    """**0 references**: `loss` and `population` only. Every other attack compares the target with other
    models, and refuses.""",
    """**1 reference**: a record is IN or OUT in it, never both. LiRA, RMIA and the calibrated attack take the
    missing side from the difference between the reference's outputs on its own records and on others.
    EB-LiRA learns both laws from all records, and from the target's outputs what scatters over models. The
    rivals' offline variants fall back on the reference's outputs on its own training records where it is the
    only one; EB-LiRA offline reads OUT references alone, so half of its records have none.""",
    """**2 references**: half of the records have one on each side, a quarter two IN, a quarter two OUT. That
    is enough to learn how to weigh checkpoints and queries. With one reference, `eb_lira` takes the mean over
    the queries at the last checkpoint.""",
    """**References that saw none of the records** (OUT only): `eb_lira(online=false)` learns from the
    target's own outputs how members differ. Attacks that need an IN side refuse, and name the option that
    does not. Several queries are averaged there.""",
    "The best attack of a cell is the one with the highest TPR at 0.1%, chosen in hindsight.",
)


def _references_section(boards: list[Board]) -> str:
    rows = []
    for board in boards:
        loss = board.values("Loss", board.n_models - 1)
        if loss is not None:
            rows.append((board.name, "0", "Loss", _pair(loss), "", ""))
        for size in board.sizes:
            rows.append((board.name, str(size), *_best(board, OFFLINE, size), *_best(board, ONLINE, size)))
    points = "\n".join("- " + wrapped(point).replace("\n", "\n  ") for point in _BUYS)
    return "\n\n".join(["## What each number of reference models buys", table(_BOUGHT, rows), points])


def _best(board: Board, attacks: tuple[str, ...], size: int) -> tuple[str, str]:
    there = [(name, values) for name in attacks if (values := board.values(name, size)) is not None]
    if not there:
        return "", ""
    name, values = max(there, key=lambda one: float(one[1][:, 2].mean()))
    return name, _pair(values)


def _pair(values: np.ndarray) -> str:
    return f"{values[:, 0].mean():.3f} / {100 * values[:, 2].mean():.1f}%"


def _bank_section(board: Board) -> str:
    lines = [
        f"## {board.name}",
        f"{board.n_models} models, {board.n_records:,} records, {board.n_targets} targets.",
    ]
    for first, second in ((0, 2), (1, 3)):
        for title, attacks in (
            ("OUT references only", ("Loss", *OFFLINE)),
            ("IN and OUT references", ONLINE),
            ("More than the last output", MORE),
        ):
            rows = [_line(board, name, first, second) for name in attacks if board.cells.get(name)]
            if rows:
                lines.append(f"{title}, {FIGURES[first]} / {FIGURES[second]}:")
                lines.append(table(("attack", *(f"{size}" for size in board.sizes)), rows))
    return "\n\n".join(lines)


def _line(board: Board, name: str, first: int, second: int) -> tuple[str, ...]:
    cells = []
    for size in board.sizes:
        values = board.values(name, size)
        cells.append("" if values is None else f"{_cell(values, first)} / {_cell(values, second)}")
    return (f"**{name}**" if name.startswith("EB-LiRA") else name, *cells)


def _cell(values: np.ndarray, figure: int) -> str:
    found = mean_over_targets(values[:, figure])
    half = (found.interval.high - found.interval.low) / 2
    if figure == 0:
        return f"{found.mean:.3f} ± {half:.3f}"
    return f"{100 * found.mean:.1f} ± {100 * half:.1f}%"
