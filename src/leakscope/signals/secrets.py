"""Where a planted secret ranks among those that could have been planted instead. (Carlini et al. 2019)

A secret was drawn at random from a space of equally likely ones. A model that learned nothing about it ranks
it anywhere among the alternatives; one that memorized it ranks it first. What counts is the log-probability
of the secret's own tokens, given the document before them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leakscope.disk.scratch import blocks
from leakscope.frames.text import Secrets
from leakscope.signals.tokens import TokenStats

NO_SECRET = -1.0
"""The rank of a document without a secret."""


def secret_ranks(
    stats_of: Callable[[Tensor], TokenStats], secrets: Secrets, documents: Tensor, at_once: int
) -> Tensor:
    """How many alternatives are at least as likely as the secret; float32 (models, documents), 0 is first.

    Args:
        stats_of: token ids (documents, length) -> what the models say about them.
        secrets: planted ones, and their alternatives.
        documents: token ids (documents, length) of all records.
        at_once: documents that `stats_of` is called with, at most.
    """
    ranks: list[Tensor] = []
    for number, (record, (start, end)) in enumerate(zip(secrets.records, secrets.spans, strict=True)):
        others = torch.from_numpy(secrets.alternatives[number, :, :end].astype("int64")).to(documents.device)
        candidates = torch.cat([documents[int(record)][None, :end].long(), others])
        predicted = slice(max(start - 1, 0), end - 1)
        sums = [
            stats_of(candidates[some]).log_prob[..., predicted].sum(-1)
            for some in blocks(len(candidates), at_once)
        ]
        likely = torch.cat(sums, dim=1)
        ranks.append((likely[:, 1:] >= likely[:, :1]).sum(1))
    all_ranks = torch.full((len(ranks[0]), len(documents)), NO_SECRET, device=documents.device)
    all_ranks[:, torch.from_numpy(secrets.records).to(documents.device)] = torch.stack(ranks, 1).float()
    return all_ranks
