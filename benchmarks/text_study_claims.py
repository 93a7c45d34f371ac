"""Published claims about fine-tuned language models, and the rules by which the text study settles them.

The rules were written before the models were trained, with four changes when the results were known. The
strongest attack was added to the comparison of LoRA with full fine-tuning, because EZ-MIA fails at an FPR
of 0.1% here. Equal quality was to be a checkpoint of full fine-tuning interpolated to the loss of LoRA; all
of its checkpoints turned out better than that, so the first of them stands for it. EZ-MIA's lead was to be
settled after the last epoch alone; the epoch with the lowest validation loss was added. The verdict at equal
quality was to follow the AUC; it now requires that the TPR agrees, because the two AUC are so close to 1.
"""

from __future__ import annotations

from typing import Any

from leakscope.studies.claims import Claim, Outcome, Settled

Results = dict[str, Any]
AS_GOOD = "full fine-tuning as soon as it is as good"
Difference = list[float]  # value, low, high

LORA = Claim(
    "lora",
    "After as many epochs, LoRA leaks far less than full fine-tuning",
    "TPR of EZ-MIA at 0.1% FPR: 82.6% under full fine-tuning, 1.5% under LoRA, a factor of 55",
    "GPT-2, XSum, 128 tokens; Ilić et al. 2026, as quoted by a summary of the authors' blog",
)
LORA_BY_STRONGEST = Claim(
    "lora_by_strongest", "The same, by the strongest attack here", LORA.published, LORA.protocol
)
LORA_AT_EQUAL_QUALITY = Claim(
    "lora_at_equal_quality",
    "At the same quality, LoRA leaks less than full fine-tuning",
    "less memorization at a comparable performance on the task",
    "language models of several sizes, similarity of generated text; Wang and Li 2025",
)
MIN_K = Claim(
    "min_k",
    "Min-k%++ is on par with the attack that compares with another model",
    "the best attack without a reference model, on par with the one with a reference model (AUC, MIMIR)",
    "pretraining data, a smaller model of the same family as the reference; Zhang et al. 2025",
)
MIN_K_AMONG_FREE = Claim(
    "min_k_among_free",
    "Min-k%++ is better than loss, zlib and min-k%",
    "6.2 to 10.5 points of AUC above the runner-up on WikiMIA; better on MIMIR as well",
    "pretraining data; Zhang et al. 2025",
)
EZ = Claim(
    "ez",
    "EZ-MIA leads the attacks that train no reference model: at the lowest validation loss",
    "TPR at 1% FPR: 66.3% against 17.5% of the best earlier attack, a factor of 3.8",
    "GPT-2, WikiText, full fine-tuning; Ilić et al. 2026",
)
EZ_AT_THE_END = Claim("ez_at_the_end", "The same, after the last epoch", EZ.published, EZ.protocol)
EZ_AGAINST_REFERENCES = Claim(
    "ez_against_references",
    "EZ-MIA detects more than attacks for which reference models are trained",
    "TPR at 0.1% FPR: 14.0% against 1.8% of the best earlier attack, without training a reference model",
    "GPT-2, WikiText, full fine-tuning; Ilić et al. 2026",
)
CLAIMS = (
    LORA, LORA_BY_STRONGEST, LORA_AT_EQUAL_QUALITY, MIN_K, MIN_K_AMONG_FREE, EZ, EZ_AT_THE_END,
    EZ_AGAINST_REFERENCES,
)  # fmt: skip
OF_FREE = ("loss", "zlib", "min_k")
OF_UNTRAINED = (*OF_FREE, "min_k_plus_plus", "base_model")
OTHER_DATA = "the claim is about pretraining data, and this is fine-tuning"
TPR_1, TPR_01 = 0, 1  # places among the ratios


def settle(results: Results) -> list[Settled]:
    """Every claim with its verdict."""
    if not any(row["population"] == "full" for row in results["populations"]):
        return [Settled(c, Outcome.NOT_TESTABLE, why="full fine-tuning was not trained") for c in CLAIMS]
    at_best = {name: best_epoch(results, name) for name in ("full", "lora-8")}
    return [
        settle_lora(results, LORA, "ez_mia"),
        settle_lora(results, LORA_BY_STRONGEST, "eb_lira"),
        _lora_at_equal_quality(results),
        _min_k(results),
        _min_k_among_free(results),
        _ez(results, EZ, at_best),
        _ez(results, EZ_AT_THE_END, dict.fromkeys(at_best, last_epoch(results))),
        _ez_against_references(results),
    ]


def _sign(difference: Difference) -> int:
    """1 or -1 where the interval excludes 0."""
    return 1 if difference[1] > 0 else -1 if difference[2] < 0 else 0


def settle_lora(results: Results, claim: Claim, attack: str) -> Settled:
    """Reproduced if the interval of the factor contains 55; TPR at 0.1%, at the last epoch."""
    last = last_epoch(results)
    row = between(results, "lora-8", attack, f"epoch {last}")
    value, low, high = row["ratios"][TPR_01]
    outcome = _outcome(-_sign(row["tpr_01"]), agrees=low <= 55 <= high)
    factor = f", a factor of {value:.2f} ({low:.2f} to {high:.2f})" if high < 100 * low else ""
    ours = (
        f"{percent(row['full'][2])} under full fine-tuning, {percent(row['own'][2])} under LoRA{factor}; "
        f"difference {signed(row['tpr_01'], 100)} points"
    )
    protocol = f"{attack}, rank 8, epoch {last}, each with its own learning rate"
    why = (
        ""
        if outcome is not Outcome.REFUTED
        else "by this attack, which fails at such an FPR; see the next row"
    )
    return Settled(claim, outcome, ours, protocol, why)


def _lora_at_equal_quality(results: Results) -> Settled:
    """LoRA at its lowest validation loss, and full fine-tuning when it first is as good; by EB-LiRA.

    AUC and TPR at 0.1% FPR must both say the same; otherwise the claim is not reproduced.
    """
    row = between(results, "lora-8", "eb_lira", AS_GOOD)
    ours = (
        f"AUC {row['own'][0]:.4f} under LoRA, {row['full'][0]:.4f} under full fine-tuning; difference "
        f"{signed(row['auc'], digits=4)}; TPR at 0.1% FPR {signed(row['tpr_01'], 100)} points"
    )
    own, full = as_good(results, "lora-8")
    protocol = (
        f"EB-LiRA; rank 8 at its lowest validation loss, {own['validation_loss']:.3f} (epoch "
        f"{own['epoch']}), and the first checkpoint of full fine-tuning that is at least as good, "
        f"{full['validation_loss']:.3f} (epoch {full['epoch']})"
    )
    return Settled(LORA_AT_EQUAL_QUALITY, _outcome(-leaks_more(row)), ours, protocol)


def leaks_more(row: Results) -> int:
    """1 or -1 where both the AUC and the TPR at 0.1% FPR are clearly above or below those of the other."""
    signs = {_sign(row["auc"]), _sign(row["tpr_01"])}
    return signs.pop() if len(signs) == 1 else 0


def as_good(results: Results, name: str) -> tuple[Results, Results]:
    """A population at its lowest validation loss, and full fine-tuning when it first is as good."""
    rows = [row for row in results["populations"] if row["population"] == name]
    own = min(rows, key=lambda row: float(row["validation_loss"]))
    full = [row for row in results["populations"] if row["population"] == "full"]
    return own, next(row for row in full if row["validation_loss"] <= own["validation_loss"])


def _min_k(results: Results) -> Settled:
    """Reproduced if the interval of the difference contains 0, in LoRA and in full fine-tuning."""
    rows = {name: pair(results, name, "min_k_plus_plus", "base_model") for name in ("lora-8", "full")}
    signs = {_sign(row["auc"]) for row in rows.values()}
    outcome = Outcome.SAME_DIRECTION if -1 not in signs else Outcome.NOT_REPRODUCED
    outcome = Outcome.REPRODUCED if signs == {0} else outcome
    ours = "; ".join(f"{label(name)}: AUC {signed(row['auc'])}" for name, row in rows.items())
    return Settled(MIN_K, outcome, f"Min-k%++ minus base_model: {ours}", lowest_loss(), OTHER_DATA)


def _min_k_among_free(results: Results) -> Settled:
    """Same direction if it is above all three in both populations, by more than noise."""
    parts, signs = [], set()
    for name in ("lora-8", "full"):
        rows = [pair(results, name, "min_k_plus_plus", other) for other in OF_FREE]
        nearest = min(rows, key=lambda row: float(row["auc"][0]))
        signs |= {_sign(row["auc"]) for row in rows}
        parts.append(f"{label(name)}: {signed(nearest['auc'])} ({nearest['second']})")
    outcome = Outcome.SAME_DIRECTION if signs == {1} else Outcome.NOT_REPRODUCED
    ours = f"AUC minus that of the best of the three: {'; '.join(parts)}"
    return Settled(MIN_K_AMONG_FREE, outcome, ours, lowest_loss(), OTHER_DATA)


def _ez(results: Results, claim: Claim, epochs: dict[str, int]) -> Settled:
    """Decided by full fine-tuning, as published; reproduced if the interval of the factor contains 3.8.

    The best rival is chosen by its TPR.
    """
    parts, outcome = [], Outcome.NOT_REPRODUCED
    for name, epoch in epochs.items():
        rows = [pair(results, name, "ez_mia", other, epoch) for other in OF_UNTRAINED]
        row = min(rows, key=lambda row: float(row["tpr_1"][0]))
        value, low, high = row["ratios"][TPR_1]
        parts.append(
            f"{label(name)}, epoch {epoch}: a factor of {value:.2f} ({low:.2f} to {high:.2f}) over "
            f"{row['second']}"
        )
        if name == "full":
            outcome = _outcome(_sign(row["tpr_1"]), agrees=low <= 3.8 <= high)
    protocol = "TPR at 1% FPR, five other attacks without training; full fine-tuning decides"
    return Settled(claim, outcome, "; ".join(parts), protocol)


def _ez_against_references(results: Results) -> Settled:
    """Decided by full fine-tuning at the last epoch, against EB-LiRA with all other models as references."""
    last, parts, outcome = last_epoch(results), [], Outcome.NOT_REPRODUCED
    for name in ("full", "lora-8"):
        row = pair(results, name, "ez_mia", "eb_lira", last)
        parts.append(f"{label(name)}: {signed(row['tpr_01'], 100)} points")
        if name == "full":
            outcome = _outcome(_sign(row["tpr_01"]))
    n_references = results["shared_models"] - 1
    protocol = f"TPR at 0.1% FPR, EZ-MIA minus EB-LiRA with {n_references} references, epoch {last}"
    return Settled(EZ_AGAINST_REFERENCES, outcome, "; ".join(parts), protocol)


def _outcome(sign: int, agrees: bool = False) -> Outcome:
    """Of a claim that a figure is above another one."""
    if sign == 1 and agrees:
        return Outcome.REPRODUCED
    return {1: Outcome.SAME_DIRECTION, 0: Outcome.NOT_REPRODUCED, -1: Outcome.REFUTED}[sign]


def lowest_loss() -> str:
    """How epochs are chosen where nothing else is said."""
    return "each population at the epoch with its lowest validation loss"


def last_epoch(results: Results) -> int:
    """Of all populations."""
    return max(int(row["epoch"]) for row in results["populations"])


def best_epoch(results: Results, name: str) -> int:
    """The epoch with the lowest validation loss."""
    rows = [row for row in results["populations"] if row["population"] == name]
    return int(min(rows, key=lambda row: float(row["validation_loss"]))["epoch"])


def pair(results: Results, name: str, first: str, second: str, epoch: int | None = None) -> Results:
    """Two attacks on a population, at an epoch or where it generalizes best."""
    at = best_epoch(results, name) if epoch is None else epoch
    wanted = {"population": name, "epoch": at, "first": first, "second": second}
    return next(row for row in results["between_attacks"] if wanted.items() <= row.items())


def between(results: Results, name: str, attack: str, when: str) -> Results:
    """A population and full fine-tuning."""
    wanted = {"population": name, "attack": attack, "when": when}
    return next(row for row in results["between_populations"] if wanted.items() <= row.items())


def label(name: str) -> str:
    """Of a population."""
    kind, _, number = name.partition("-")
    return {"lora": f"LoRA, rank {number}", "dp": f"DP-LoRA, epsilon {number}", "full": "full fine-tuning"}[
        kind
    ]


def percent(value: float) -> str:
    """With two digits."""
    return f"{100 * value:.2g}%" if value < 0.995 else f"{100 * value:.0f}%"


def signed(difference: Difference, unit: float = 1.0, digits: int | None = None) -> str:
    """A difference with its interval."""
    value, low, high = (unit * v for v in difference)
    digits = digits or (3 if unit == 1 else 1)
    return f"{value:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"
