"""The fine-tunes of the text study: populations on one design, and how their learning rates are chosen."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.bank.bank import Bank
from leakscope.design import make_design
from leakscope.engine.local import complete_bank
from leakscope.engine.request import TrainingRequest
from leakscope.errors import TrainingError
from leakscope.privacy.settings import Privacy
from leakscope.train.block import Progress
from leakscope.types import DOCUMENT_CLASS, Design, Records
from text_study_corpus import Corpus

SIGNALS = ("base_gap", "error_gap", "loss", "lowest_log_probs", "standardized_lowest")
"""Stored per model and document; `log_odds` and `zlib_ratio` are functions of the loss."""
CHECKPOINTS, BATCH = (1, 2, 3, 4, 8), 8


class Sizes(NamedTuple):
    """How large the populations are.

    Attributes:
        half: models of one design; every population has the first, the main one two.
        epochs: of each model.
        private_batch: expected batch of DP-SGD, which needs large ones.
        pilot_epochs: of the models by which learning rates are chosen.
        pilot_rates: how many learning rates of each list are tried; 1: the first is used, without a pilot.
    """

    half: int = 16
    epochs: int = 8
    private_batch: int = 250
    pilot_epochs: int = 4
    pilot_rates: int = 4


FULL_SIZE = Sizes()
TINY = Sizes(half=4, epochs=2, private_batch=16, pilot_epochs=1, pilot_rates=1)


class Population(NamedTuple):
    """Fine-tunes of one recipe.

    Attributes:
        name: of its folder.
        family: whose learning rate it has.
        halves: designs of models that it has.
        rank: of the adapters; 0: all weights are trained.
        epsilon: of DP-SGD; None: without.
    """

    name: str
    family: str
    halves: int
    rank: int
    epsilon: float | None = None


POPULATIONS = (
    Population("lora-8", "lora", 2, 8),
    Population("full", "full", 1, 0),
    Population("dp-8", "dp", 1, 8, 8.0),
    Population("lora-1", "lora", 1, 1),
    Population("lora-64", "lora", 1, 64),
    Population("dp-1", "dp", 1, 8, 1.0),
)
"""In the order in which they are trained: the most important first."""
RATES = {
    "lora": (5e-4, 1e-3, 2e-3, 4e-3),
    "full": (5e-5, 1e-4, 2e-4, 4e-4),
    "dp": (1e-3, 4e-3, 1.6e-2),
}
"""Learning rates to choose from; the one with the lowest loss on non-members at any epoch is taken."""
PILOT_MODELS = 2
PILOTS = {"lora": (8, None), "full": (0, None), "dp": (8, 8.0)}
"""Rank and epsilon of the pilots of each family."""


class TimeOverError(Exception):
    """The command has used its time; the same command resumes."""


class Clock(NamedTuple):
    """When a command must end."""

    end: float

    @classmethod
    def of(cls, seconds: float) -> Clock:
        """A clock that starts now."""
        return cls(time.monotonic() + seconds)

    def check(self, _: float = 0.0) -> None:
        """Raises when the time is over."""
        if time.monotonic() > self.end:
            raise TimeOverError


def private_records(corpus: Corpus) -> Records:
    """The private documents as records."""
    n_records = len(corpus.tokens)
    ids = np.array([f"document-{i}" for i in range(n_records)])
    labels = np.zeros(n_records, dtype=np.int64)
    return Records(corpus.tokens, labels, ids, "documentation", class_names=DOCUMENT_CLASS)


def design_of(halves: int, n_models: int, n_records: int) -> Design:
    """Independent coins, as many models at a time: all populations share the first of them.

    In a balanced design, how many references have a record would say something about the target.
    """
    masks = [make_design("bernoulli", n_models, n_records, seed).in_mask for seed in range(halves)]
    return Design(np.concatenate(masks))


class Study(NamedTuple):
    """Where things are, and what they are computed on."""

    corpus: Corpus
    out: Path
    device: str
    sizes: Sizes = FULL_SIZE

    @property
    def base(self) -> Path:
        """The folder of the base."""
        return self.out / "base"

    def recipe(self, rank: int, epsilon: float | None, rate: float, epochs: int) -> AdapterRecipe:
        """How one model is trained; rank 0: all weights."""
        settings = {
            "base": str(self.base),
            "lr": rate,
            "epochs": epochs,
            "checkpoints": tuple(epoch for epoch in CHECKPOINTS if epoch <= epochs),
            "precision": "bfloat16" if self.device.startswith("cuda") else "float32",
            "batch_size": BATCH,
        }
        if not rank:
            return AdapterRecipe(full=True, **settings)  # type: ignore[arg-type]
        if epsilon is not None:
            settings |= {"batch_size": self.sizes.private_batch, "privacy": Privacy(epsilon=epsilon)}
        return AdapterRecipe(lora=Lora(rank=rank, alpha=2.0 * rank), **settings)  # type: ignore[arg-type]

    def pilot(self, family: str, rate: float, tick: Progress) -> Bank:
        """Two models of a family at this learning rate, trained where they are missing."""
        records, recipe = (
            private_records(self.corpus),
            self.recipe(*PILOTS[family], rate, self.sizes.pilot_epochs),
        )
        design = design_of(1, PILOT_MODELS, len(records))
        request = TrainingRequest(records, design, recipe, 1, ("loss",), self.device)
        return complete_bank(self.out / "pilots" / f"{family}-{rate:g}", request, progress=tick)

    def bank(self, population: Population, rate: float, tick: Progress) -> Bank:
        """The models of a population, trained where they are missing."""
        records = private_records(self.corpus)
        recipe = self.recipe(population.rank, population.epsilon, rate, self.sizes.epochs)
        design = design_of(population.halves, self.sizes.half, len(records))
        request = TrainingRequest(records, design, recipe, 0, SIGNALS, self.device)
        return complete_bank(self.out / "banks" / population.name, request, progress=tick)


def choose_rates(study: Study, clock: Clock) -> dict[str, float]:
    """The learning rate of each family, by the pilots; rates.json has all their losses."""
    file = study.out / "rates.json"
    if not file.exists():
        found = {family: _pilots(study, family, clock) for family in RATES}
        file.write_text(json.dumps(found, indent=1) + "\n")
    return {family: float(own["rate"]) for family, own in json.loads(file.read_text()).items()}


def _pilots(study: Study, family: str, clock: Clock) -> dict[str, object]:
    """The learning rate of a family, and the losses of its pilots."""
    first, *others = RATES[family][: study.sizes.pilot_rates]
    if not others:
        return {"rate": first, "losses": {}}
    losses = {rate: _pilot_loss(study, family, rate, clock) for rate in (first, *others)}
    best = min(losses, key=lambda rate: losses[rate])
    return {"rate": best, "losses": {f"{rate:g}": loss for rate, loss in losses.items()}}


def _pilot_loss(study: Study, family: str, rate: float, clock: Clock) -> float:
    """The lowest loss on non-members at any checkpoint; infinite where models diverged."""
    started = time.monotonic()
    try:
        loss = float(
            np.nan_to_num(validation_losses(study.pilot(family, rate, clock.check)), nan=np.inf).min()
        )
    except TrainingError:
        loss = float("inf")
    print(f"pilot {family} {rate:g}: {loss:.4f} ({_since(started)})", flush=True)
    return loss


def validation_losses(bank: Bank) -> np.ndarray:
    """Mean loss on non-members by checkpoint, over all models."""
    loss, is_out = bank.signals().arrays["loss"], ~bank.design().in_mask
    return np.array([loss[:, at][is_out].mean() for at in range(loss.shape[1])])


def train_populations(study: Study, clock: Clock, names: list[str] | None = None) -> None:
    """Trains what is missing, and writes each finished population to home/NAME.npz."""
    rates = choose_rates(study, clock)
    for population in POPULATIONS:
        if names and population.name not in names:
            continue
        if (study.out / "home" / f"{population.name}.npz").exists():
            continue
        started, rate = time.monotonic(), rates[population.family]
        bank = study.bank(population, rate, clock.check)
        write_home(study, population, bank, rate)
        losses = ", ".join(f"{loss:.3f}" for loss in validation_losses(bank))
        print(f"{population.name}: {_since(started)}; loss on non-members {losses}", flush=True)


def _since(started: float) -> str:
    return f"{time.monotonic() - started:.0f} s"


def write_home(study: Study, population: Population, bank: Bank, rate: float) -> None:
    """The signals and the design of a population in one file, and what its training spent."""
    home = study.out / "home"
    home.mkdir(parents=True, exist_ok=True)
    signals, design = bank.signals(), bank.design()
    spent = bank.identity.recipe.get("privacy_spent") if population.epsilon is not None else None
    about = {
        **population._asdict(),
        "rate": rate,
        "epochs": list(signals.epochs),
        "privacy_spent": spent,
        "notes": sorted({block.note for block in bank.manifest.blocks if block.note}),
        "device": bank.manifest.device,
        "seconds": bank.manifest.seconds,
    }
    draft = home / f"{population.name}.draft.npz"
    arrays = {name: np.asarray(signals.arrays[name], dtype=np.float32) for name in SIGNALS[1:]}
    base_loss = np.asarray(signals.arrays["base_gap"][0, 0] + signals.arrays["loss"][0, 0])
    np.savez_compressed(
        draft, in_mask=design.in_mask, base_loss=base_loss, about=np.array(json.dumps(about)), **arrays
    )
    draft.replace(home / f"{population.name}.npz")
    for name in ("rates.json", "base/base.json"):
        (home / Path(name).name).write_text((study.out / name).read_text())
