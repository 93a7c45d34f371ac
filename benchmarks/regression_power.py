"""How well each attack detects members of regression models: `python benchmarks/regression_power.py`.

Seven problems in which models leak, and one in which they cannot: its models are trained on other records.
Each has a population of 32 models on 400 records; AUC and TPR at 1% FPR in percent, means over targets. A
second table has LiRA and EB-LiRA on other signals than the scaled residual. docs/regression.md shows both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge

from leakscope.array_types import AnyArray, FloatArray
from leakscope.attacks import Attack, EbLira, Lira, resolve
from leakscope.attacks.blocks import Blocks
from leakscope.attacks.label_fit import LabelFit
from leakscope.bank.bank import Bank
from leakscope.design import make_design
from leakscope.engine.local import complete_bank
from leakscope.engine.request import TrainingRequest
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.stats.roc import auc as auc_of
from leakscope.stats.roc import split_scores
from leakscope.stats.roc_summary import operating_point_of_split
from leakscope.types import Records, Signals

N_RECORDS, N_FEATURES = 400, 120
ATTACKS = ("loss", "population", "quantile", "calibrated", "reference", "rmia", "lira", "eb_lira")
Noise = Callable[[np.random.Generator, FloatArray], FloatArray]


def gaussian(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """The same for all records."""
    return rng.normal(size=len(x))


def heavy_tailed(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """Student's t with 2 degrees of freedom."""
    return rng.standard_t(2, size=len(x))


def heteroscedastic(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """A spread that a feature determines: from a seventh to seven times the usual."""
    return rng.normal(size=len(x)) * np.exp((x[:, 0] - x[:, 0].mean()) / x[:, 0].std())


def linear(rng: np.random.Generator, noise: Noise) -> tuple[FloatArray, FloatArray]:
    """120 features, of which a model has 200 records."""
    x = rng.normal(size=(N_RECORDS, N_FEATURES))
    return x, x @ rng.normal(size=N_FEATURES) / np.sqrt(N_FEATURES) + noise(rng, x)


def curved(rng: np.random.Generator, noise: Noise) -> tuple[FloatArray, FloatArray]:
    """Friedman's function of five of ten features, in units of about its own spread."""
    x = rng.uniform(size=(N_RECORDS, 10))
    f = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, f / 5 + noise(rng, x)


def one_wrong_label(rng: np.random.Generator, noise: Noise) -> tuple[FloatArray, FloatArray]:
    """The same with one label of 10,000."""
    x, y = curved(rng, noise)
    y[7] = 1e4
    return x, y


def trained_on_others(records: Records, members: AnyArray, seed: int) -> Callable[[AnyArray], AnyArray]:
    """A model of other records than those it is said to be trained on."""
    x, y = linear(np.random.default_rng(seed), gaussian)
    return Ridge(alpha=1.0).fit(x[:200], y[:200]).predict


@dataclass(frozen=True)
class Problem:
    """Records, and how models of them are trained."""

    name: str
    draw: Callable[[np.random.Generator, Noise], tuple[FloatArray, FloatArray]]
    noise: Noise
    recipe: AnyRecipe

    def bank(self, folder: Path, seed: int, n_models: int) -> Bank:
        """A trained population."""
        x, y = self.draw(np.random.default_rng([seed, 1]), self.noise)
        ids = np.arange(len(y)).astype(str)
        records = Records(x.astype(np.float32), y.astype(np.float32), ids, name=self.name)
        design = make_design("balanced", n_models, len(y), seed)
        return complete_bank(folder, TrainingRequest(records, design, self.recipe, seed, device="cpu"))


RIDGE = EstimatorRecipe(Ridge(alpha=1.0), processes=1)
FOREST = EstimatorRecipe(RandomForestRegressor(n_estimators=50), processes=1)
BOOSTED = EstimatorRecipe(GradientBoostingRegressor(subsample=0.8), processes=1)
NET = Recipe(net="mlp", net_options=(("width", 128),), lr=0.01, epochs=60, batch_size=32)
PROBLEMS = (
    Problem("ridge, Gaussian noise", linear, gaussian, RIDGE),
    Problem("ridge, heavy-tailed noise", linear, heavy_tailed, RIDGE),
    Problem("ridge, heteroscedastic noise", linear, heteroscedastic, RIDGE),
    Problem("forest, Gaussian noise", curved, gaussian, FOREST),
    Problem("forest, one wrong label", one_wrong_label, gaussian, FOREST),
    Problem("boosted trees, heteroscedastic", curved, heteroscedastic, BOOSTED),
    Problem("MLP, Gaussian noise", curved, gaussian, NET),
    Problem("none: trained on other records", linear, gaussian, FunctionRecipe(trained_on_others)),
)


def figures(attack: Attack, signals: Signals, bank: Bank) -> tuple[float, float]:
    """AUC and TPR at 1% FPR in percent, means over targets."""
    design = bank.design()
    scores = attack(signals, design).values
    rows = list(zip(scores, design.in_mask, strict=True))
    aucs = [auc_of(own, members) for own, members in rows]
    tprs = [operating_point_of_split(split_scores(*row), 0.01).tpr for row in rows]
    return 100 * float(np.mean(aucs)), 100 * float(np.mean(tprs))


def other_signals(bank: Bank) -> dict[str, Signals]:
    """What Gaussians could be fitted to: signals in the place of the scaled residual."""
    signals, design = bank.signals(), bank.design()
    blocks = Blocks(signals, design, np.arange(design.n_models), ("scaled_residual",))
    density = LabelFit.to(blocks).of(blocks.whole())
    scaled = signals.last("scaled_residual").astype(np.float64)
    values = {
        "residual": np.sinh(scaled),
        "log-density": density,
        "minus log of its size": -np.log(np.maximum(np.abs(scaled), 1e-6)),
    }
    return {name: replace(signals, arrays={"scaled_residual": own[:, None]}) for name, own in values.items()}


def measured(problem: Problem, seed: int, n_models: int) -> dict[str, tuple[float, float]]:
    """The figures of one population, by column of the tables."""
    with tempfile.TemporaryDirectory() as folder:
        bank = problem.bank(Path(folder), seed, n_models)
        found = {name: figures(resolve(name), bank.signals(), bank) for name in ATTACKS}
        for name, signals in other_signals(bank).items():
            for attack in (Lira(), EbLira()):
                found[f"{attack.name}, {name}"] = figures(attack, signals, bank)
    return found


def main() -> None:
    """Prints both tables, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, default=32)
    parser.add_argument("--populations", type=int, default=1)
    parser.add_argument("--problem", help="only those whose name contains this")
    options = parser.parse_args()
    rows = {}
    for problem in (p for p in PROBLEMS if options.problem is None or options.problem in p.name):
        runs = [measured(problem, seed, options.models) for seed in range(options.populations)]
        rows[problem.name] = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
        print(problem.name, file=sys.stderr, flush=True)
    others = [name for name in next(iter(rows.values())) if name not in ATTACKS]
    for columns in (ATTACKS, ("lira", "eb_lira", *others)):
        print(f"| models | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
        for name, row in rows.items():
            cells = " | ".join(f"{row[column][0]:.1f} / {row[column][1]:.1f}" for column in columns)
            print(f"| {name} | {cells} |")
        print()


if __name__ == "__main__":
    main()
