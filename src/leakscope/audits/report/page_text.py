"""What the report of language models has beside membership: secrets, extraction, documents token by token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leakscope.disclosure import FEWEST_RECORDS
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.text_results import TextFigures, WithAndWithout
from leakscope.evaluate.text_sentences import text_sentences
from leakscope.report.blocks import Absent, Body, Bullets, Table
from leakscope.report.documents import TokenPreviews
from leakscope.report.page import Section
from leakscope.stats.estimate import Estimate

_FEW = (
    f"Figures of fewer than {FEWEST_RECORDS} secrets or extracted documents are left out: they would say "
    "which of them are members."
)
_HEAD = ("", "models trained with the document", "models trained without it", "the base")


def text_sections(
    results: AuditResults, measured: TextFigures | None, folder: Path, redacted: bool
) -> list[Section]:
    """One section where the models are language models, else none; a redacted one shows no text.

    `measured` has all figures. The results lack those of few documents where a model's members are secret.
    """
    if results.text is None or measured is None:
        return []
    return [
        Section(
            "text",
            "Text",
            [*_figures(results.text, measured), *_documents(folder, redacted)],
            "What outputs reveal beside membership. The base shows what does not come from fine-tuning.",
        )
    ]


def _figures(shown: TextFigures, measured: TextFigures) -> Body:
    lacks = (shown.secrets is None, shown.extraction is None)
    left_out = [] if lacks == (measured.secrets is None, measured.extraction is None) else [Absent(_FEW)]
    rows = [[name, *cells] for name, cells in _rows(shown)]
    if not rows:
        none = Absent("No secret was planted, and no document is long enough to be continued.")
        return left_out or [none]
    table = Table(_HEAD, rows, "Secrets and extraction, with 95% intervals")
    return [Bullets(text_sentences(shown)), table, *left_out]


def _rows(text: TextFigures) -> Iterator[tuple[str, list[str]]]:
    if text.secrets is not None:
        first = f"secrets ranked first of {text.secrets.candidates:,}"
        yield first, _cells(text.secrets.ranked_first, "{:.1%}")
        yield (
            f"exposure in bits, at most {text.secrets.most_bits:.1f}",
            _cells(text.secrets.exposure, "{:.2f}"),
        )
    if text.extraction is not None:
        yield f"of {text.extraction.documents:,} documents extracted", _cells(text.extraction.share, "{:.1%}")


def _cells(figures: WithAndWithout, form: str) -> list[str]:
    return [_cell(one, form) for one in (figures.members, figures.nonmembers, figures.base)]


def _cell(estimate: Estimate, form: str) -> str:
    if estimate.value is None:
        return "not measurable"
    value = form.format(estimate.value)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({form.format(estimate.low)} to {form.format(estimate.high)})"


def _documents(folder: Path, redacted: bool) -> Body:
    if redacted:
        return [Absent("A redacted report shows no text.")]
    previews = TokenPreviews.read(folder)
    if previews is None:
        reason = "This run stores no single tokens; add token_log_probs to `signals` to see them."
        return [Absent(reason)]
    return previews.body()
