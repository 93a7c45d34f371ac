"""How often do the intervals of planted secrets and of extracted documents hold, where the truth is known?

A model's rank of a secret and whether it continues a document depend on the document (some are easier for
every model, as their common base decides), on the model (some training runs remember more), and on whether
the model was trained with the document. The truth is the mean over all documents and models that could have
been drawn.

    python benchmarks/text_intervals.py --populations 1000
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from scipy import special

from leakscope.design import make_design
from leakscope.evaluate.text_figures import Population, text_figures
from leakscope.evaluate.text_results import WithAndWithout
from leakscope.stats.estimate import Estimate
from leakscope.types import Design, Signals

CANDIDATES = 256
_DRAWN = 400_000


class Case(NamedTuple):
    """Populations that are drawn alike; sizes are in standard deviations of a secret's likelihood.

    Attributes:
        name: what the models do.
        gain: how much likelier a secret is under models trained with it.
        of_documents: spread over documents of what all models share.
        of_models: spread over models of what they gain.
        of_gains: spread over documents of what is gained.
    """

    name: str
    gain: float
    of_documents: float
    of_models: float
    of_gains: float


CASES = (
    Case("learn nothing", 0.0, 0.7, 0.0, 0.0),
    Case("remember a little", 0.5, 0.7, 0.2, 0.3),
    Case("remember some", 1.5, 0.7, 0.4, 1.0),
    Case("remember most", 3.0, 0.7, 0.5, 1.0),
)


def likelihoods(case: Case, in_mask: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal scores of the true secret among its candidates: of the models, and of the base."""
    n_models, n_documents = in_mask.shape
    shared = case.of_documents * rng.standard_normal(n_documents)
    rest = np.sqrt(1 - case.of_documents**2) * rng.standard_normal((n_models, n_documents))
    gains = case.gain + case.of_gains * rng.standard_normal(n_documents)
    gains = gains + case.of_models * rng.standard_normal((n_models, 1))
    base = shared + np.sqrt(1 - case.of_documents**2) * rng.standard_normal(n_documents)
    return shared + rest + (gains if case.gain else 0.0) * in_mask, base


def ranks(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How many of the other candidates, standard normal too, are above each score."""
    return rng.binomial(CANDIDATES - 1, special.ndtr(-scores))


def figures_of(case: Case, n_models: int, n_documents: int, seed: int) -> dict[str, WithAndWithout]:
    """The figures of one population."""
    rng = np.random.default_rng([seed, n_models, n_documents])
    design = make_design("balanced", n_models, n_documents, seed)
    scores, base = likelihoods(case, design.in_mask, rng)
    rank, of_base = ranks(scores, rng), ranks(base, rng)
    # A document is continued where its likelihood is that of the first few candidates.
    extracted, base_extracted = scores > _EXTRACTED_FROM, base > _EXTRACTED_FROM
    arrays = {
        "secret_rank": rank,
        "base_secret_rank": np.broadcast_to(of_base, rank.shape),
        "extracted": extracted,
        "base_extracted": np.broadcast_to(base_extracted, rank.shape),
    }
    stored = {name: np.asarray(values, np.float32)[:, None] for name, values in arrays.items()}
    signals = Signals(stored, (1,), np.zeros(n_documents, np.int64))
    some = Population(signals, Design(design.in_mask), np.arange(n_models))
    figures = text_figures(some, some, np.full(n_documents, CANDIDATES))
    assert figures is not None and figures.secrets is not None and figures.extraction is not None
    return {
        "exposure": figures.secrets.exposure,
        "ranked first": figures.secrets.ranked_first,
        "extracted": figures.extraction.share,
    }


_EXTRACTED_FROM = 2.5


def truths(case: Case) -> dict[str, tuple[float, float, float]]:
    """The true figures under models trained with the document, without it, and under the base."""
    rng = np.random.default_rng(0)
    in_mask = np.repeat([[True], [False]], _DRAWN, axis=1)
    # A model of its own for every document: two rows would share theirs.
    own = case._replace(of_models=0.0, of_gains=float(np.hypot(case.of_gains, case.of_models)))
    scores, base = likelihoods(own, in_mask, rng)
    sides = (scores[0], scores[1], base)
    of_ranks = [ranks(side, rng) for side in sides]
    bits = [float((np.log2(CANDIDATES) - np.log2(1 + rank)).mean()) for rank in of_ranks]
    first = [float((rank == 0).mean()) for rank in of_ranks]
    extracted = [float((side > _EXTRACTED_FROM).mean()) for side in sides]
    return {"exposure": tuple(bits), "ranked first": tuple(first), "extracted": tuple(extracted)}  # type: ignore[dict-item]


def lines(case: Case, n_models: int, n_documents: int, n_populations: int) -> list[str]:
    """How often each interval holds."""
    true, drawn = truths(case), [figures_of(case, n_models, n_documents, s) for s in range(n_populations)]
    rows = []
    for name, of_sides in true.items():
        cells = [
            _cell([getattr(figures[name], side) for figures in drawn], truth)
            for side, truth in zip(("members", "nonmembers", "base"), of_sides, strict=True)
        ]
        rows.append(f"| {case.name} | {n_models} | {n_documents} | {name} | {' | '.join(cells)} |")
    return rows


def _cell(estimates: list[Estimate], truth: float) -> str:
    """ "96.2% of 1.44": the share that holds the truth."""
    holds = [
        one.low is not None and one.high is not None and one.low <= truth <= one.high for one in estimates
    ]
    return f"{np.mean(holds):.1%} of {truth:.3g}"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", type=int, default=1000)
    parser.add_argument("--sizes", default="8x12,16x30,32x100", help="models x documents, with commas")
    given = parser.parse_args()
    print("| models that | models | documents | figure | with the document | without it | the base |")
    print("|---|---:|---:|---|---|---|---|")
    for size in given.sizes.split(","):
        n_models, n_documents = map(int, size.split("x"))
        for case in CASES:
            print(*lines(case, n_models, n_documents, given.populations), sep="\n", flush=True)


if __name__ == "__main__":
    main()
