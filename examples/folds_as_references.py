"""Models of a cross-validation as reference models: python examples/folds_as_references.py

Repeated cross-validation fits the model on three partitions of the records. One model of the first is the
target; the models of the other two are its references. Each record is out of exactly two of them, whether it
is a member of the target or not, so the references do not reveal who is a member. The other folds of the
target's own partition would.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import RepeatedKFold

import leakscope

N_FOLDS = 5
x, labels = load_digits(return_X_y=True)

outputs, in_masks = [], []
for members, _ in RepeatedKFold(n_splits=N_FOLDS, n_repeats=3, random_state=0).split(x):
    model = RandomForestClassifier(20, random_state=0).fit(x[members], labels[members])
    outputs.append(model.predict_proba(x))  # of every record, not only of the fold that was left out
    in_masks.append(np.isin(np.arange(len(x)), members))

np.savez(
    "folds.npz",
    probabilities=outputs[0],
    labels=labels,
    is_member=in_masks[0],
    reference_probabilities=outputs[N_FOLDS:],
    reference_members=in_masks[N_FOLDS:],
)
print(leakscope.audit(leakscope.SavedPredictions("folds.npz"), out="runs/folds"))
