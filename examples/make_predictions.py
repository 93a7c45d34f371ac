"""Writes the predictions.npz that predictions.py audits: python examples/make_predictions.py

One target and eight reference models predict all digits. Without the last two arrays the target is audited
without references.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

x, labels = load_digits(return_X_y=True)
in_mask = np.random.default_rng(0).random((9, len(x))) < 0.5  # who is in which training set
probabilities = np.stack(
    [RandomForestClassifier(20, random_state=0).fit(x[m], labels[m]).predict_proba(x) for m in in_mask]
)
np.savez(
    "predictions.npz",
    probabilities=probabilities[0],
    labels=labels,
    is_member=in_mask[0],
    reference_probabilities=probabilities[1:],
    reference_members=in_mask[1:],
)
