"""The measured figures as two tables: in Markdown, kept in docs/benchmarks.md, and on the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Question:
    """One line: a question, our figure, a rival's; the ratio says how many times less ours is."""

    question: str
    ours: float
    rival: str
    theirs: float

    def cells(self) -> tuple[str, ...]:
        """As text."""
        ratio = f"{self.theirs / self.ours:.1f}x"
        return self.question, f"{self.ours:.2f} s", f"{self.rival}: {self.theirs:.2f} s", ratio


@dataclass(frozen=True)
class Reached:
    """What one tool reached on one size, and at what cost.

    Attributes:
        size: name of it.
        tool: name of it.
        auc: of its scores.
        tpr: at 1% FPR.
        seconds: wall time of the whole audit; None where it used another one's shadow models.
        cpu_seconds: of all cores, likewise.
        import_seconds: of the wall time, importing what the user's code names.
        peak_bytes: resident memory of the process tree at its highest.
        n_lines: lines of user code.
    """

    size: str
    tool: str
    auc: float
    tpr: float
    seconds: float | None
    cpu_seconds: float | None
    import_seconds: float
    peak_bytes: int
    n_lines: int

    def cells(self) -> tuple[str, ...]:
        """As text."""
        wall, cpu = (
            "(as above)" if taken is None else f"{taken:.1f} s" for taken in (self.seconds, self.cpu_seconds)
        )
        return (
            self.size,
            self.tool,
            f"{self.auc:.3f}",
            f"{self.tpr:.1%}",
            wall,
            cpu,
            f"{self.import_seconds:.1f} s",
            f"{self.peak_bytes / 2**20:,.0f} MiB",
            str(self.n_lines),
        )


QUESTION_HEADS = ("how long does it take?", "leakscope", "rival", "ratio")
REACHED_HEADS = (
    "size",
    "tool",
    "AUC",
    "TPR at 1% FPR",
    "wall time",
    "CPU time",
    "imports",
    "peak memory",
    "lines",
)


def markdown(about: str, questions: list[Question], reached: list[Reached]) -> str:
    """Both tables under a line that says what they were measured on."""
    return "\n".join(
        [
            about,
            "",
            *_markdown_table(QUESTION_HEADS, [line.cells() for line in questions], n_left=1),
            "",
            *_markdown_table(REACHED_HEADS, [line.cells() for line in reached], n_left=2),
        ]
    )


def write_between_marks(path: Path, text: str) -> None:
    """Replaces what lies between the marks of the page."""
    page = path.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def show(about: str, questions: list[Question], reached: list[Reached]) -> None:
    """Both tables on the terminal."""
    console = Console()
    console.print(about)
    for heads, lines in (
        (QUESTION_HEADS, [line.cells() for line in questions]),
        (REACHED_HEADS, [line.cells() for line in reached]),
    ):
        table = Table(*heads)
        for cells in lines:
            table.add_row(*cells)
        console.print(table)


def _markdown_table(heads: tuple[str, ...], lines: list[tuple[str, ...]], n_left: int) -> list[str]:
    """The first `n_left` columns to the left, the others, figures, to the right."""
    rule = ["---"] * n_left + ["---:"] * (len(heads) - n_left)
    return [f"| {' | '.join(cells)} |" for cells in (heads, tuple(rule), *lines)]
