"""Documents token by token: `tokens.npz`, stored by the audit, and how a page shows it.

Every token has a gap: the mean log-probability over the models that were trained with the document, minus
that over the others. A run stores it for a few documents only. A redacted audit stores none: text is what a
redacted report must not reveal.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.data.npz_file import as_text, read_arrays
from leakscope.disk.storage import write_bytes
from leakscope.errors import InputError, printable
from leakscope.report.blocks import Absent, Body, Bullets, Heading, Raw

TOKENS = "tokens.npz"
MOST_DOCUMENTS = 20
_MOST_BYTES = 1 << 27  # unpacked
_LEVELS = (1.5, 2.0, 4.0, 16.0)
"""A token that is so many times as likely is marked, ever more clearly."""
_MOST_NAMED = 6


@dataclass(frozen=True, eq=False)
class TokenPreviews:
    """Some documents, token by token.

    Attributes:
        titles: str (documents,), ids of the records.
        is_planted: bool (documents,), whether a secret was planted in the document.
        starts: int64 (documents + 1,), the first token of each document; the last one is their number.
        pieces: str (tokens,), the text of each token.
        gaps: float32 (tokens,), how much higher its mean log-probability is under models that were trained
            with the document; NaN where a token is not predicted.
    """

    titles: npt.NDArray[np.str_]
    is_planted: BoolArray
    starts: IntArray
    pieces: npt.NDArray[np.str_]
    gaps: FloatArray

    @classmethod
    def of(
        cls, titles: Sequence[str], is_planted: BoolArray, texts: Sequence[tuple[Sequence[str], FloatArray]]
    ) -> TokenPreviews:
        """Of documents as (pieces, gaps)."""
        lengths = [len(pieces) for pieces, _ in texts]
        return cls(
            np.array(titles, dtype=np.str_),
            is_planted,
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array([piece for pieces, _ in texts for piece in pieces], dtype=np.str_),
            np.concatenate([gaps for _, gaps in texts]).astype(np.float32),
        )

    def write(self, folder: Path) -> None:
        """Writes tokens.npz."""
        content = io.BytesIO()
        np.savez_compressed(content, **vars(self))
        write_bytes(folder / TOKENS, content.getvalue())

    @classmethod
    def read(cls, folder: Path) -> TokenPreviews | None:
        """Those of a run folder; None where it has none."""
        path = folder / TOKENS
        if not path.exists():
            return None
        try:
            stored = read_arrays(path, _MOST_BYTES)
            previews = cls(*(stored[name] for name in cls.__dataclass_fields__))
            previews._check()
            for name in ("titles", "pieces"):
                as_text(name, stored[name])
        except (InputError, OSError, KeyError, ValueError) as error:
            raise InputError(
                f"{path} cannot be read ({error}); remove it to write reports without single tokens"
            ) from error
        return previews

    def _check(self) -> None:
        """Raises ValueError unless these are arrays that `write` writes."""
        arrays = (self.titles, self.is_planted, self.starts, self.pieces, self.gaps)
        kinds = [array.dtype.kind for array in arrays]
        if kinds != ["U", "b", "i", "U", "f"] or any(array.ndim != 1 for array in arrays):
            raise ValueError("its arrays are not those of documents")
        n, starts = len(self.titles), self.starts
        is_whole = len(starts) == n + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
        if not is_whole or starts[-1] != len(self.pieces) or len(self.is_planted) != n:
            raise ValueError("its documents do not fit its tokens")
        if len(self.gaps) != len(self.pieces):
            raise ValueError(f"it has {len(self.gaps)} numbers for {len(self.pieces)} tokens")

    def body(self) -> Body:
        """The documents, those with planted secrets first."""
        blocks: list[Absent | Heading | Raw | Bullets] = []
        for is_planted, heading in ((True, "Planted secrets"), (False, "Most exposed documents")):
            chosen = np.flatnonzero(self.is_planted == is_planted).tolist()
            if chosen:
                blocks += [Heading(heading), *(self._document(number) for number in chosen)]
        return [legend(), *blocks]

    def _document(self, number: int) -> Raw:
        own = slice(self.starts[number], self.starts[number + 1])
        pieces, gaps = self.pieces[own].tolist(), self.gaps[own]
        summary = most_changed(pieces, gaps)
        title = printable(str(self.titles[number]))
        frame = Markup('<div class="document"><h4>{}</h4><p class="tokens">{}</p><p>{}</p></div>\n')
        return Raw(frame.format(title, tokens_html(pieces, gaps), summary), [f"{title}: {summary}"])


def tokens_html(pieces: Sequence[str], gaps: FloatArray) -> Markup:
    """The tokens of a document as markup, whatever the document contains."""
    marked = Markup('<span class="token t{}" title="{} times as likely">{}</span>')
    parts = []
    for piece, gap in zip(pieces, gaps.tolist(), strict=True):
        shown, level = printable(piece), level_of(gap)
        parts.append(marked.format(level, times(gap), shown) if level else Markup("{}").format(shown))
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def level_of(gap: float) -> int:
    """How clearly a token is marked: 0, not at all, to 4."""
    return 0 if np.isnan(gap) else int(np.searchsorted(_LEVELS, np.exp(min(gap, 20.0)), side="right"))


def times(gap: float) -> str:
    """ "3.4", "120": how many times as likely."""
    factor = float(np.exp(min(gap, 20.0)))
    return f"{factor:.1f}" if factor < 10 else f"{factor:,.0f}"


def most_changed(pieces: Sequence[str], gaps: FloatArray) -> str:
    """The tokens whose probability differs most, in words: the same for readers who see no marks."""
    order = np.argsort(-np.nan_to_num(gaps, nan=-np.inf), kind="stable")[:_MOST_NAMED].tolist()
    named = [
        f"“{printable(pieces[at].strip())}” ({times(float(gaps[at]))} times as likely)"
        for at in order
        if level_of(float(gaps[at]))
    ]
    if not named:
        return f"No token is {_LEVELS[0]:g} times as likely under models trained with the document."
    return f"Most changed: {', '.join(named)}."


def legend() -> Raw:
    """What the marks mean."""
    samples = Markup(" ").join(
        Markup('<span class="token t{}">{:g} times</span>').format(level, least)
        for level, least in enumerate(_LEVELS, start=1)
    )
    sentence = (
        "A marked token is at least so many times as likely under models that were trained with the document "
        "as under models that were not:"
    )
    words = f"{sentence} {', '.join(f'{least:g}' for least in _LEVELS)}."
    return Raw(Markup('<p class="tokens-legend">{} {}</p>\n').format(sentence, samples), [words])
