"""Three ways of estimating epistemic uncertainty, and how each goes with vulnerability. On digits.

(a) The population's models that did not see the record; (b) a deep ensemble: networks of other initialisation
and order, all trained on one and the same half; (c) passes with dropout left on, of one network trained on
that half. To (b) and (c) only the records outside of that half are strangers: all three are compared there.
Vulnerability is the advantage (TPR - FPR over models) of EB-LiRA at log ratio 0.

    python benchmarks/three_uncertainties.py
"""

from __future__ import annotations

import time

import numpy as np
import torch

import leakscope
from leakscope.array_types import FloatArray
from leakscope.attacks.eb_lira import EbLira
from leakscope.design import make_design
from leakscope.hardness.in_out_mean import side_mean
from leakscope.hardness.uncertainty import uncertainty_of_logits
from leakscope.stats.correlation import Correlation, pearson, spearman
from leakscope.train.dropout import dropout_passes
from leakscope.train.gradient_norms import at_checkpoints
from leakscope.train.loop import Inputs, inputs_from, train_block
from leakscope.types import Design, Signals

N_MODELS, N_PASSES = 32, 100
RECIPE = leakscope.Recipe(net="mlp", net_options=(("width", 256), ("dropout", 0.2)), lr=0.003, epochs=40)


def main() -> None:
    started = time.perf_counter()
    records = leakscope.load("digits")
    inputs = inputs_from(records, torch.device("cpu"))
    design = make_design("balanced", N_MODELS, len(records), seed=0)
    signals = answers(inputs, design, seed=0)
    outside = ~design.in_mask[0]
    same_half = Design(np.repeat(design.in_mask[:1], N_MODELS // 2, axis=0))
    found = {
        "population": uncertainty_of_logits(signals.last("logits"), ~design.in_mask).epistemic,
        "deep ensemble": uncertainty_of_logits(answers(inputs, same_half, seed=1).last("logits")).epistemic,
        "MC dropout": uncertainty_of_logits(of_one_model(inputs, design)).epistemic,
    }
    scores = EbLira()(signals, design, np.arange(N_MODELS)).values
    advantage = side_mean(scores > 0, design.in_mask) - side_mean(scores > 0, ~design.in_mask)
    print(
        f"digits, {N_MODELS} models of a population, {N_MODELS // 2} of one half, {N_PASSES} passes; ", end=""
    )
    print(f"{int(outside.sum())} records outside the half; r with 95% interval")
    for name, values in found.items():
        linear = _cell(pearson(values[outside], advantage[outside]))
        cells = [_cell(spearman(values[outside], other[outside])) for other in (advantage, *found.values())]
        print(f"{name:14s}  vulnerability: Pearson {linear}, Spearman {cells[0]}; with the three: ", end="")
        print("  ".join(cells[1:]))
    print(f"({time.perf_counter() - started:.0f} s)")


def answers(inputs: Inputs, design: Design, seed: int) -> Signals:
    """What the design's models say at the end."""
    models = np.arange(design.n_models)
    kept = train_block(inputs, design, RECIPE, models, seed, ("log_odds", "logits"), "stacked").signals
    return Signals(kept, RECIPE.evaluated_epochs, inputs.y.numpy())


def of_one_model(inputs: Inputs, design: Design) -> FloatArray:
    """Passes of the population's first model; (passes, records, classes)."""
    (passes,) = at_checkpoints(
        lambda net: dropout_passes(net, inputs.x, N_PASSES), inputs, design, RECIPE, 0, seed=0
    )
    return np.asarray(passes, dtype=np.float64)


def _cell(found: Correlation) -> str:
    return f"{found.r:.3f} [{found.interval.low:.3f}, {found.interval.high:.3f}]"


if __name__ == "__main__":
    main()
