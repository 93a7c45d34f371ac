"""A forest that predicts a number, the progression of a disease: python examples/regression.py"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import leakscope

features, labels = load_diabetes(return_X_y=True)
ids = np.arange(len(labels)).astype(str)
records = leakscope.Records(features.astype(np.float32), labels.astype(np.float32), ids, name="diabetes")
forest = leakscope.EstimatorRecipe(RandomForestRegressor(n_estimators=50))
print(leakscope.audit(records, forest, out="runs/diabetes", models=16))
