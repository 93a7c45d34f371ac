"""What attacks achieve on the populations of the text study, with intervals; written to one JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.attacks import (
    BaseModel,
    Bavaria,
    EbLira,
    EzMia,
    Lira,
    LossThreshold,
    MinK,
    MinKPlusPlus,
    Rmia,
    ZlibRatio,
)  # fmt: skip
from leakscope.attacks.base import Attack
from leakscope.evaluate.curve_variances import curve_variances
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.hygiene.shift import text_shift_scores
from leakscope.evaluate.uncertainty import Replicate, Replicates, Sample
from leakscope.stats.differences import Replicated, jackknife_difference
from leakscope.stats.intervals import Interval, delong, mean_over_targets
from leakscope.stats.roc import split_scores
from leakscope.stats.roc_summary import roc_summary_of_split, tpr_at_expected_fpr
from leakscope.types import Design, Signals
from text_study_claims import AS_GOOD
from text_study_corpus import read_corpus, read_documents

FPRS = (0.01, 0.001)
FIGURES = ("auc", "tpr_1", "tpr_01")
SIZES = (1, 2, 4, 8, 16)
ALONE: Mapping[str, Attack] = {
    "loss": LossThreshold(),
    "zlib": ZlibRatio(),
    "min_k": MinK(),
    "min_k_plus_plus": MinKPlusPlus(),
    "base_model": BaseModel(),
    "ez_mia": EzMia(),
}
WITH_REFERENCES: Mapping[str, Attack] = {
    "rmia offline": Rmia(online=False, gamma=1.0, offline_a=1.0),
    "rmia": Rmia(gamma=1.0),
    "lira": Lira(),
    "bavaria": Bavaria(),
    "bavaria on base_gap": Bavaria(signal="base_gap"),
    "eb_lira": EbLira(),
}
COMPARED = {name: {**ALONE, **WITH_REFERENCES}[name] for name in (*ALONE, "rmia", "eb_lira")}
"""Attacks on every population and checkpoint."""


PAIRS = [("min_k_plus_plus", other) for other in ("loss", "zlib", "min_k", "base_model", "eb_lira")]
PAIRS += [("ez_mia", other) for other in COMPARED if other != "ez_mia"]
"""Attacks that are compared."""
LOWEST = "each at its lowest validation loss"
SMALLEST = 1e-6  # of rates in ratios


class Fine(NamedTuple):
    """A population as it was brought home: arrays (models, checkpoints, records), and what is known of it."""

    name: str
    about: dict[str, Any]
    in_mask: np.ndarray
    loss: np.ndarray
    arrays: dict[str, np.ndarray]
    base_loss: np.ndarray

    @property
    def epochs(self) -> list[int]:
        """Of the checkpoints."""
        return list(self.about["epochs"])

    def signals(self, at: int, zlib_bytes: np.ndarray, models: np.ndarray) -> Signals:
        """All signals at one checkpoint, of some models."""
        loss = self.loss[models, at].astype(np.float64)
        arrays = {name: values[models, at][:, None] for name, values in self.arrays.items()}
        clipped = np.maximum(loss, 1e-6)
        arrays |= {
            "loss": loss[:, None].astype(np.float32),
            "log_odds": -(clipped + np.log(-np.expm1(-clipped)))[:, None].astype(np.float32),
            "base_gap": (self.base_loss - loss)[:, None].astype(np.float32),
            "zlib_ratio": (loss / zlib_bytes)[:, None].astype(np.float32),
        }
        return Signals(arrays, (self.epochs[at],), np.zeros(loss.shape[1], dtype=np.int64))

    def losses(self, at: int, is_member: bool, models: np.ndarray) -> np.ndarray:
        """Mean loss of each model on members, or on non-members."""
        sides = self.in_mask[models] if is_member else ~self.in_mask[models]
        return np.array([own[side].mean() for own, side in zip(self.loss[models, at], sides, strict=True)])


def read_population(file: Path) -> Fine:
    """A file of home/."""
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    about = json.loads(str(arrays.pop("about")))
    in_mask, loss, base_loss = (arrays.pop(name) for name in ("in_mask", "loss", "base_loss"))
    return Fine(file.stem, about, in_mask, loss, arrays, base_loss.astype(np.float64))


class Attacked(NamedTuple):
    """One attack on every model of a population, with all others as references.

    Attributes:
        figures: figure -> value, and 95% interval for records like these.
        replicated: means over targets, with all models and without each group of them.
    """

    figures: dict[str, list[float]]
    replicated: Replicated


def _attacked(replicates: Replicates) -> Attacked:
    of_targets = _of_targets(replicates.whole)
    variances = curve_variances(replicates, replicates.whole.values.shape[1], FPRS)
    own = [variances.auc, *(variances.tpr[fpr] for fpr in FPRS)]
    figures = {
        name: _rounded(figure_of_targets(of_targets[:, k], own[k], _no_interval, is_rate=k > 0))
        for k, name in enumerate(FIGURES)
    }
    without = [_of_targets(one).mean(axis=0) for one in replicates.without]
    return Attacked(figures, Replicated(of_targets.mean(axis=0), np.stack(without)))


def _of_targets(replicate: Replicate) -> np.ndarray:
    """AUC and TPRs; (targets, figures)."""
    rows = []
    for scores, members in zip(replicate.values, replicate.in_mask, strict=True):
        sides = split_scores(scores, members)
        auc = roc_summary_of_split(sides, ()).auc
        rows.append([auc, *(tpr_at_expected_fpr(sides, fpr) for fpr in FPRS)])
    return np.array(rows)


def _no_interval(value: float, level: float) -> Interval:
    return Interval(value, value, level, "every record and model agrees")


def _rounded(figure: Any) -> list[float]:
    return [round(float(value), 6) for value in (figure.value, figure.low, figure.high)]


def attacked(fine: Fine, at: int, attack: Attack, zlib_bytes: np.ndarray, n_models: int) -> Attacked:
    """An attack on the first models of a population at a checkpoint."""
    models = np.arange(n_models)
    sample = Sample.of(fine.signals(at, zlib_bytes, models), Design(fine.in_mask[models]), models)
    return _attacked(sample.replicates(attack))


def with_few(fine: Fine, at: int, zlib_bytes: np.ndarray, n_targets: int) -> Iterator[dict[str, Any]]:
    """Attacks with few references: mean over targets, with t intervals over targets."""
    n_models = len(fine.in_mask)
    targets = np.linspace(0, n_models - 1, min(n_targets, n_models)).round().astype(int)
    for size in [size for size in SIZES if size < n_models - 1]:
        drawn = {t: _drawn(n_models, int(t), size) for t in targets.tolist()}
        for name, attack in WITH_REFERENCES.items():
            rows = []
            for models in drawn.values():
                signals, design = fine.signals(at, zlib_bytes, models), Design(fine.in_mask[models])
                scores = attack(signals, design, np.array([0])).values
                rows.append(_of_targets(Replicate(scores, design.in_mask[:1], np.arange(1)))[0])
            yield _row(fine, at, name, size, _spread(np.array(rows)))


def _drawn(n_models: int, target: int, size: int) -> np.ndarray:
    """The target, then random references."""
    others = np.delete(np.arange(n_models), target)
    references = np.random.default_rng([size, target]).choice(others, size, replace=False)
    return np.concatenate([[target], np.sort(references)])


def _spread(values: np.ndarray) -> dict[str, list[float]]:
    found = [mean_over_targets(values[:, k]) for k in range(len(FIGURES))]
    return {
        name: [round(float(v), 6) for v in (own.mean, max(own.interval.low, 0.0), own.interval.high)]
        for name, own in zip(FIGURES, found, strict=True)
    }


def _row(fine: Fine, at: int, attack: str, size: int, figures: dict[str, list[float]]) -> dict[str, Any]:
    return {
        "population": fine.name, "epoch": fine.epochs[at], "attack": attack, "references": size, **figures,
    }  # fmt: skip


def blind(in_mask: np.ndarray, corpus: Path) -> dict[str, list[float]]:
    """AUC of a regression on words, mean over memberships with its interval, and the largest.

    There are two sets of memberships: those of the models, and fresh ones that no model was trained on, which
    show what chance gives. All depends on documents and memberships alone, so the corpus keeps it.
    """
    file, digest = corpus / "blind.json", Design(in_mask).digest
    if file.exists() and json.loads(file.read_text())["design"] == digest:
        return dict(json.loads(file.read_text())["figures"])
    documents = read_documents(corpus)
    fresh = np.random.default_rng(1).random((2 * len(in_mask), in_mask.shape[1])) < 0.5
    figures = {}
    for name, masks in (("models", in_mask), ("fresh", fresh)):
        aucs = [_blind_auc(documents, members) for members in masks]
        found = mean_over_targets(np.array(aucs))
        ends = found.mean, found.interval.low, found.interval.high, max(aucs)
        figures[name] = [round(float(v), 6) for v in ends]
    file.write_text(json.dumps({"design": digest, "figures": figures}) + "\n")
    return figures


def _blind_auc(documents: list[str], members: np.ndarray) -> float:
    scores = text_shift_scores(lambda index: [documents[i] for i in index], members)
    return delong(scores, members, 0.95).auc


class Judge:
    """Attacks on all populations; each is computed once."""

    def __init__(self, home: Path, corpus: Path) -> None:
        self.zlib_bytes = read_corpus(corpus).zlib_bytes
        files = sorted(home.glob("*.npz"))
        self.fine = {file.stem: read_population(file) for file in files}
        self.n_shared = min(len(fine.in_mask) for fine in self.fine.values())
        self._known: dict[tuple[str, int, str, int], Attacked] = {}

    def of(self, name: str, at: int, attack: str, n_models: int) -> Attacked:
        """One attack on the first `n_models` of a population at a checkpoint."""
        key = name, at, attack, n_models
        if key not in self._known:
            spec = {**ALONE, **WITH_REFERENCES}[attack]
            self._known[key] = attacked(self.fine[name], at, spec, self.zlib_bytes, n_models)
        return self._known[key]

    def best(self, name: str) -> int:
        """The checkpoint with the lowest loss on non-members, over the shared models."""
        return int(np.argmin(self.validation(name)))

    def validation(self, name: str) -> list[float]:
        """Loss on non-members by checkpoint, mean over the shared models."""
        fine, models = self.fine[name], np.arange(self.n_shared)
        return [float(fine.losses(at, False, models).mean()) for at in range(len(fine.epochs))]

    def populations(self) -> Iterator[dict[str, Any]]:
        """Losses and attacks on the shared models of every population, by checkpoint."""
        models = np.arange(self.n_shared)
        for name, fine in self.fine.items():
            for at, epoch in enumerate(fine.epochs):
                print(f"{name}, epoch {epoch}", flush=True)
                yield {
                    "population": name,
                    "epoch": epoch,
                    "validation_loss": self.validation(name)[at],
                    "member_loss": float(fine.losses(at, True, models).mean()),
                    "highest_of_ez": self._highest_of_ez(fine, at, models),
                    "attacks": {
                        attack: self.of(name, at, attack, self.n_shared).figures for attack in COMPARED
                    },
                }

    @staticmethod
    def _highest_of_ez(fine: Fine, at: int, models: np.ndarray) -> list[float]:
        """Share of members, and of non-members, that have the highest possible score of EZ-MIA."""
        is_highest, members = fine.arrays["error_gap"][models, at] >= 1, fine.in_mask[models]
        return [round(float(is_highest[side].mean()), 6) for side in (members, ~members)]

    def references(self, n_targets: int) -> Iterator[dict[str, Any]]:
        """Attacks x numbers of references on the main population: lowest validation loss, and the end."""
        fine = self.fine["lora-8"]
        n_models = len(fine.in_mask)
        for at in sorted({self.best("lora-8"), len(fine.epochs) - 1}):
            for attack in (*ALONE, *WITH_REFERENCES):
                n_references = 0 if attack in ALONE else n_models - 1
                figures = self.of("lora-8", at, attack, n_models).figures
                yield _row(fine, at, attack, n_references, figures)
            for row in with_few(fine, at, self.zlib_bytes, n_targets):
                print(row["epoch"], row["references"], row["attack"], row["auc"], flush=True)
                yield row

    def between_attacks(self) -> Iterator[dict[str, Any]]:
        """Differences of attacks on the same models, by population and checkpoint."""
        for name in self.fine:
            for at, epoch in enumerate(self.fine[name].epochs):
                for first, second in PAIRS:
                    a, b = (self._at(name, at, attack) for attack in (first, second))
                    about = {"population": name, "epoch": epoch, "first": first, "second": second}
                    yield {**about, **_difference(a, b), "ratios": _ratios(a, b)}

    def between_populations(self) -> Iterator[dict[str, Any]]:
        """Each population and full fine-tuning: at equal epochs, and by validation loss."""
        for name in [name for name in self.fine if name != "full" and "full" in self.fine]:
            for attack in ("eb_lira", "ez_mia"):
                for when, own, full in self._pairs(name, attack):
                    listed = {
                        key: [round(float(v), 6) for v in one.figures]
                        for key, one in (("own", own), ("full", full))
                    }
                    about = {"population": name, "attack": attack, "when": when}
                    yield {**about, **listed, **_difference(own, full), "ratios": _ratios(full, own)}

    def _pairs(self, name: str, attack: str) -> Iterator[tuple[str, Replicated, Replicated]]:
        """(when, the population, full fine-tuning)."""
        for at, epoch in enumerate(self.fine["full"].epochs):
            own = self.fine[name].epochs.index(epoch)
            yield f"epoch {epoch}", self._at(name, own, attack), self._at("full", at, attack)
        own, best = self.best(name), self.best("full")
        yield LOWEST, self._at(name, own, attack), self._at("full", best, attack)
        losses, lowest = self.validation("full"), min(self.validation(name))
        as_good = [at for at, loss in enumerate(losses) if loss <= lowest]
        if as_good:
            yield AS_GOOD, self._at(name, own, attack), self._at("full", as_good[0], attack)

    def _at(self, name: str, at: int, attack: str) -> Replicated:
        return self.of(name, at, attack, self.n_shared).replicated


def _difference(first: Replicated, second: Replicated) -> dict[str, list[float]]:
    """First minus second: value and 95% interval of each figure, over groups of models left out in both."""
    found = jackknife_difference(second, first, is_paired=True)
    return {
        name: [round(float(v), 6) for v in (own.value, own.interval.low, own.interval.high)]
        for name, own in zip(FIGURES, found, strict=True)
    }


def _ratios(first: Replicated, second: Replicated) -> list[list[float]]:
    """First over second: value and 95% interval for each FPR, by the jackknife of the logarithm."""
    logs = [Replicated(*(np.log(np.maximum(v[..., 1:], SMALLEST)) for v in one)) for one in (second, first)]
    found = jackknife_difference(*logs, is_paired=True)
    ends = [(own.value, own.interval.low, own.interval.high) for own in found]
    return [[round(float(np.exp(v)), 6) for v in own] for own in ends]


def judge_home(home: Path, corpus: Path, results: Path, n_targets: int) -> None:
    """All figures of the study."""
    judge = Judge(home, corpus)
    tokens = read_corpus(corpus).tokens
    main = judge.fine["lora-8"]
    stored = {
        "corpus": _described(corpus, tokens),
        "base": json.loads((home / "base.json").read_text()) | {"private_loss": float(main.base_loss.mean())},
        "rates": json.loads((home / "rates.json").read_text()),
        "trained": [fine.about for fine in judge.fine.values()],
        "shared_models": judge.n_shared,
        "blind": blind(main.in_mask, corpus),
        "populations": list(judge.populations()),
        "references": list(judge.references(n_targets)),
        "between_attacks": list(judge.between_attacks()),
        "between_populations": list(judge.between_populations()),
    }
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(stored, separators=(",", ":")).replace("NaN", "null") + "\n")
    print(f"wrote {results}", flush=True)


def _described(corpus: Path, tokens: np.ndarray) -> dict[str, Any]:
    lines = (corpus / "packages.txt").read_text().splitlines()
    of_part = {part: sum(line.startswith(f"{part} ") for line in lines[1:]) for part in ("public", "private")}
    return {
        "records": len(tokens),
        "length": tokens.shape[1],
        "tokens": int((tokens >= 0).sum()),
        "public_packages": of_part["public"],
        "private_packages": of_part["private"],
    }
