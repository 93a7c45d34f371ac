"""Writes the made-up table that own_table.toml reads: python examples/make_people.py"""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(0)
n = 400
age, income = rng.integers(18, 90, n), rng.lognormal(10, 0.5, n).round(-2)
region = rng.choice(["north", "south"], n)
outcome = np.where(age / 60 + rng.normal(0, 0.4, n) > 0.9, "yes", "no")
rows = zip([f"p{i:03d}" for i in range(n)], age, income, region, outcome, strict=True)
text = "\n".join(["person,age,income,region,outcome", *(",".join(map(str, row)) for row in rows)])
Path(__file__).with_name("people.csv").write_text(text + "\n")
