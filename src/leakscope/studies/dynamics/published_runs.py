"""Which run settles a claim, and whether it is as large as the published one.

A claim about a training of 400 epochs is not decided by one of 40, in either direction: the models of a short
run may not have memorized yet. Such a claim is "not testable here", and its row says what the run lacks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from leakscope.studies.claims import Outcome, Settled
from leakscope.studies.dynamics.evidence import Evidence, MissingResultsError, Run

_MODELS, _EVERY = 20, 10
_RECORDS = 20_000
"""Of all published runs that were repeated here; the publication does not say how many it used."""


class PublishedRun(NamedTuple):
    """A training of the publication.

    Attributes:
        dataset: name of the dataset.
        net: name of the network.
        optimizer: name of the optimizer.
        epochs: of training.
    """

    dataset: str
    net: str
    optimizer: str
    epochs: int = 400

    def __call__(self, evidence: Evidence) -> Run:
        """Ours of this setting.

        Raises:
            MissingResultsError: there is none.
        """
        return evidence.longest(self.dataset, self.net, self.optimizer)


BASELINE = PublishedRun("cifar10", "wide_resnet", "adamw")
MNIST = PublishedRun("mnist", "wide_resnet", "adamw")
CNN = PublishedRun("cifar10", "cnn", "adamw")
SGD = PublishedRun("cifar10", "wide_resnet", "sgd", 160)
SAM = PublishedRun("cifar10", "wide_resnet", "sam", 160)
CINIC = PublishedRun("cinic10", "wide_resnet", "adamw")
_OPTIMIZERS = {(run.dataset, run.net, run.optimizer): run.epochs for run in (SGD, SAM)}

_OF_BASELINE = (
    "early_now", "early_ever", "phases", "markov", "peak_entry_cifar", "com_wrn", "entropy_wrn",
    "epistemic_r", "hardness_strong", "epistemic_strongest", "uncertainty_not_noise", "epistemic_early",
    "proxy", "fewest_models", "cheap_proxies",
)  # fmt: skip
RUNS_OF_CLAIM: dict[str, tuple[PublishedRun, ...]] = {
    **dict.fromkeys(_OF_BASELINE, (BASELINE,)),
    **dict.fromkeys(("peak_entry_mnist", "mnist_low", "entropy_mnist"), (MNIST,)),
    **dict.fromkeys(("peak_entry_ratio", "com_datasets"), (BASELINE, MNIST)),
    **dict.fromkeys(("com_cnn", "entropy_cnn"), (CNN,)),
    "com_nets": (BASELINE, CNN),
    "com_cinic": (CINIC,),
    "sgd_entry": (SGD,),
    "sam_entry": (SAM,),
    **dict.fromkeys(("sam_ratio", "sam_generalizes", "sam_not_slower", "flat_minima"), (SGD, SAM)),
}
"""Claim -> the trainings that it is about; a claim that is not here depends on no published length."""


def shortfall(own: Run, records: int = _RECORDS) -> str:
    """What a run lacks of the published scale; empty where nothing is missing.

    Args:
        own: the run.
        records: how many there have to be.
    """
    s, population, epochs = own.setting, own.run.population, own.run.epochs
    of = _OPTIMIZERS.get((s.dataset, s.net, s.optimizer), BASELINE.epochs)
    counts = (("epochs", epochs[-1], of), ("models", population.models, _MODELS),
              ("records", population.records, records))  # fmt: skip
    lacks = [f"{n:,} of {needed:,} {noun}" for noun, n, needed in counts if n < needed]
    every = epochs[1] - epochs[0] if len(epochs) > 1 else epochs[0]
    if every != _EVERY:
        lacks.append(f"checkpoints every {every} instead of every {_EVERY} epochs")
    return f"the run {s.name} has {' and '.join(lacks)}" if lacks else ""


def shortfall_of_claim(key: str, evidence: Evidence) -> str:
    """What the runs that a claim is about lack of the published scale.

    Raises:
        MissingResultsError: there are no results of one of them.
    """
    texts = [shortfall(published(evidence)) for published in RUNS_OF_CLAIM.get(key, ())]
    return "; ".join(text for text in texts if text)


def at_published_scale(published: PublishedRun, evidence: Evidence) -> Run:
    """Our run of a published training.

    Raises:
        MissingResultsError: there is none, or it is smaller.
    """
    own = published(evidence)
    short = shortfall(own)
    if short:
        raise MissingResultsError(short)
    return own


def all_at_published_scale(evidence: Evidence) -> list[Run]:
    """The first run of every setting that was trained at the published scale."""
    return [own for own in evidence.where(lambda _: True) if own.number == 1 and not shortfall(own)]


def unless_short(settled: Settled, own: Run, records: int = _RECORDS) -> Settled:
    """The verdict on a claim without a published length, unless a small run would deny the claim."""
    short = shortfall(own, records)
    if short and settled.outcome in (Outcome.NOT_REPRODUCED, Outcome.REFUTED):
        return replace(settled, outcome=Outcome.NOT_TESTABLE, why=short)
    return settled
