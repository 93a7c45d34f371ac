"""What reference models from a cross-validation are worth: python benchmarks/folds_as_references.py

Each target is a random forest, trained on all folds of a partition of the digits but one. The same target is
attacked with no references, with all models of one or two other partitions (a record is out of one or two of
them), with models on random subsets of the same size or on random halves, and with one output per record:
that of the model of another partition which was not trained on it. Prints the table of the page: means over
targets ± half of the 95% t interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from leakscope.attacks.spec import resolve
from leakscope.signals.probabilities import log_probabilities
from leakscope.stats.roc import auc, operating_point, roc
from leakscope.types import Design, Signals

Mask = NDArray[np.bool_]
N_TREES = 20
FPR = 0.01
X, LABELS = load_digits(return_X_y=True)
N = len(X)


def log_odds(members: Mask, seed: int) -> NDArray[np.float64]:
    """Of the label, by a model trained on `members`."""
    forest = RandomForestClassifier(N_TREES, random_state=seed).fit(X[members], LABELS[members])
    logits = log_probabilities(forest.predict_proba(X)).astype(np.float64)
    is_label = np.eye(logits.shape[1], dtype=bool)[LABELS]
    return logits[is_label] - np.logaddexp.reduce(np.where(is_label, -np.inf, logits), axis=1)


def partition(rng: np.random.Generator, n_folds: int) -> Mask:
    """Who is in each model of a cross-validation; (folds, records)."""
    fold = rng.permutation(N) % n_folds
    return fold != np.arange(n_folds)[:, None]


def attacked(attack: str, rows: list[NDArray[np.float64]], in_mask: list[Mask]) -> tuple[float, float]:
    """AUC and TPR on the first row, with the others as references."""
    values = np.stack(rows)[:, None].astype(np.float32)
    signals = Signals({"log_odds": values, "loss": np.logaddexp(0, -values)}, (1,), LABELS.astype(np.int64))
    scores = resolve(attack)(signals, Design(np.stack(in_mask)), np.array([0])).values[0]
    return auc(scores, in_mask[0]), operating_point(roc(scores, in_mask[0]), FPR).tpr


def ways(n_folds: int, seed: int) -> Iterator[tuple[str, int, tuple[float, float]]]:
    """Every choice of references for one target: its name, how many, and what the attack achieves."""
    rng = np.random.default_rng([seed, n_folds])
    members, folds = partition(rng, n_folds)[0], partition(rng, n_folds)
    share = 1 - 1 / n_folds
    masks = {
        "folds of another partition": folds,
        "folds of two other partitions": np.concatenate([folds, partition(rng, n_folds)]),
        f"random subsets of {share:.0%}": rng.random((n_folds, N)) < share,
        "random halves": rng.random((n_folds, N)) < 0.5,
    }
    target = log_odds(members, seed)
    yield "none (attack `loss`)", 0, attacked("loss", [target], [members])
    for name, in_mask in masks.items():
        rows = [log_odds(mask, 1000 * (1 + seed) + n) for n, mask in enumerate(in_mask)]
        yield name, len(in_mask), attacked("eb_lira", [target, *rows], [members, *in_mask])
        if in_mask is folds:
            out_of_fold = np.stack(rows)[(~folds).argmax(axis=0), np.arange(N)]
            nobody = np.zeros(N, dtype=bool)
            achieved = attacked("eb_lira(online=false)", [target, out_of_fold], [members, nobody])
            yield "one output out of fold", 1, achieved


def with_interval(values: list[float], scale: float, digits: int) -> str:
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{scale * np.mean(values):.{digits}f} ± {scale * half:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--folds", type=int, nargs="+", default=[2, 5])
    arguments = parser.parse_args()
    print("| folds | references | number | AUC | TPR at 1% FPR |")
    print("|---:|---|---:|---:|---:|")
    for n_folds in arguments.folds:
        measured: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for seed in range(arguments.targets):
            for way, number, figures in ways(n_folds, seed):
                measured.setdefault((way, number), []).append(figures)
        for (way, number), figures in measured.items():
            aucs, tprs = ([one[k] for one in figures] for k in (0, 1))
            cells = f"{with_interval(aucs, 1, 3)} | {with_interval(tprs, 100, 1)}%"
            print(f"| {n_folds} | {way} | {number} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
