"""A published attack on one given model, from scratch: features, three attackers, a submission.

A coursework report attacks a ResNet18 trained on undisclosed data: 20,000 public records of known membership,
20,000 private ones, ten features and a global likelihood ratio, three calibrated attackers, scores submitted
to a leaderboard. Here the target is trained on a random half of the records, so the private truth is known,
kept aside, and judges the submission at the end, which the report could only learn from the leaderboard.

Where the report is loose: isotonic calibration does not preserve the ordering, it makes ties (broken here by
the uncalibrated score); its global densities appear to be fitted on all public records, validation ones
included (here on the learning part of each fold only). Its data are undisclosed, so its figures are
a companion, not a target.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.run_folder import RESULTS, locked_run_folder, stored_array, to_jsonable
from leakscope.data.predictions import Predictions
from leakscope.data.published import data_root
from leakscope.data.registry import dataset, load
from leakscope.disk.storage import write_array, write_json
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.recipe import Recipe
from leakscope.single_model.attack import BEST, PRIVATE, SUBMISSION, chosen_attackers, run_attack
from leakscope.single_model.attack import recompute as recompute_attack
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leakscope.single_model.ensemble.attackers import Attacker

KIND = "study ensemble"
TRUTH = "private_truth.npy"
PUBLISHED = {
    "forest": {"validation": (0.6715, 0.1454), "leaderboard": (0.6343, 0.0917)},
    "lightgbm": {"validation": (0.6660, 0.1639), "leaderboard": (0.6222, 0.0890)},
    "mlp": {"validation": (0.6591, 0.1514), "leaderboard": (0.6549, 0.1450)},
}
"""The report's (AUC, TPR at 5% FPR), on its own undisclosed data."""


@dataclass(frozen=True)
class EnsembleConfig:
    """What to run.

    Attributes:
        dataset: a dataset leakscope knows.
        net: the target network, shipped or "package.module:factory".
        n_public: public records, half of them members; None: half of the dataset, at most 20,000.
        n_private: the same for private ones.
        width: of an mlp; channels of a cnn or resnet18.
    """

    dataset: str = "digits"
    net: str = "mlp"
    n_public: int | None = None
    n_private: int | None = None
    width: int = 64
    epochs: int = 100
    lr: float = 0.003
    batch_size: int = 64
    attacker: str = BEST
    validation_share: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = {"n_public": self.n_public, "n_private": self.n_private}
        wrong = [f"{name}={size}: must be at least 40" for name, size in sizes.items() if size and size < 40]
        if wrong:
            raise InputError("; ".join(wrong))
        chosen_attackers(self.attacker)

    @property
    def recipe(self) -> Recipe:
        """How the target is trained."""
        option = {"mlp": "width", "cnn": "channels", "resnet18": "channels"}.get(self.net)
        return Recipe(
            net=self.net,
            net_options=() if option is None else ((option, self.width),),
            lr=self.lr,
            batch_size=self.batch_size,
            epochs=self.epochs,
            # One model: stacking gains nothing. Large ones are captured on a GPU and serial elsewhere anyway.
            trainer="serial" if self.net == "cnn" else "auto",
            precision="bfloat16" if self.net == "resnet18" else "float32",
        )


PRESETS: dict[str, dict[str, Any]] = {
    "small": {},
    "full": {"dataset": "cifar10", "net": "resnet18", "epochs": 30, "lr": 0.001, "batch_size": 128},
}
"""Preset name -> what it changes of the defaults; "full" is the published case, 20,000 + 20,000 records."""

_LARGEST_PART = 20_000


def fitting_preset(device: str, data_dir: Path | None) -> str:
    """The full case where there are a GPU and the images, else the small one."""
    from leakscope.engine.local import device_of

    has_images = dataset(PRESETS["full"]["dataset"]).is_present(data_root(data_dir))
    return "full" if has_images and device_of(device).type == "cuda" else "small"


class Case(NamedTuple):
    """The records of the case, public ones first, and who the target is trained on."""

    records: Records
    is_member: BoolArray
    n_public: int


def make_case(config: EnsembleConfig, records: Records) -> Case:
    """A random choice of records; a random half of the public and of the private ones are members."""
    rng = generator(config.seed, 0, Purpose.DESIGN)
    half = min(len(records) // 2, _LARGEST_PART)
    n_public, n_private = config.n_public or half, config.n_private or half
    if n_public + n_private > len(records):
        raise InputError(
            f"n_public={n_public:,} and n_private={n_private:,} are more than the {len(records):,} records "
            f"of {records.name}; ask for fewer"
        )
    chosen: IntArray = rng.permutation(len(records))[: n_public + n_private]
    members = [rng.permutation(n) < n // 2 for n in (n_public, n_private)]
    return Case(records.take(chosen), np.concatenate(members), n_public)


def run(
    config: EnsembleConfig,
    out: Path,
    device: str = "auto",
    data_dir: Path | None = None,
    progress: Any = lambda _: None,
    attackers: Sequence[Attacker] = (),
) -> dict[str, Any]:
    """The whole case: trains the target, attacks it, judges the submission; returns the results.

    Args:
        config: what to run.
        out: run folder.
        device: where the target is trained: "auto", "cpu" or "cuda".
        data_dir: the data folder.
        progress: called with models' worth of training done.
        attackers: instead of the published ones.
    """
    from leakscope.engine.local import TrainingRequest, check_request, complete_bank
    from leakscope.single_model.report import write_report

    case = make_case(config, load(config.dataset, data_dir))
    design = Design(case.is_member[None])
    request = TrainingRequest(case.records, design, config.recipe, config.seed, ("logits",), device)
    check_request(request)
    with locked_run_folder(out, KIND, asdict(config)):
        bank = complete_bank(out / "target", request, progress=progress)
        public, private = parts(case, bank)
        write_array(out / TRUTH, case.is_member[case.n_public :])  # the attack sees `private`, which has none
        found = run_attack(
            public, private, out, config.attacker, config.validation_share, config.seed, attackers
        )
        results: dict[str, Any] = to_jsonable({"config": asdict(config), **found})
        results |= to_jsonable(judge_truth(out, list(results["attackers"])))
        write_json(out / RESULTS, results)
        write_report(results, out, comparison_lines(results))
        return results


def parts(case: Case, bank: Bank) -> tuple[Predictions, Predictions]:
    """The target's answers about the public records, with membership, and about the private, without."""
    logits = np.asarray(bank.signals().last("logits")[0])
    public, private = slice(None, case.n_public), slice(case.n_public, None)
    labels, ids = case.records.labels, case.records.ids
    return (
        Predictions(logits[public], labels[public], ids[public], case.is_member[public], name="public"),
        Predictions(logits[private], labels[private], ids[private], name="private"),
    )


def judge_truth(folder: Path, names: list[str]) -> dict[str, Any]:
    """True figures of each attacker's private scores, and the target's accuracy on both sides."""
    from leakscope.single_model.ensemble.holdout import figures

    truth = stored_array(folder / TRUTH)
    scores = {name: stored_array(folder / PRIVATE / f"{name}.npy") for name in names}
    return {
        "target": target_accuracy(Bank.open(folder / "target")),
        "private_truth": {name: figures(score, truth) for name, score in scores.items()},
        "published": PUBLISHED,
    }


def target_accuracy(bank: Bank) -> dict[str, float]:
    """How often the target is right about those it was trained on and about the others."""
    signals = bank.signals()
    correct = signals.last("logits")[0].argmax(axis=-1) == signals.labels
    (in_mask,) = bank.design().in_mask
    seen, unseen = float(correct[in_mask].mean()), float(correct[~in_mask].mean())
    return {"members": seen, "nonmembers": unseen, "gap": seen - unseen}


def recompute(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The figures again, from the bank and the scores on disk; what `leakscope verify` compares."""
    results = recompute_attack(folder, config)
    return {**results, **to_jsonable(judge_truth(folder, list(results["attackers"])))}


COMPARISON = ("attacker", "figure", "validation", "private, truth", "published", "leaderboard")


def comparison_rows(results: dict[str, Any]) -> list[list[str]]:
    """Validation and true private figures beside the report's, two rows an attacker."""
    from leakscope.single_model.report import percent, with_interval

    rows = []
    for name, found in results["attackers"].items():
        truth, published = results["private_truth"][name], results["published"].get(name)
        validation, board = (published["validation"], published["leaderboard"]) if published else (None, None)
        rows.append([name, "AUC", with_interval(found["auc"]), with_interval(truth["auc"]),
                     *(f"{p[0]:.4f}" if p else "" for p in (validation, board))])  # fmt: skip
        rows.append(["", "TPR at 5% FPR", percent(found["tpr_at_fpr"]), percent(truth["tpr_at_fpr"]),
                     *(f"{100 * p[1]:.2f}%" if p else "" for p in (validation, board))])  # fmt: skip
    return rows


def comparison_lines(results: dict[str, Any]) -> list[str]:
    """The comparison for the report."""
    from leakscope.report.tables import markdown_table

    return ["## Against the truth", "", target_words(results), "",
            *markdown_table(COMPARISON, comparison_rows(results)), ""]  # fmt: skip


def target_words(results: dict[str, Any]) -> str:
    """What the target is and how far it overfits, in one sentence."""
    target, config = results["target"], results["config"]
    return (
        f"The target, {config['net']} on {config['dataset']}, gets {100 * target['members']:.1f}% of its "
        f"members right and {100 * target['nonmembers']:.1f}% of the others. {SUBMISSION} holds the scores "
        f"of {results['chosen']}; the published figures are from other, undisclosed data."
    )
