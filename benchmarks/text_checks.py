"""The checks of documents on texts whose truth is known: near copies, and what words say about membership.

    python benchmarks/text_checks.py [number of documents]

Near copies: random texts of 20 to 59 words, one in a hundred copied with 0 to 3 words changed. Words: the AUC
on random halves of made-up letters and its z, and how often the check raises an alarm there.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import numpy as np

from leakscope.data.made_up_text import letters
from leakscope.data.near_copies import near_copies, sequences, similarity
from leakscope.evaluate.hygiene.shift import check_shift, text_shift_scores
from leakscope.stats.intervals import delong

N_WORDS, N_HALVES, N_CORPORA, SIZES = 20_000, 300, 10, (60, 120, 400)
LEVELS = (0.3, 0.5, 0.6, 0.7, 0.8, 1.01)


def copies(n_documents: int) -> None:
    """Recall of planted near copies by their similarity, false ones, and CPU time."""
    rng = np.random.default_rng(0)
    words, weights = np.array([f"w{i}" for i in range(N_WORDS)]), 1 / np.arange(1, N_WORDS + 1)
    texts = [
        " ".join(rng.choice(words, rng.integers(20, 60), p=weights / weights.sum()))
        for _ in range(n_documents)
    ]
    planted = {}
    for _ in range(n_documents // 100):
        original = int(rng.integers(n_documents))
        copy = texts[original].split()
        for _ in range(int(rng.integers(0, 4))):
            copy[rng.integers(len(copy))] = f"edit{rng.integers(1_000_000)}"
        planted[len(texts)] = original
        texts.append(" ".join(copy))
    started = time.process_time()
    group = near_copies(texts)
    seconds = time.process_time() - started
    assert group is not None
    print(f"{len(texts):,} documents: {seconds:.1f} s of CPU time")
    alike = np.array([similarity(sequences(texts[i]), sequences(texts[j])) for i, j in planted.items()])
    found = np.array([group[i] == group[j] for i, j in planted.items()])
    for low, high in pairwise(LEVELS):
        here = (alike >= low) & (alike < high)
        print(f"similarity {low:.1f} to {min(high, 1):.1f}: {found[here].sum()} of {here.sum()} found")
    others = np.setdiff1d(np.arange(len(texts)), [*planted, *planted.values()])
    print(f"{(np.bincount(group, minlength=len(texts))[group][others] > 1).sum()} others have a near copy")


def words(n_documents: int) -> None:
    """Random halves of letters, ten corpora: the z of the AUC, and alarms."""
    z, aucs, alarms = [], [], 0
    for seed in range(N_HALVES):
        if seed % (N_HALVES // N_CORPORA) == 0:
            texts = _letters(seed, n_documents)
        is_member = np.random.default_rng(seed).permutation(n_documents) < n_documents // 2
        scores = text_shift_scores(lambda index, own=texts: [own[i] for i in index], is_member)
        auc, error, _ = delong(scores, is_member, 0.95)
        aucs.append(auc)
        z.append((auc - 0.5) / error)
        alarms += check_shift(scores, is_member, of_words=True).status != "ok"
    print(
        f"{n_documents:,} letters, {N_HALVES} random halves: AUC {np.mean(aucs):.3f} on average, at most "
        f"{max(aucs):.3f}; z has mean {np.mean(z):.2f} and standard deviation {np.std(z):.2f}; "
        f"{alarms} alarms"
    )


def _letters(seed: int, n_documents: int) -> list[str]:
    records = letters(seed, n_documents, n_secrets=0)
    assert records.text is not None
    return list(records.text.documents)


if __name__ == "__main__":
    copies(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    for size in SIZES:
        words(size)
