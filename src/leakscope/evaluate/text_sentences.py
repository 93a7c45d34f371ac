"""What language models reveal beside membership, in plain sentences."""

from __future__ import annotations

from dataclasses import replace

from leakscope.disclosure import FEWEST_RECORDS
from leakscope.evaluate.text_results import ExtractionFigures, SecretFigures, TextFigures, WithAndWithout
from leakscope.stats.estimate import Estimate


def text_sentences(text: TextFigures | None, is_secret: bool = False) -> list[str]:
    """Planted secrets and extracted documents; none for other models, or where they are too few."""
    if text is None:
        return []
    text = without_few(text) if is_secret else text
    secrets = [] if text.secrets is None else [secrets_sentence(text.secrets)]
    return [*secrets, *([] if text.extraction is None else [extraction_sentence(text.extraction)])]


def without_few(text: TextFigures) -> TextFigures:
    """The figures that a page about a given model may state, whose members are secret.

    The reader can query the model, and knows which documents it continues and how it ranks each secret. Where
    these are few, shares of members and of non-members say which of them are members.
    """
    secrets = text.secrets
    if secrets is not None and (
        secrets.secrets < FEWEST_RECORDS or _are_few(secrets.ranked_first, secrets.secrets)
    ):
        secrets = None
    extraction = text.extraction
    if extraction is not None and _are_few(extraction.share, extraction.documents):
        extraction = None
    return replace(text, secrets=secrets, extraction=extraction)


def _are_few(share: WithAndWithout, number: int) -> bool:
    """Whether few documents, but some, have what the share counts, or lack it."""
    sides = [side.value for side in (share.members, share.nonmembers) if side.value is not None]
    n_with = number * sum(sides) / max(len(sides), 1)
    return 0 < n_with < FEWEST_RECORDS or 0 < number - n_with < FEWEST_RECORDS


def secrets_sentence(figures: SecretFigures) -> str:
    """How well models know planted secrets."""
    first, exposure = figures.ranked_first, figures.exposure
    number = (
        "The planted secret is" if figures.secrets == 1 else f"The {figures.secrets:,} planted secrets are"
    )
    without, base = _percent(first.nonmembers), _percent(first.base)
    return (
        f"{number} the likeliest of {figures.candidates:,} candidates {_percent(first.members)} of the time "
        f"under models trained with the secret ({_interval(first.members)}), {without} under models trained "
        f"without it and {base} under the base. The mean exposure is {_bits(exposure.members)} of at most "
        f"{figures.most_bits:.1f} bits ({_bits(exposure.nonmembers)} under models trained without it, "
        f"{_bits(exposure.base)} under the base; chance gives {figures.chance_bits:.1f})."
    )


def extraction_sentence(figures: ExtractionFigures) -> str:
    """How many documents greedy decoding extracts."""
    share = figures.share
    without, base = _percent(share.nonmembers), _percent(share.base)
    return (
        f"Greedy decoding from the first half of a document continues {_percent(share.members)} of the "
        f"documents verbatim under models trained with the document ({_interval(share.members)}), {without} "
        f"under models trained without it and {base} under the base."
    )


def _percent(estimate: Estimate) -> str:
    return "an unknown share" if estimate.value is None else f"{estimate.value:.1%}"


def _bits(estimate: Estimate) -> str:
    return "an unknown number" if estimate.value is None else f"{max(estimate.value, 0.0):.1f}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "no interval"
    return f"95% interval {estimate.low:.1%} to {estimate.high:.1%}"
