"""XGBoost on a DataFrame with missing values and categories: python examples/xgboost_model.py

It needs pandas, and xgboost or xgboost-cpu.
"""

import numpy as np
import pandas as pd
from xgboost import XGBClassifier

import leakscope

# Your own script: a table, and the model that you train on it.
rng = np.random.default_rng(0)
age, region = rng.integers(18, 90, 400).astype(float), pd.Categorical(rng.choice(["north", "south"], 400))
y = np.where(age / 60 + rng.normal(0, 0.4, 400) > 0.9, "yes", "no")
age[rng.random(400) < 0.1] = np.nan
X = pd.DataFrame({"age": age, "region": region, "dose": rng.normal(size=400)})
model = XGBClassifier(n_estimators=50, enable_categorical=True)

# The audit.
print(leakscope.audit(X=X, y=y, groups=["region"], estimator=model, out="runs/xgboost", models=16))
