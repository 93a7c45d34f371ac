"""A DataFrame with missing values, texts and a Pipeline: python examples/dataframe.py (needs pandas)"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import leakscope

# Your own script: a table, and the pipeline that you train on it.
rng = np.random.default_rng(0)
age, income = rng.integers(18, 90, 400), rng.lognormal(10, 0.5, 400)
income[rng.random(400) < 0.1] = np.nan
people = pd.DataFrame({"person": [f"p{i:03d}" for i in range(400)], "age": age, "income": income})
people["region"] = rng.choice(["north", "south"], 400)
people["outcome"] = np.where(age / 60 + rng.normal(0, 0.4, 400) > 0.9, "yes", "no")
columns = make_column_transformer(
    (SimpleImputer(), ["age", "income"]), (OneHotEncoder(handle_unknown="ignore"), ["region"])
)
pipe = make_pipeline(columns, RandomForestClassifier(n_estimators=50))

# The audit.
verdict = leakscope.audit(X=people, y="outcome", ids="person", estimator=pipe, out="runs/pipe", models=16)
print(verdict)
