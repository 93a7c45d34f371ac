"""What the report of language models has beside membership: secrets, extraction, documents token by token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.text_results import TextFigures, WithAndWithout
from leakscope.evaluate.text_sentences import text_sentences
from leakscope.report.blocks import Absent, Body, Bullets, Table
from leakscope.report.documents import TokenPreviews
from leakscope.report.page import Section
from leakscope.stats.estimate import Estimate

_HEAD = ("", "models trained with the document", "models trained without it", "the base")


def text_sections(results: AuditResults, folder: Path, redacted: bool) -> list[Section]:
    """One section where the models are language models, else none; a redacted one shows no text."""
    if results.text is None:
        return []
    return [
        Section(
            "text",
            "Text",
            [*_figures(results.text), *_documents(folder, redacted)],
            "What outputs reveal beside membership. The base shows what does not come from fine-tuning.",
        )
    ]


def _figures(text: TextFigures) -> Body:
    rows = [[name, *cells] for name, cells in _rows(text)]
    if not rows:
        return [Absent("No secret was planted, and no document is long enough to be continued.")]
    return [Bullets(text_sentences(text)), Table(_HEAD, rows, "Secrets and extraction, with 95% intervals")]


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
