"""Patients with several visits: python examples/patients.py (needs pandas)"""

import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsClassifier

import leakscope

# Visits of one patient resemble each other and share a diagnosis, which the measurements do not predict.
rng = np.random.default_rng(0)
n_patients = 150
patient = np.repeat(np.arange(n_patients), rng.integers(8, 21, n_patients))
body, is_ill = rng.normal(size=(n_patients, 4)), rng.random(n_patients) < 0.5
visits = pd.DataFrame(
    body[patient] + 0.1 * rng.normal(size=(len(patient), 4)), columns=["height", "pulse", "iron", "age"]
)
visits["diagnosis"] = np.where(is_ill[patient], "ill", "well")
model = KNeighborsClassifier(3)

# Record by record, a visit outside the training set has other visits of its patient inside: little leaks.
print(leakscope.audit(X=visits, y="diagnosis", estimator=model, out="runs/visits", models=16))

# By patient, all visits are in the training set, or none is. That is what the model gives away about people.
visits["patient"] = [f"P{number:03d}" for number in patient]
by_patient = leakscope.audit(
    X=visits, y="diagnosis", unit="patient", estimator=model, out="runs/patients", models=16
)
print(by_patient)
