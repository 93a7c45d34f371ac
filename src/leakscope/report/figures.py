"""The common style of all figures: color-blind safe, and identical bytes for identical data."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakscope.disk.storage import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "legend.frameon": False,
    "figure.dpi": 120,
    "savefig.dpi": 120,
    "text.parse_math": False,  # names come from data and may contain dollar signs
}


@contextmanager
def figure(
    path: Path, width: float = 6.4, height: float = 4.2, panels: tuple[int, int] = (1, 1)
) -> Iterator[Any]:
    """Yields axes to draw on (one Axes, or a flat list with several panels) and saves them to `path`."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.subplots(*panels, squeeze=False)
        flat: list[Axes] = list(axes.flat)
        yield flat[0] if panels == (1, 1) else flat
        _save(drawn, path)


def _save(drawn: Figure, path: Path) -> None:
    content = io.BytesIO()
    drawn.savefig(content, format="png", metadata={"Software": None})
    write_bytes(path, content.getvalue())
