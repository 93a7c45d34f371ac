"""RMIA's own setting: WRN-28-2 networks on random halves of CIFAR-10's 50,000 training records, as a bank.

RMIA's tables (Zarifzadeh et al. 2024) are of networks that LiRA's code (Carlini et al. 2022) trained. The
recipe here is that of the code: 100 epochs of SGD with momentum 0.9 and weight decay 5e-4, batches of 256,
flips and 4-pixel crops, and a rate that rises to 0.1 within the first epoch and then falls as cos(7/16 pi t),
so that training ends at a fifth of the peak. The code attacks the outputs of the last weights, with batch
norm by the statistics of 5,000 records at a time; the test accuracy that it prints is that of an exponential
average of the weights. Both are stored here, and outputs by running statistics too. `--schedule annealed`
lets the rate fall to zero, as most trainings do. Unlike there, images are standardised, crops are padded with
the mean instead of a reflection, and weight decay includes the parameters of batch norm.

    python benchmarks/rmia_setting.py --data FOLDER --out FOLDER --models 0:32
    python benchmarks/rmia_setting.py --data FOLDER --out FOLDER --models 32:64
    python benchmarks/rmia_setting.py --out FOLDER --bank BANK

`--data` has the files of CIFAR-10's binary version. Models are trained in blocks that are stored when they
are complete: the same command again trains what is missing, other models extend the bank. A block of 8 takes
4.6 minutes on one H200 (torch 2.11), of which 50 s are the queries at the end; the first of a process takes
up to a minute more, for compiling. The last command collects the finished models. A bank has

    design.npy                     bool (models, records), labels.npy, models.npy (numbers in the design)
    log_odds_epochNNN.npy          float16 (models, records), the mean over the image and its mirror image
    log_odds_queries.npy           float16 (models, 18, records) at the end: the image, its mirror image, and
                                   both moved by a pixel in the eight directions; queries.npy names them
    logits_queries.npy             float16 (models, 2, records, classes) of the first two queries
    log_odds_running.npy           float16 (models, 2, records) of the first two by running statistics
    log_odds_test.npy              float16 (models, test records) of the image, labels_test.npy
    accuracy.npy                   float32 (models, 2), of members and non-members
    test_accuracy.npy              float32 (models, 3): as attacked, by running statistics, averaged weights
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.data.cifar10 import BATCHES, cifar10
from leakscope.design import make_design
from leakscope.recipe import Recipe
from leakscope.signals.functions import log_odds
from leakscope.train.augment import padded
from leakscope.train.loop import Inputs, inputs_from, train_stages
from leakscope.train.stages import stages_of
from leakscope.train.state import unsaved
from leakscope.train.steps import Stack
from leakscope.types import Design, Records

SEED, N_DESIGNED = 0, 64
AT_ONCE = 5_000  # records whose statistics batch norm uses, as published
AVERAGE_OF_STEP = 0.999  # decay of the average of the weights, as published
CHECKPOINTS = (20, 40, 60, 80)
TRAINER = "side_by_side"
LARGE = ("log_odds_queries", "logits_queries")  # arrays that are files of their own
MOVES = ((0, 0), (-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


class Query(NamedTuple):
    """How an image is seen: mirrored or not, and moved by so many pixels."""

    mirrored: bool
    down: int
    right: int


QUERIES = tuple(Query(mirrored, *move) for move in MOVES for mirrored in (False, True))
FIRST = QUERIES[:2]  # the image and its mirror image


class WarmCosine(Recipe):
    """The published rate: a linear start within 1% of the training, then cos(7/16 pi t)."""

    def lr_factor(self, epochs_done: float) -> float:
        share = epochs_done / self.epochs
        return min(1.0, 100 * share) * math.cos(7 / 16 * math.pi * share)


class Averaged:
    """An exponential average of parameters and running statistics, updated after each epoch."""

    def __init__(self, steps: int) -> None:
        self._share = 1 - AVERAGE_OF_STEP**steps
        self._average: list[Tensor] = []

    def update(self, stack: Stack) -> None:
        now = _float_tensors(stack)
        if not self._average:
            self._average = [tensor.clone() for tensor in now]
        torch._foreach_lerp_(self._average, now, self._share)

    @contextmanager
    def in_place(self, stack: Stack) -> Iterator[None]:
        """The networks have the averages while this lasts."""
        now = _float_tensors(stack)
        last = [tensor.clone() for tensor in now]
        torch._foreach_copy_(now, self._average)
        yield
        torch._foreach_copy_(now, last)


def _float_tensors(stack: Stack) -> list[Tensor]:
    return [tensor.data for tensor in (*stack.parameters, *stack.buffers) if tensor.is_floating_point()]


@contextmanager
def batch_statistics(net: nn.Module) -> Iterator[None]:
    """Batch norm uses the statistics of the batch, and does not learn from them."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    momentum = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 0.0
    yield
    for norm, own in zip(norms, momentum, strict=True):
        norm.eval()
        norm.momentum = own


def seen(x: Tensor, query: Query) -> Tensor:
    """Images as a query shows them; they are padded as in training."""
    height, width = x.shape[2:]
    view = padded(x.flip(-1) if query.mirrored else x, 1)
    return view[:, :, 1 - query.down : 1 - query.down + height, 1 - query.right : 1 - query.right + width]


@torch.no_grad()
def logits_of(net: nn.Module, x: Tensor, query: Query, running: bool = False) -> Tensor:
    """A network's outputs; float32 (records, classes), on the device."""
    net.eval()
    parts = []
    for some in x.split(AT_ONCE):
        images = seen(some, query).contiguous(memory_format=torch.channels_last)
        if running:
            parts.append(net(images))
        else:
            with batch_statistics(net):
                parts.append(net(images))
    return torch.cat(parts)


def stored(values: Tensor) -> np.ndarray:
    return values.to(torch.float16).cpu().numpy()


def at_checkpoint(stack: Stack, inputs: Inputs) -> np.ndarray:
    """The log-odds of each model, the mean over the image and its mirror image; (models, records)."""
    means = []
    for net in stack.nets:
        both = [log_odds(logits_of(net, inputs.x, query), inputs.y) for query in FIRST]
        means.append(stored(torch.stack(both).mean(dim=0)))
    return np.stack(means)


def at_the_end(net: nn.Module, inputs: Inputs, test: Inputs) -> dict[str, np.ndarray]:
    """What is stored of one network at the end of its training."""
    logits = [logits_of(net, inputs.x, query) for query in FIRST]
    of_all = [log_odds(z, inputs.y) for z in logits]
    of_all += [log_odds(logits_of(net, inputs.x, query), inputs.y) for query in QUERIES[2:]]
    running = [log_odds(logits_of(net, inputs.x, query, running=True), inputs.y) for query in FIRST]
    on_test = logits_of(net, test.x, QUERIES[0])
    return {
        "log_odds_queries": stored(torch.stack(of_all)),
        "logits_queries": stored(torch.stack(logits)),
        "log_odds_running": stored(torch.stack(running)),
        "log_odds_test": stored(log_odds(on_test, test.y)),
        "correct": (logits[0].argmax(1) == inputs.y).cpu().numpy(),
        "test_accuracy": np.array(
            [accuracy(on_test, test.y), accuracy(logits_of(net, test.x, QUERIES[0], running=True), test.y)]
        ),
    }


def accuracy(logits: Tensor, labels: Tensor) -> float:
    return float((logits.argmax(1) == labels).float().mean())


def trained(
    inputs: Inputs, test: Inputs, design: Design, recipe: Recipe, models: np.ndarray
) -> dict[str, np.ndarray]:
    """Trains a block of models; everything that is stored of them, models first."""
    stages = stages_of(recipe, design, None, models, SEED, inputs.n_outputs)
    average, state, started = Averaged(stages.plan(0).steps), unsaved(len(models)), time.perf_counter()
    checkpoints = []
    for stack, epoch in train_stages(inputs, design.take(models), recipe, stages, TRAINER, state):
        average.update(stack)
        if epoch in recipe.checkpoints:
            checkpoints.append(at_checkpoint(stack, inputs))
        if epoch in (1, *recipe.checkpoints):
            _say(f"epoch {epoch}", started)
    _say(f"trained; notes: {state.notes}", started)
    ends = [at_the_end(net, inputs, test) for net in stack.nets]
    arrays = {name: np.stack([end[name] for end in ends]) for name in ends[0]}
    with average.in_place(stack):
        averaged = [[accuracy(logits_of(net, test.x, FIRST[0], running=True), test.y)] for net in stack.nets]
    arrays["test_accuracy"] = np.concatenate([arrays["test_accuracy"], averaged], axis=1).astype(np.float32)
    _say("evaluated", started)
    arrays["checkpoints"] = np.stack(checkpoints, axis=1) if checkpoints else np.empty((len(models), 0))
    return {**arrays, "seconds": np.array(time.perf_counter() - started)}


def _say(text: str, started: float) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    print(f"  {time.perf_counter() - started:.1f} s: {text}", flush=True)


def store_block(folder: Path, arrays: dict[str, np.ndarray], models: np.ndarray) -> None:
    """Large arrays as files of their own; the folder has its name only when it is complete."""
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name in LARGE:
        np.save(unfinished / f"{name}.npy", arrays[name])
    rest = {name: values for name, values in arrays.items() if name not in LARGE}
    np.savez_compressed(unfinished / "rest.npz", models=models, **rest)
    unfinished.rename(folder)


def done(out: Path) -> dict[int, tuple[Path, int]]:
    """Model -> (the folder of its block, its place there), of all finished models."""
    places = {}
    for folder in sorted(out.glob("block-*[0-9]")):
        with np.load(folder / "rest.npz") as rest:
            places.update({int(model): (folder, place) for place, model in enumerate(rest["models"])})
    return places


def write_bank(out: Path, bank: Path) -> None:
    """Collects the finished models, in the order of the design."""
    settings, places = json.loads((out / "settings.json").read_text()), done(out)
    bank.mkdir(parents=True, exist_ok=True)
    rests = {folder: dict(np.load(folder / "rest.npz")) for folder, _ in places.values()}

    def of_models(name: str, is_file: bool = False) -> np.ndarray:
        arrays = {f: np.load(f / f"{name}.npy", mmap_mode="r") if is_file else rests[f][name] for f in rests}
        return np.stack([arrays[folder][place] for _, (folder, place) in sorted(places.items())])

    labels = dict(np.load(out / "labels.npz"))
    design = make_design("balanced", settings["designed"], len(labels["labels"]), SEED)
    in_mask, correct = design.in_mask[sorted(places)], of_models("correct")
    arrays = {
        **labels,
        "design": in_mask,
        "models": np.array(sorted(places)),
        "queries": np.array(QUERIES, dtype=np.int8),
        "accuracy": np.array(
            [[own[m].mean(), own[~m].mean()] for own, m in zip(correct, in_mask, strict=True)]
        ),
        **{name: of_models(name, is_file=True) for name in LARGE},
        **{name: of_models(name) for name in ("log_odds_running", "log_odds_test", "test_accuracy")},
    }
    last = arrays["log_odds_queries"][:, :2].astype(np.float32).mean(axis=1).astype(np.float16)
    over_time = [*of_models("checkpoints").swapaxes(0, 1), last]
    for epoch, values in zip([*settings["checkpoints"], settings["epochs"]], over_time, strict=True):
        arrays[f"log_odds_epoch{epoch:03d}"] = values
    for name, values in arrays.items():
        np.save(bank / f"{name}.npy", values)
    _describe(bank, settings, arrays)


def _describe(bank: Path, settings: dict[str, object], arrays: dict[str, np.ndarray]) -> None:
    test, sides = arrays["test_accuracy"], arrays["accuracy"]
    spread = test.std(axis=0, ddof=1) if len(test) > 1 else np.zeros(3)
    lines = [
        f"{len(test)} of {settings['designed']} designed models; {json.dumps(settings)}",
        f"accuracy on members {sides[:, 0].mean():.4f}, on non-members {sides[:, 1].mean():.4f}",
        *(
            f"test accuracy {name}: {test[:, k].mean():.4f} (sd over models {spread[k]:.4f})"
            for k, name in enumerate(("as attacked", "by running statistics", "of averaged weights"))
        ),
    ]
    (bank / "README.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def recipe_of(options: argparse.Namespace) -> Recipe:
    kind = WarmCosine if options.schedule == "published" else Recipe
    return kind(
        net="wide_resnet",
        net_options=(("depth", options.depth), ("widen", options.widen)),
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=5e-4,
        schedule="cosine",
        flips=True,
        crop=4,
        precision="bfloat16" if options.device == "cuda" else "float32",
        batch_size=256,
        epochs=options.epochs,
        checkpoints=tuple(epoch for epoch in CHECKPOINTS if epoch < options.epochs),
    )


def same_settings(options: argparse.Namespace, recipe: Recipe) -> None:
    """Writes what the models of the folder have in common; refuses a folder of others."""
    settings = {
        "schedule": options.schedule,
        "net": f"wrn{options.depth}-{options.widen}",
        "epochs": recipe.epochs,
        "checkpoints": list(recipe.checkpoints),
        "precision": recipe.precision,
        "records": options.records,
        "designed": options.designed,
        "seed": SEED,
    }
    file = options.out / "settings.json"
    if file.exists() and json.loads(file.read_text()) != settings:
        raise SystemExit(f"{options.out} holds models of other settings: {file.read_text()}")
    options.out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings))


def train_missing(options: argparse.Namespace) -> None:
    recipe = recipe_of(options)
    same_settings(options, recipe)
    records, test = read_records(options)
    labels = {"labels": records.labels.astype(np.uint8), "labels_test": test.labels.astype(np.uint8)}
    np.savez(options.out / "labels.npz", **labels)
    design = make_design("balanced", options.designed, len(records), SEED)
    inputs = inputs_from(records, torch.device(options.device))
    on_test = standardised_alike(test, records, inputs)
    first, last = map(int, options.models.split(":"))
    for start in range(first, last, options.block):
        finished = done(options.out)
        models = np.array([m for m in range(start, min(start + options.block, last)) if m not in finished])
        if not len(models):
            continue
        name = f"block-{models[0]:03d}-{models[-1] + 1:03d}"
        print(name, flush=True)
        arrays = trained(inputs, on_test, design, recipe, models)
        n_images = len(models) * recipe.epochs * int(design.in_mask[0].sum())
        store_block(options.out / name, arrays, models)
        print(
            f"{name}: {float(arrays['seconds']):.0f} s, {n_images / float(arrays['seconds']):,.0f} images/s "
            f"with evaluation; test accuracy {arrays['test_accuracy'].mean(axis=0).round(4).tolist()}",
            flush=True,
        )


def read_records(options: argparse.Namespace) -> tuple[Records, Records]:
    records = cifar10(options.data, BATCHES[:5]).take(np.arange(options.records))
    return records, cifar10(options.data, BATCHES[5:]).take(np.arange(min(10_000, options.records)))


def standardised_alike(test: Records, records: Records, inputs: Inputs) -> Inputs:
    """Test records, standardised by mean and spread of the training records."""
    device = inputs.x.device
    pixels = torch.from_numpy(records.features).to(device).float()
    spread, centre = torch.std_mean(pixels, dim=(0, 2, 3), keepdim=True)
    x = (torch.from_numpy(test.features).to(device).float() - centre) / spread
    return replace(inputs, x=x, y=torch.from_numpy(test.labels).to(device), records=test)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--data", type=Path, help="folder of CIFAR-10's binary files")
    arguments.add_argument(
        "--out", type=Path, default=Path("runs/rmia_setting"), help="where blocks are stored"
    )
    arguments.add_argument("--models", default="0:32", help="FIRST:END of the models to train")
    arguments.add_argument("--bank", type=Path, help="collect the finished models in this folder")
    arguments.add_argument("--schedule", choices=("published", "annealed"), default="published")
    arguments.add_argument("--block", type=int, default=8, help="models trained at a time")
    arguments.add_argument("--designed", type=int, default=N_DESIGNED, help="models of the design")
    arguments.add_argument("--device", default="cuda")
    for name, value in {"epochs": 100, "records": 50_000, "depth": 28, "widen": 2}.items():
        arguments.add_argument(f"--{name}", type=int, default=value)
    options = arguments.parse_args()
    if options.bank is not None:
        write_bank(options.out, options.bank)
    elif options.data is None or not options.data.is_dir():
        print("skipped: no records; give their folder with --data")
    elif options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: needs a CUDA device")
    else:
        train_missing(options)


if __name__ == "__main__":
    main()
