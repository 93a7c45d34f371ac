"""Records and models of `coverage.py`: many small models, trained as fast as they can be.

An audit of 64 models is done in a second, so training them must not take three. The networks of a population
are trained together, as `sklearn.neural_network.MLPClassifier` trains each alone. A forest is a loop over
trees that checks its input once: a regression tree on one-hot labels splits where the classification tree
splits, as the summed variance of the labels is the Gini impurity.
"""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np

N_FEATURES, N_CLASSES = 12, 3
KINDS = ("ignore the data", "other records", "linear", "mlp", "forest")
NULL = KINDS[:2]

_HIDDEN, _BATCH, _EPOCHS, _RATE, _WEIGHT_DECAY = 24, 64, 30, 0.02, 1e-4
_TREES, _SMALLEST_LEAF = 25, 2
_LEAST_PROBABILITY = 1e-4


def records(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping Gaussian classes with a tenth of the labels at random; features and labels."""
    rng = np.random.default_rng([seed, 1])
    labels = rng.integers(N_CLASSES, size=n)
    centers = np.random.default_rng(0).normal(0, 0.8, (N_CLASSES, N_FEATURES))
    features = centers[labels] + rng.normal(size=(n, N_FEATURES))
    noisy = rng.random(n) < 0.1
    labels[noisy] = rng.integers(N_CLASSES, size=int(noisy.sum()))
    return features.astype(np.float32), labels


def logits_of(kind: str, x: np.ndarray, y: np.ndarray, in_mask: np.ndarray, seed: int) -> np.ndarray:
    """Logits of models of a kind, each trained on its members; (models, records, classes).

    Args:
        kind: one of `KINDS`.
        x: float32 (records, features).
        y: int64 (records,).
        in_mask: bool (models, records), who is a member.
        seed: of all models.
    """
    rngs = [np.random.default_rng([seed, model, 2]) for model in range(len(in_mask))]
    if kind == "mlp":
        return _log(_networks(x, y, in_mask, np.random.default_rng([seed, 3])))
    if kind == "ignore the data":
        return np.stack([_random_logits(x, rng) for rng in rngs])
    each = {"other records": _of_other_records, "linear": _linear, "forest": _forest}[kind]
    return _log(np.stack([each(x, y, own, rng) for own, rng in zip(in_mask, rngs, strict=True)]))


def _log(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.clip(probabilities, _LEAST_PROBABILITY, 1))


def _random_logits(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    weights = rng.normal(0, 1 / np.sqrt(N_FEATURES), (N_FEATURES, N_CLASSES))
    return 2 * x @ weights + rng.normal(size=N_CLASSES)


def _linear(x: np.ndarray, y: np.ndarray, members: np.ndarray, _: np.random.Generator) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        return LogisticRegression(C=10.0, max_iter=200).fit(x[members], y[members]).predict_proba(x)


def _of_other_records(
    x: np.ndarray, y: np.ndarray, members: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    other_x, other_y = records(int(rng.integers(2**31)), int(members.sum()))
    both_x, both_y = np.concatenate([x, other_x]), np.concatenate([y, other_y])
    return _linear(both_x, both_y, np.arange(len(both_x)) >= len(x), rng)[: len(x)]


def _forest(x: np.ndarray, y: np.ndarray, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probabilities of extremely randomized trees."""
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    own, one_hot = np.ascontiguousarray(x[members]), np.eye(N_CLASSES)[y[members]]
    total = np.zeros((len(x), N_CLASSES))
    with config_context(skip_parameter_validation=True):
        for seed in rng.integers(2**31, size=_TREES):
            tree = ExtraTreeRegressor(
                min_samples_leaf=_SMALLEST_LEAF, max_features="sqrt", random_state=int(seed)
            )
            tree.fit(own, one_hot, check_input=False)
            total += tree.predict(x, check_input=False)
    return total / _TREES


def _networks(x: np.ndarray, y: np.ndarray, in_mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probabilities of networks with one hidden layer, trained by Adam; (models, records, classes)."""
    n_members, one_hot = in_mask.sum(axis=1), np.eye(N_CLASSES, dtype=np.float32)[y]
    weights = _initial_weights(len(in_mask), rng)
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    n_steps = np.zeros(len(in_mask))
    for _ in range(_EPOCHS):
        order = np.argsort(np.where(in_mask, rng.random(in_mask.shape), np.inf), axis=1)  # members first
        for start in range(0, int(n_members.max()), _BATCH):
            rows = order[:, start : start + _BATCH]
            counts = start + np.arange(rows.shape[1]) < n_members[:, None]
            gradients = _gradients(weights, x[rows], one_hot[rows], counts)
            steps = counts.any(axis=1)  # models with fewer members have fewer batches
            n_steps += steps
            _adam_step(weights, gradients, first, second, np.where(steps, n_steps, 0))
    return _softmax(_forward(weights, x)[1])


def _initial_weights(n_models: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Weights and offsets of both layers, as scikit-learn draws them."""
    sizes, weights = (N_FEATURES, _HIDDEN, N_CLASSES), []
    for n_in, n_out in pairwise(sizes):
        reach = np.sqrt(6 / (n_in + n_out))
        for shape in ((n_models, n_in, n_out), (n_models, 1, n_out)):
            weights.append(rng.uniform(-reach, reach, shape).astype(np.float32))
    return weights


def _forward(weights: list[np.ndarray], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden activations, and logits."""
    hidden = np.maximum(x @ weights[0] + weights[1], 0)
    return hidden, hidden @ weights[2] + weights[3]


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def _gradients(
    weights: list[np.ndarray], x: np.ndarray, one_hot: np.ndarray, counts: np.ndarray
) -> list[np.ndarray]:
    """Of the mean cross entropy of each model's batch, with weight decay."""
    hidden, logits = _forward(weights, x)
    size = np.maximum(counts.sum(axis=1), 1).astype(np.float32)[:, None, None]
    error = (_softmax(logits) - one_hot) * counts[..., None] / size
    back = (error @ weights[2].swapaxes(1, 2)) * (hidden > 0)
    decay = np.float32(_WEIGHT_DECAY) / size
    return [
        x.swapaxes(1, 2) @ back + decay * weights[0],
        back.sum(axis=1, keepdims=True),
        hidden.swapaxes(1, 2) @ error + decay * weights[2],
        error.sum(axis=1, keepdims=True),
    ]


def _adam_step(
    weights: list[np.ndarray],
    gradients: list[np.ndarray],
    first: list[np.ndarray],
    second: list[np.ndarray],
    n_steps: np.ndarray,
) -> None:
    """Updates weights and both moments in place, of the models whose number of steps is not 0."""
    at = np.flatnonzero(n_steps)
    rate = _RATE * np.sqrt(1 - 0.999 ** n_steps[at]) / (1 - 0.9 ** n_steps[at])
    for own, gradient, mean, square in zip(weights, gradients, first, second, strict=True):
        mean[at] += np.float32(0.1) * (gradient[at] - mean[at])
        square[at] += np.float32(0.001) * (gradient[at] ** 2 - square[at])
        step = rate.astype(np.float32)[:, None, None] * mean[at] / (np.sqrt(square[at]) + np.float32(1e-8))
        own[at] -= step
