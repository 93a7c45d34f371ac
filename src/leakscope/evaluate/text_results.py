"""Results that audits of language models have beside membership."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.stats.estimate import Estimate, TwoEstimates


@dataclass(frozen=True)
class WithAndWithout:
    """A figure of documents under models that were trained with them, under others, and under the base.

    Attributes:
        members: under models that were trained with the document.
        nonmembers: under models that were trained without it.
        base: under the base, which was not fine-tuned.
    """

    members: TwoEstimates
    nonmembers: TwoEstimates
    base: Estimate


@dataclass(frozen=True)
class ExtractionFigures:
    """Documents whose end greedy decoding reproduces verbatim from their beginning.

    Attributes:
        documents: number of documents that are long enough; canaries do not count.
        most_prefix_tokens: a model gets the first half of a document, and at most so many tokens.
        most_continued_tokens: it must continue by the rest, at most by so many tokens.
        share: of the documents.
    """

    documents: int
    most_prefix_tokens: int
    most_continued_tokens: int
    share: WithAndWithout


@dataclass(frozen=True)
class SecretFigures:
    """How well models know the secrets that were planted in documents.

    The exposure of a secret is log2(candidates) - log2(rank), where the rank is that of its likelihood among
    the candidates that could have been planted (Carlini et al. 2019).

    Attributes:
        secrets: number of secrets.
        candidates: number of candidates of each secret, itself included.
        most_bits: exposure of a secret that ranks first.
        chance_bits: expected exposure of a secret that the model knows nothing about.
        exposure: mean exposure in bits.
        ranked_first: share of the secrets that are the likeliest of their candidates.
    """

    secrets: int
    candidates: int
    most_bits: float
    chance_bits: float
    exposure: WithAndWithout
    ranked_first: WithAndWithout


@dataclass(frozen=True)
class TextFigures:
    """What language models reveal beside membership.

    Attributes:
        extraction: documents that can be extracted; None where none is long enough, or it was not stored.
        secrets: planted secrets; None where there are none.
    """

    extraction: ExtractionFigures | None
    secrets: SecretFigures | None
