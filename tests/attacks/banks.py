"""Made-up banks whose leakage is known."""

import numpy as np
import torch

from leakscope.design import make_design
from leakscope.signals.classification import CLASSIFICATION_SIGNALS, classification_signals
from leakscope.types import Design, Signals


def signals_of(logits, labels):
    """Every signal of logits (models, columns, classes), at one checkpoint."""
    labels = np.broadcast_to(labels, logits.shape[:2])
    answers = classification_signals(
        torch.from_numpy(logits.astype(np.float32)), torch.from_numpy(labels.copy()), CLASSIFICATION_SIGNALS
    )
    return Signals({name: values.numpy()[:, None] for name, values in answers.items()}, (1,), labels[0])


def made_up_bank(gap, n_models=8, n_records=200, kind="bernoulli", seed=0):
    """A model's logit of the label is the record's own ease, plus noise, plus `gap` where it is a member.

    Three quarters of the records have label 0, so that leakage also shows in the bare probabilities.
    """
    design = make_design(kind, n_models, n_records, seed)
    rng = np.random.default_rng([seed, 1])
    labels = np.where(np.arange(n_records) % 4 == 3, 1 + np.arange(n_records) // 4 % 2, 0)
    ease = rng.normal(scale=1.5, size=n_records)
    logits = rng.normal(size=(n_models, n_records, 3))
    at_label = np.eye(3)[labels]
    logits += at_label * (ease + gap * design.in_mask)[..., None]
    return signals_of(logits, labels), design


def flipped(design, target):
    """The same design, but for the target's own row."""
    in_mask = design.in_mask.copy()
    in_mask[target] = ~in_mask[target]
    return Design(in_mask)
