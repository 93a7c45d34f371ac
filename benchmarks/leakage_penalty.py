"""Does leakage as a regularizer protect a linear regression, and at which price?

16 regressions on halves of 150 patients of scikit-learn's diabetes data, attacked with LiRA: least squares,
plain ridge, a weight chosen for the error alone, and a weight chosen against leakage as well.

    python benchmarks/leakage_penalty.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge

import leakscope
from leakscope.evaluate.results import Figure
from leakscope.leakage.regularized import LeakageRidge

N_RECORDS, N_MODELS = 150, 16
ESTIMATORS = {
    "none (`LinearRegression`)": LinearRegression(),
    "`Ridge(alpha=1)`": Ridge(1.0),
    "`Ridge(alpha=10)`": Ridge(10.0),
    "`Ridge(alpha=100)`": Ridge(100.0),
    "`LeakageRidge(strength=0)`": LeakageRidge(strength=0.0),
    **{f"`leakage_penalty(strength={s:g})`": LeakageRidge(0.0, s) for s in (0.1, 1.0, 10.0)},
}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, help="folder of the audits; they are used again")
    work = parser.parse_args().work or Path(mkdtemp())
    features, labels = load_diabetes(return_X_y=True)
    features = (features / features.std(axis=0))[:N_RECORDS].astype(np.float32)
    labels = labels[:N_RECORDS].astype(np.float32)
    records = leakscope.Records(features, labels, np.arange(N_RECORDS).astype(str), name="diabetes")
    print("| regression | AUC | bits of the most exposed 1% | RMSE on non-members |\n|---|---|---|---|")
    for at, (name, estimator) in enumerate(ESTIMATORS.items()):
        recipe = leakscope.EstimatorRecipe(estimator, processes=1)
        audit = leakscope.audit(
            records, recipe, out=work / str(at), models=N_MODELS, attacks=["lira", "loss"]
        )
        results = audit.results
        assert results.error is not None
        worst = results.leakage.checkpoints[-1].most_exposed
        auc, error = (shown(figure) for figure in (results.attacks["lira"].auc, results.error.nonmembers))
        print(f"| {name} | {auc} | {max(worst.value or 0.0, 0.0):.2f} | {error} |", flush=True)


def shown(figure: Figure) -> str:
    """A figure with its interval for these records."""
    digits = 3 if (figure.value or 0) < 1 else 1
    value, low, high = (f"{x or 0:.{digits}f}" for x in (figure.value, figure.these_low, figure.these_high))
    return f"{value} ({low} to {high})"


if __name__ == "__main__":
    main()
